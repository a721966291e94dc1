//! The functions that this library stands in for, found in the running program.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use dwell_ggml::abi::{Api, Tensor};

/// `ggml_abort_callback`.
pub(crate) type AbortCallback = unsafe extern "C" fn(*mut c_void) -> bool;
type SetAbortCallback = unsafe extern "C" fn(*mut c_void, Option<AbortCallback>, *mut c_void);

/// The functions that this library stands in for. Each is found when it is first called, so a program that has only
/// some of them runs on.
pub(crate) struct Originals {
    pub(crate) graph_compute_async: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>,
    pub(crate) alloc_graph: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> bool>,
    pub(crate) tensor_alloc: Option<unsafe extern "C" fn(*mut c_void, *mut Tensor, *mut c_void) -> c_int>,
    pub(crate) tensor_set: Option<unsafe extern "C" fn(*mut Tensor, *const c_void, usize, usize)>,
    pub(crate) tensor_get: Option<unsafe extern "C" fn(*const Tensor, *mut c_void, usize, usize)>,
    pub(crate) tensor_get_async: Option<unsafe extern "C" fn(*mut c_void, *const Tensor, *mut c_void, usize, usize)>,
    pub(crate) buffer_clear: Option<unsafe extern "C" fn(*mut c_void, u8)>,
    /// What the recorder calls; none if the program's ggml lacks one of them.
    pub(crate) api: Option<Api>,
    backends: Option<Backends>,
}

/// The way from a scheduler to the function that sets the processor's abort callback.
struct Backends {
    count: unsafe extern "C" fn(*mut c_void) -> c_int,
    get: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    device_of: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    registry_of: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    function_of: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void,
}

impl Originals {
    /// The originals of this program.
    pub(crate) fn get() -> &'static Originals {
        static ORIGINALS: OnceLock<Originals> = OnceLock::new();
        // SAFETY: each name is that of an exported C function with exactly the type of the field it goes to.
        ORIGINALS.get_or_init(|| unsafe { find_originals() })
    }

    /// Has the processor's backends call this function after each node.
    ///
    /// # Safety
    /// `scheduler` is a live scheduler of the program's ggml.
    pub(crate) unsafe fn set_abort_callback(&self, scheduler: *mut c_void, callback: Option<AbortCallback>) {
        let Some(backends) = &self.backends else { return };
        // SAFETY: the caller gives a live scheduler; the rest of the chain is ggml's own objects.
        unsafe {
            for index in 0..(backends.count)(scheduler) {
                let backend = (backends.get)(scheduler, index);
                let device = (backends.device_of)(backend);
                if device.is_null() {
                    continue;
                }
                let registry = (backends.registry_of)(device);
                let function = (backends.function_of)(registry, c"ggml_backend_set_abort_callback".as_ptr());
                if !function.is_null() {
                    let set: SetAbortCallback = std::mem::transmute(function);
                    set(backend, callback, std::ptr::null_mut());
                }
            }
        }
    }
}

/// llama.cpp's own function of that name, if the program has it.
pub(crate) fn llama_set_abort_callback() -> Option<SetAbortCallback> {
    // SAFETY: the exported function has this type since it exists.
    unsafe { find(c"llama_set_abort_callback") }
}

/// # Safety
/// The names below are those of functions with the types they are given.
unsafe fn find_originals() -> Originals {
    // SAFETY: as promised by the caller for each name.
    unsafe {
        let backends = || {
            Some(Backends {
                count: find(c"ggml_backend_sched_get_n_backends")?,
                get: find(c"ggml_backend_sched_get_backend")?,
                device_of: find(c"ggml_backend_get_device")?,
                registry_of: find(c"ggml_backend_dev_backend_reg")?,
                function_of: find(c"ggml_backend_reg_get_proc_address")?,
            })
        };
        let api = || {
            Some(Api {
                ggml_graph_n_nodes: find(c"ggml_graph_n_nodes")?,
                ggml_graph_node: find(c"ggml_graph_node")?,
                ggml_op_name: find(c"ggml_op_name")?,
                ggml_type_name: find(c"ggml_type_name")?,
                ggml_type_size: find(c"ggml_type_size")?,
                ggml_blck_size: find(c"ggml_blck_size")?,
                ggml_nbytes: find(c"ggml_nbytes")?,
                ggml_get_name: find(c"ggml_get_name")?,
                ggml_get_data: find(c"ggml_get_data")?,
                ggml_backend_buffer_get_base: find(c"ggml_backend_buffer_get_base")?,
                ggml_backend_buffer_get_size: find(c"ggml_backend_buffer_get_size")?,
                ggml_backend_buffer_get_usage: find(c"ggml_backend_buffer_get_usage")?,
                ggml_backend_buffer_name: find(c"ggml_backend_buffer_name")?,
                ggml_backend_buffer_is_host: find(c"ggml_backend_buffer_is_host")?,
            })
        };
        Originals {
            graph_compute_async: find(c"ggml_backend_sched_graph_compute_async"),
            alloc_graph: find(c"ggml_backend_sched_alloc_graph"),
            tensor_alloc: find(c"ggml_backend_tensor_alloc"),
            tensor_set: find(c"ggml_backend_tensor_set"),
            tensor_get: find(c"ggml_backend_tensor_get"),
            tensor_get_async: find(c"ggml_backend_tensor_get_async"),
            buffer_clear: find(c"ggml_backend_buffer_clear"),
            api: api(),
            backends: backends(),
        }
    }
}

/// Finds a function after this library in the search order; programs that load ggml privately (node addons) do not have
/// it in that order, so the loaded ggml and llama libraries are asked too.
///
/// # Safety
/// The function of this name, if there is one, has the type `F`.
unsafe fn find<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: dlsym with a valid name and the handles it documents.
    let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if address.is_null() {
        address = loaded_libraries().iter().map(|&handle| symbol_in(handle, name)).find(|found| !found.is_null())?;
    }
    // SAFETY: the address is that of the function, which has the type `F`, and a function pointer has this size.
    Some(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
}

fn symbol_in(handle: usize, name: &CStr) -> *mut c_void {
    // SAFETY: the handle comes from dlopen and is never closed.
    unsafe { libc::dlsym(handle as *mut c_void, name.as_ptr()) }
}

/// Handles of the ggml and llama libraries that the program has loaded.
fn loaded_libraries() -> Vec<usize> {
    let mut handles: Vec<usize> = Vec::new();
    // SAFETY: the callback gets the vector that is passed along and uses it only during the call.
    unsafe { libc::dl_iterate_phdr(Some(add_library), (&raw mut handles).cast()) };
    handles
}

unsafe extern "C" fn add_library(info: *mut libc::dl_phdr_info, _: libc::size_t, handles: *mut c_void) -> c_int {
    // SAFETY: the loader gives a valid record with a C string, and `handles` is the vector passed to the iteration.
    unsafe {
        let name = CStr::from_ptr((*info).dlpi_name);
        let file_name = name.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if file_name.starts_with(b"libggml") || file_name.starts_with(b"libllama") {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if !handle.is_null() {
                (*handles.cast::<Vec<usize>>()).push(handle as usize);
            }
        }
    }
    0
}
