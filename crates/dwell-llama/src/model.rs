//! A loaded model: weights, vocabulary, metadata.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

use dwell_events::engine::{EngineEvent, EngineOptions};
use dwell_events::llama_log::reported_buffers;
use dwell_events::server::ReportedBuffer;
use llama_cpp_sys_2 as sys;

use crate::{EngineError, JobObserver, log};

/// Progress is told in steps of this size, so that a large file does not flood the observer.
const PROGRESS_STEP: f32 = 0.02;

/// A loaded model; freed when dropped.
#[derive(Debug)]
pub(crate) struct Model {
    pointer: NonNull<sys::llama_model>,
    architecture: String,
    buffers: Vec<ReportedBuffer>,
}

impl Model {
    /// Loads the model of these options; `None` if the observer interrupted it.
    pub(crate) fn load(options: &EngineOptions, observer: &mut dyn JobObserver) -> Result<Option<Model>, EngineError> {
        log::install();
        log::forget();
        log::take_buffer_lines();
        let path = &options.model;
        let Ok(c_path) = CString::new(path.as_os_str().as_bytes()) else {
            return Err(EngineError::ModelNotAFile { found: "a path with a NUL byte", path: path.clone() });
        };
        let mut progress = Progress { observer, last_fraction: 0.0, interrupted: false };
        // SAFETY: has no preconditions.
        let mut params = unsafe { sys::llama_model_default_params() };
        params.n_gpu_layers = 0;
        params.load_mode = if options.mmap { sys::LLAMA_LOAD_MODE_MMAP } else { sys::LLAMA_LOAD_MODE_NONE };
        params.use_extra_bufts = options.repack;
        params.progress_callback = Some(on_progress);
        params.progress_callback_user_data = ptr::from_mut(&mut progress).cast();
        // SAFETY: the path is NUL-terminated and, like the progress, outlives the call.
        let pointer = unsafe { sys::llama_model_load_from_file(c_path.as_ptr(), params) };
        let Some(pointer) = NonNull::new(pointer) else {
            return if progress.interrupted { Ok(None) } else { Err(refusal(path)) };
        };
        let buffers = reported_buffers(&log::take_buffer_lines());
        let mut model = Model { pointer, architecture: String::new(), buffers };
        model.architecture = model.metadata("general.architecture").unwrap_or_default();
        model.check_generates(path)?;
        Ok(Some(model))
    }

    /// Refuses models that need another kind of run than prompt and decode.
    fn check_generates(&self, path: &Path) -> Result<(), EngineError> {
        // SAFETY: the model is loaded; the vocabulary belongs to it.
        let (encodes, diffuses, vocabulary_type) = unsafe {
            (
                sys::llama_model_has_encoder(self.as_ptr()) || !sys::llama_model_has_decoder(self.as_ptr()),
                sys::llama_model_is_diffusion(self.as_ptr()),
                sys::llama_vocab_type(self.vocabulary()),
            )
        };
        let found = match () {
            () if encodes => "a model with an encoder",
            () if diffuses => "a diffusion model",
            () if vocabulary_type == sys::LLAMA_VOCAB_TYPE_NONE => "a model without a vocabulary",
            () => return Ok(()),
        };
        Err(EngineError::NotAGenerator { found, path: path.to_owned() })
    }

    /// Buffers that hold the weights.
    pub(crate) fn buffers(&self) -> &[ReportedBuffer] {
        &self.buffers
    }

    /// The model for calls into llama.cpp.
    pub(crate) fn as_ptr(&self) -> *mut sys::llama_model {
        self.pointer.as_ptr()
    }

    /// The vocabulary for calls into llama.cpp; lives as long as the model.
    pub(crate) fn vocabulary(&self) -> *const sys::llama_vocab {
        // SAFETY: the model is loaded.
        unsafe { sys::llama_model_get_vocab(self.as_ptr()) }
    }

    /// Tokens in the vocabulary.
    pub(crate) fn vocabulary_size(&self) -> u32 {
        // SAFETY: the vocabulary belongs to the loaded model.
        unsafe { sys::llama_vocab_n_tokens(self.vocabulary()) }.cast_unsigned()
    }

    /// llama.cpp's description, such as `llama 135M Q4_1`.
    pub(crate) fn description(&self) -> String {
        // SAFETY: the model is loaded; the writer keeps to the buffer it is given.
        read_text(|buffer, bytes| unsafe { sys::llama_model_desc(self.as_ptr(), buffer, bytes) }).unwrap_or_default()
    }

    /// Number of parameters.
    pub(crate) fn parameters(&self) -> u64 {
        // SAFETY: the model is loaded.
        unsafe { sys::llama_model_n_params(self.as_ptr()) }
    }

    /// Bytes of all tensors.
    pub(crate) fn size_bytes(&self) -> u64 {
        // SAFETY: the model is loaded.
        unsafe { sys::llama_model_size(self.as_ptr()) }
    }

    /// Number of layers.
    pub(crate) fn layers(&self) -> u32 {
        // SAFETY: the model is loaded.
        unsafe { sys::llama_model_n_layer(self.as_ptr()) }.cast_unsigned()
    }

    /// Window of sliding-window layers; 0 if there are none.
    pub(crate) fn sliding_window(&self) -> u32 {
        // SAFETY: the model is loaded.
        unsafe { sys::llama_model_n_swa(self.as_ptr()) }.cast_unsigned()
    }

    /// Whether some layers keep a state instead of a cache.
    pub(crate) fn has_recurrent_state(&self) -> bool {
        // SAFETY: the model is loaded.
        unsafe { sys::llama_model_is_recurrent(self.as_ptr()) || sys::llama_model_is_hybrid(self.as_ptr()) }
    }

    /// Values of a key per head.
    pub(crate) fn key_head_size(&self) -> Option<u64> {
        self.architecture_number("attention.key_length").or_else(|| self.embedding_per_head())
    }

    /// Values of a value per head.
    pub(crate) fn value_head_size(&self) -> Option<u64> {
        self.architecture_number("attention.value_length").or_else(|| self.embedding_per_head())
    }

    fn embedding_per_head(&self) -> Option<u64> {
        self.architecture_number("embedding_length")?.checked_div(self.architecture_number("attention.head_count")?)
    }

    /// A number of the metadata under the architecture's name; `None` also if it differs from layer to layer.
    pub(crate) fn architecture_number(&self, key: &str) -> Option<u64> {
        self.metadata(&format!("{}.{key}", self.architecture))?.parse().ok()
    }

    /// A scalar of the metadata as text.
    fn metadata(&self, key: &str) -> Option<String> {
        let key = CString::new(key).ok()?;
        // SAFETY: the model is loaded, the key is NUL-terminated, the writer keeps to the buffer it is given.
        read_text(|buffer, bytes| unsafe { sys::llama_model_meta_val_str(self.as_ptr(), key.as_ptr(), buffer, bytes) })
    }

    /// The model's chat template.
    pub(crate) fn chat_template(&self) -> Option<&CStr> {
        // SAFETY: the model is loaded; a null name asks for the default template.
        let template = unsafe { sys::llama_model_chat_template(self.as_ptr(), ptr::null()) };
        // SAFETY: llama.cpp gives null or a NUL-terminated text that lives as long as the model.
        (!template.is_null()).then(|| unsafe { CStr::from_ptr(template) })
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: contexts borrow the model, so none is left; the pointer is freed only here.
        unsafe { sys::llama_model_free(self.pointer.as_ptr()) };
    }
}

/// Reads a text from a function with the manner of `snprintf`.
fn read_text(write: impl Fn(*mut c_char, usize) -> i32) -> Option<String> {
    let mut buffer = vec![0u8; 256];
    loop {
        let bytes = usize::try_from(write(buffer.as_mut_ptr().cast(), buffer.len())).ok()?;
        if bytes < buffer.len() {
            buffer.truncate(bytes);
            return Some(String::from_utf8_lossy(&buffer).into_owned());
        }
        buffer.resize(bytes + 1, 0);
    }
}

struct Progress<'observer> {
    observer: &'observer mut dyn JobObserver,
    last_fraction: f32,
    interrupted: bool,
}

unsafe extern "C" fn on_progress(fraction: f32, data: *mut c_void) -> bool {
    // SAFETY: the data is the progress that `load` keeps alive and does not touch during the call.
    let progress = unsafe { &mut *data.cast::<Progress>() };
    let is_end = fraction >= 1.0 && progress.last_fraction < 1.0;
    if is_end || fraction - progress.last_fraction >= PROGRESS_STEP {
        progress.last_fraction = fraction;
        progress.observer.event(EngineEvent::LoadProgress { fraction: fraction.clamp(0.0, 1.0) });
    }
    progress.interrupted |= progress.observer.is_interrupted();
    !progress.interrupted
}

/// Turns what llama.cpp logged into an error.
pub(crate) fn refusal(path: &Path) -> EngineError {
    let path = path.to_owned();
    let reason = log::reason().replace("error loading model: ", "");
    if let Some(architecture) = quoted_after(&reason, "unknown model architecture: '") {
        return EngineError::UnknownArchitecture { architecture, path };
    }
    let signs = ["not within the file bounds", "exceeds remaining file size", "failed to read"];
    // A file of a later version cannot be read either, but is whole.
    if signs.iter().any(|sign| reason.contains(sign)) && !reason.contains("only supports up to version") {
        return EngineError::ModelIncomplete { reason, path };
    }
    EngineError::ModelRefused { reason, path }
}

fn quoted_after(text: &str, marker: &str) -> Option<String> {
    let (_, rest) = text.split_once(marker)?;
    rest.split_once('\'').map(|(quoted, _)| quoted.to_owned())
}
