//! A context: the KV cache of a model and the buffers of its computations.

use std::marker::PhantomData;
use std::ptr::NonNull;

use dwell_events::engine::{EngineOptions, KvType};
use dwell_events::llama_log::reported_buffers;
use dwell_events::server::ReportedBuffer;
use llama_cpp_sys_2 as sys;

use crate::batch::Batch;
use crate::model::Model;
use crate::tap::{TapSlot, on_tensor};
use crate::{EngineError, Hooks, log, memory};

/// How a computation ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// All tokens were computed.
    Whole,
    /// The hook asked to stop.
    Aborted,
}

/// A context of a model; freed when dropped.
pub(crate) struct Context<'model> {
    pointer: NonNull<sys::llama_context>,
    /// Kept for llama.cpp, which calls it.
    _tap: Option<TapSlot<'model>>,
    vocabulary_size: usize,
    is_shift_safe: bool,
    buffers: Vec<ReportedBuffer>,
    model: PhantomData<&'model Model>,
}

impl<'model> Context<'model> {
    /// Makes a context.
    pub(crate) fn new(
        model: &'model Model,
        options: &EngineOptions,
        hooks: Hooks<'model>,
    ) -> Result<Self, EngineError> {
        memory::check_blocks_fill_heads(model, options)?;
        memory::check_cache_fits(model, options)?;
        log::forget();
        log::take_buffer_lines();
        let mut params = params(options, &hooks);
        let tap = hooks.tap.map(TapSlot::new);
        if let Some(tap) = &tap {
            params.cb_eval = Some(on_tensor);
            params.cb_eval_user_data = tap.as_data();
        }
        // SAFETY: the model is loaded and, by the lifetime, outlives the context; the tap is freed after it.
        let pointer = unsafe { sys::llama_init_from_model(model.as_ptr(), params) };
        let pointer = NonNull::new(pointer).ok_or_else(|| EngineError::ContextRefused { reason: log::reason() })?;
        let buffers = reported_buffers(&log::take_buffer_lines());
        let vocabulary_size = model.vocabulary_size() as usize;
        let is_shift_safe = is_shift_safe(model, options);
        let context = Context { pointer, _tap: tap, vocabulary_size, is_shift_safe, buffers, model: PhantomData };
        context.check_generates(options)?;
        Ok(context)
    }

    /// Refuses models that see the whole text at once or keep nothing of it.
    fn check_generates(&self, options: &EngineOptions) -> Result<(), EngineError> {
        // SAFETY: the context is alive.
        let (causal, memory) = unsafe { (sys::llama_get_causal_attn(self.as_ptr()), self.memory()) };
        if causal && !memory.is_null() {
            return Ok(());
        }
        Err(EngineError::NotAGenerator { found: "a model for embeddings", path: options.model.clone() })
    }

    fn as_ptr(&self) -> *mut sys::llama_context {
        self.pointer.as_ptr()
    }

    fn memory(&self) -> sys::llama_memory_t {
        // SAFETY: the context is alive.
        unsafe { sys::llama_get_memory(self.as_ptr()) }
    }

    /// Buffers of the KV cache, the computation and its results.
    pub(crate) fn buffers(&self) -> &[ReportedBuffer] {
        &self.buffers
    }

    /// Positions over all sequences.
    pub(crate) fn context_length(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_ctx(self.as_ptr()) }
    }

    /// Positions per sequence.
    pub(crate) fn context_per_sequence(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_ctx_seq(self.as_ptr()) }
    }

    /// Most tokens per batch: llama.cpp aborts on more.
    pub(crate) fn batch_size(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_batch(self.as_ptr()) }
    }

    /// Processor threads.
    pub(crate) fn threads(&self) -> u32 {
        // SAFETY: the context is alive.
        unsafe { sys::llama_n_threads(self.as_ptr()) }.cast_unsigned()
    }

    /// Computes a batch and waits until it is done.
    pub(crate) fn decode(&mut self, batch: &Batch) -> Result<Decoded, EngineError> {
        log::forget();
        // SAFETY: the context is alive and the batch has as many entries as it says.
        let code = unsafe { sys::llama_decode(self.as_ptr(), batch.as_raw()) };
        // SAFETY: the context is alive.
        unsafe { sys::llama_synchronize(self.as_ptr()) };
        match code {
            0 => Ok(Decoded::Whole),
            2 => Ok(Decoded::Aborted),
            _ => Err(EngineError::Decode { tokens: batch.tokens().len(), code, reason: log::reason() }),
        }
    }

    /// Logits of a token of the last batch, if it was an output.
    pub(crate) fn logits(&self, batch_index: usize) -> Option<&[f32]> {
        // SAFETY: the context is alive; llama.cpp checks the index and gives null for one without output.
        let logits = unsafe { sys::llama_get_logits_ith(self.as_ptr(), i32::try_from(batch_index).ok()?) };
        // SAFETY: logits that are not null are a row as long as the vocabulary, valid until the next decode,
        // which borrows the context mutably.
        (!logits.is_null()).then(|| unsafe { std::slice::from_raw_parts(logits, self.vocabulary_size) })
    }

    /// Removes positions of a sequence; `to` < 0 means to the end. False if the memory cannot do that.
    pub(crate) fn remove(&mut self, sequence: i32, from: i32, to: i32) -> bool {
        // SAFETY: the memory is alive; the sequence was checked to be one of the context.
        unsafe { sys::llama_memory_seq_rm(self.memory(), sequence, from, to) }
    }

    /// Lets a sequence share or copy all cells of another.
    pub(crate) fn copy(&mut self, source: i32, target: i32) {
        // SAFETY: the memory is alive; the sequences were checked to be of the context.
        unsafe { sys::llama_memory_seq_cp(self.memory(), source, target, -1, -1) };
    }

    /// Moves positions of a sequence; only after [`can_shift`](Context::can_shift).
    pub(crate) fn shift(&mut self, sequence: i32, from: i32, to: i32, delta: i32) {
        // SAFETY: the memory is alive; the sequence was checked to be one of the context.
        unsafe { sys::llama_memory_seq_add(self.memory(), sequence, from, to, delta) };
    }

    /// Whether positions can be moved: llama.cpp ends the process at the next batch if they are and cannot.
    pub(crate) fn can_shift(&self) -> bool {
        // SAFETY: the memory is alive.
        self.is_shift_safe && unsafe { sys::llama_memory_can_shift(self.memory()) }
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: the pointer is freed only here.
        unsafe { sys::llama_free(self.pointer.as_ptr()) };
    }
}

/// Whether llama.cpp can rotate the keys of this cache by a shift.
///
/// Its shift of quantised keys goes through the Hadamard matrix that it otherwise mixes them with, and follows a
/// null pointer where it uses none: for heads of other than multiples of 64 values, or when it is switched off.
fn is_shift_safe(model: &Model, options: &EngineOptions) -> bool {
    let has_mixing = std::env::var_os("LLAMA_ATTN_ROT_DISABLE").is_none();
    let windowed_head_size = model.architecture_number("attention.key_length_swa");
    let has_whole_heads = model.key_head_size().is_some_and(|head_size| {
        head_size.is_multiple_of(64) && windowed_head_size.is_none_or(|windowed| windowed == head_size)
    });
    options.kv_type_k == KvType::F16 || has_mixing && has_whole_heads
}

fn params(options: &EngineOptions, hooks: &Hooks<'_>) -> sys::llama_context_params {
    let threads = options.threads.cast_signed();
    // SAFETY: has no preconditions.
    let mut params = unsafe { sys::llama_context_default_params() };
    params.n_ctx = options.context_length;
    params.n_batch = options.batch_size;
    params.n_ubatch = options.micro_batch_size;
    params.n_seq_max = options.parallel;
    params.n_threads = threads;
    params.n_threads_batch = threads;
    params.flash_attn_type = match options.flash_attention {
        true => sys::LLAMA_FLASH_ATTN_TYPE_ENABLED,
        false => sys::LLAMA_FLASH_ATTN_TYPE_DISABLED,
    };
    params.type_k = ggml_type(options.kv_type_k);
    params.type_v = ggml_type(options.kv_type_v);
    params.kv_unified = options.kv_unified;
    params.swa_full = options.full_window_cache;
    params.no_perf = false;
    params.abort_callback = hooks.after_node;
    params.abort_callback_data = hooks.after_node_data;
    params
}

fn ggml_type(kv_type: KvType) -> sys::ggml_type {
    match kv_type {
        KvType::F16 => sys::GGML_TYPE_F16,
        KvType::Q8_0 => sys::GGML_TYPE_Q8_0,
        KvType::Q4_0 => sys::GGML_TYPE_Q4_0,
    }
}
