//! The functions of one ggml: those that the recorder calls.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;

use dwell_ggml::abi::Api;

use crate::scopes::Scopes;

/// `ggml_abort_callback`.
pub(crate) type AbortCallback = unsafe extern "C-unwind" fn(*mut c_void) -> bool;
/// `ggml_backend_set_abort_callback_t`.
pub(crate) type SetAbortCallback = unsafe extern "C-unwind" fn(*mut c_void, Option<AbortCallback>, *mut c_void);

/// Name under which a backend's registry has its [`SetAbortCallback`].
pub(crate) const SET_ABORT_CALLBACK: &CStr = c"ggml_backend_set_abort_callback";

/// The functions of one ggml library.
pub(crate) struct LibraryFunctions {
    /// What the recorder calls.
    pub(crate) api: Api,
    /// None if this ggml lacks one of them: operations then have no times of their own.
    backends: Option<Backends>,
    /// What sets the abort callback of a processor's backend, if it is visible.
    set_cpu_callback: Option<SetAbortCallback>,
    /// Where this library, the recorder's, is.
    own_range: Range<usize>,
    /// Where all of them are.
    addresses: Vec<usize>,
    /// The file that the library was loaded from; empty for the program itself.
    pub(crate) path: String,
}

/// The way from a scheduler to the function that sets the processor's abort callback.
struct Backends {
    ggml_backend_sched_get_n_backends: unsafe extern "C" fn(*mut c_void) -> c_int,
    ggml_backend_sched_get_backend: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    ggml_backend_get_device: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    ggml_backend_dev_backend_reg: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    ggml_backend_reg_get_proc_address: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void,
}

/// Fills a struct whose fields are named like functions with these functions; `None` if one of them is not found.
macro_rules! functions {
    ($find:ident, $type:ident { $($name:ident,)* }) => {
        (|| Some($type { $($name: {
            let address = $find(c_name(concat!(stringify!($name), "\0")))?;
            // SAFETY: the field is a pointer to a function of this exported name, whose type ggml has not changed since
            // the function exists.
            unsafe { std::mem::transmute::<usize, _>(address) }
        },)* }))()
    };
}

fn c_name(name: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or(c"")
}

/// The ggml that a function is part of; `None` if it lacks something that the recorder needs.
#[allow(clippy::missing_transmute_annotations, reason = "the fields that are filled say the types")]
pub(crate) fn around(scopes: &Scopes<'_>, function: usize) -> Option<LibraryFunctions> {
    let library = scopes.containing(function)?;
    let mut addresses = Vec::new();
    // Its own first: that is what the library's code works with, whatever else is in its scope. Never another library's
    // that is not: it would be another ggml.
    let mut find = |name: &CStr| {
        let own = scopes.own_definition(library, name);
        let address = own.or_else(|| scopes.local_definition(library, name))?;
        addresses.push(address);
        Some(address)
    };
    let api = functions!(
        find,
        Api {
            ggml_graph_n_nodes,
            ggml_graph_node,
            ggml_op_name,
            ggml_type_name,
            ggml_type_size,
            ggml_blck_size,
            ggml_nbytes,
            ggml_get_name,
            ggml_get_data,
            ggml_backend_buffer_get_base,
            ggml_backend_buffer_get_size,
            ggml_backend_buffer_get_usage,
            ggml_backend_buffer_name,
            ggml_backend_buffer_is_host,
        }
    )?;
    let backends = functions!(
        find,
        Backends {
            ggml_backend_sched_get_n_backends,
            ggml_backend_sched_get_backend,
            ggml_backend_get_device,
            ggml_backend_dev_backend_reg,
            ggml_backend_reg_get_proc_address,
        }
    );
    let set_cpu_callback = find(c"ggml_backend_cpu_set_abort_callback")
        // SAFETY: the exported function has this type since it exists.
        .map(|address| unsafe { std::mem::transmute::<usize, SetAbortCallback>(address) });
    let defining = addresses.first().and_then(|&address| scopes.containing(address)).unwrap_or(library);
    let path = String::from_utf8_lossy(scopes.path(defining)).into_owned();
    let own_range = scopes.own_range();
    Some(LibraryFunctions { api, backends, set_cpu_callback, own_range, addresses, path })
}

impl LibraryFunctions {
    /// Whether both are the same library, at the same place. At one address there may be different files over time.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.addresses == other.addresses && self.path == other.path
    }

    /// Gives every backend of a scheduler that has abort callbacks, with the function that sets them, to `each`.
    ///
    /// # Safety
    /// `scheduler` is a live scheduler of this ggml.
    pub(crate) unsafe fn for_each_backend(
        &self,
        scheduler: *mut c_void,
        mut each: impl FnMut(*mut c_void, SetAbortCallback),
    ) {
        let Some(backends) = &self.backends else { return };
        // SAFETY: the caller gives a live scheduler, and backends of it are asked about.
        unsafe {
            for index in 0..(backends.ggml_backend_sched_get_n_backends)(scheduler) {
                let backend = (backends.ggml_backend_sched_get_backend)(scheduler, index);
                if let Some(set) = self.callback_setter(backends, backend) {
                    each(backend, set);
                }
            }
        }
    }

    /// # Safety
    /// `backend` is a live backend of this ggml.
    unsafe fn callback_setter(&self, backends: &Backends, backend: *mut c_void) -> Option<SetAbortCallback> {
        // SAFETY: the caller gives a live backend; the rest of the chain is ggml's own objects.
        unsafe {
            let device = (backends.ggml_backend_get_device)(backend);
            if device.is_null() {
                return None;
            }
            let registry = (backends.ggml_backend_dev_backend_reg)(device);
            if registry.is_null() {
                return None;
            }
            let function = (backends.ggml_backend_reg_get_proc_address)(registry, SET_ABORT_CALLBACK.as_ptr());
            // A processor's backend answers with a symbol that the loader may have bound to our stand-in for it.
            if self.own_range.contains(&(function as usize)) {
                return self.set_cpu_callback;
            }
            std::mem::transmute::<*mut c_void, Option<SetAbortCallback>>(function)
        }
    }
}
