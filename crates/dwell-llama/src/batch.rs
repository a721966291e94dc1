//! Tokens on their way into llama.cpp.

use dwell_events::engine::BatchToken;
use llama_cpp_sys_2 as sys;

/// A batch of tokens of known positions; freed when dropped.
pub(crate) struct Batch {
    raw: sys::llama_batch,
    capacity: usize,
    tokens: Vec<BatchToken>,
    outputs: u32,
}

impl Batch {
    /// A batch that holds up to this many tokens.
    pub(crate) fn new(capacity: u32) -> Batch {
        // SAFETY: allocates arrays of the capacity with one sequence per token. The capacity is llama.cpp's own
        // batch size, which is at most a context length and so fits 31 bits.
        let raw = unsafe { sys::llama_batch_init(capacity.cast_signed(), 0, 1) };
        Batch { raw, capacity: capacity as usize, tokens: Vec::with_capacity(capacity as usize), outputs: 0 }
    }

    /// Forgets the tokens.
    pub(crate) fn clear(&mut self) {
        self.raw.n_tokens = 0;
        self.tokens.clear();
        self.outputs = 0;
    }

    /// Adds a token and says at which index; `wants_logits` if a token will be chosen after it.
    ///
    /// # Panics
    ///
    /// If the batch is full.
    pub(crate) fn push(&mut self, token: BatchToken, wants_logits: bool) -> usize {
        let index = self.tokens.len();
        assert!(index < self.capacity, "a batch of {} tokens is full", self.capacity);
        // SAFETY: llama_batch_init allocated `capacity` entries for each array, and one sequence id for each
        // entry; the index is below the capacity.
        unsafe {
            *self.raw.token.add(index) = token.id;
            *self.raw.pos.add(index) = token.position;
            *self.raw.n_seq_id.add(index) = 1;
            **self.raw.seq_id.add(index) = token.sequence;
            *self.raw.logits.add(index) = wants_logits.into();
        }
        self.raw.n_tokens += 1;
        self.tokens.push(token);
        self.outputs += u32::from(wants_logits);
        index
    }

    /// The tokens, in order.
    pub(crate) fn tokens(&self) -> &[BatchToken] {
        &self.tokens
    }

    /// How many of them want their logits.
    pub(crate) fn outputs(&self) -> u32 {
        self.outputs
    }

    /// The batch for llama.cpp; its pointers are those of this batch.
    pub(crate) fn as_raw(&self) -> sys::llama_batch {
        self.raw
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: made by llama_batch_init and freed only here.
        unsafe { sys::llama_batch_free(self.raw) };
    }
}
