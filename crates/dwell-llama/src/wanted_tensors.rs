//! Which tensors llama.cpp wants of a model, by its metadata alone.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use llama_cpp_sys_2 as sys;

use crate::model::refusal;
use crate::{EngineError, log};

/// A tensor that llama.cpp wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedTensor {
    /// Name.
    pub name: String,
    /// Dimensions, the row first, without those at the end that are 1.
    pub dimensions: Vec<u64>,
}

/// The tensors of a model with the metadata of this GGUF file, which needs to have no tensors: those that it must have and
/// those that it may have.
pub fn wanted_tensors(metadata: &Path) -> Result<Vec<WantedTensor>, EngineError> {
    log::install();
    log::forget();
    let Ok(path) = CString::new(metadata.as_os_str().as_bytes()) else {
        return Err(EngineError::ModelNotAFile { found: "a path with a NUL byte", path: metadata.to_owned() });
    };
    let mut wanted: Vec<WantedTensor> = Vec::new();
    // SAFETY: the path is NUL-terminated and outlives the call. The context is checked, given to one call and freed; the
    // list outlives the model, which calls back only while it is made.
    let is_loaded = unsafe {
        let context =
            sys::gguf_init_from_file(path.as_ptr(), sys::gguf_init_params { no_alloc: true, ctx: ptr::null_mut() });
        if context.is_null() {
            return Err(refusal(metadata));
        }
        let mut params = sys::llama_model_default_params();
        params.n_gpu_layers = 0;
        let model =
            sys::llama_model_init_from_user(context, Some(note), ptr::from_mut(&mut wanted).cast::<c_void>(), params);
        sys::gguf_free(context);
        if !model.is_null() {
            sys::llama_model_free(model);
        }
        !model.is_null()
    };
    if is_loaded { Ok(wanted) } else { Err(refusal(metadata)) }
}

/// Adds a tensor to the list. One that is used in several layers comes once for each.
unsafe extern "C" fn note(tensor: *mut sys::ggml_tensor, wanted: *mut c_void) {
    // SAFETY: llama.cpp gives a tensor that it has just made, and the list that it was given.
    let (tensor, wanted) = unsafe { (&*tensor, &mut *wanted.cast::<Vec<WantedTensor>>()) };
    // SAFETY: names of tensors end with a NUL.
    let name = unsafe { CStr::from_ptr(tensor.name.as_ptr()) }.to_string_lossy().into_owned();
    if wanted.iter().any(|known| known.name == name) {
        return;
    }
    let used = tensor.ne.iter().rposition(|&entries| entries != 1).map_or(1, |last| last + 1);
    let dimensions = tensor.ne[..used].iter().map(|&entries| entries.cast_unsigned()).collect();
    wanted.push(WantedTensor { name, dimensions });
}
