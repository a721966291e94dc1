//! What a report on memory is made from.

use dwell_events::Phase;
use dwell_events::server::{ReportedBuffer, RequestTimings, StartKind};
use serde::{Deserialize, Serialize};

use super::{MemoryBasis, MemorySeries, TokenTimes};

/// What a report on memory is made from. What an engine does not have is empty or missing.
#[derive(Clone, Copy, Debug)]
pub struct MemoryInputs<'a> {
    /// Samples of the engine's processes.
    pub series: &'a MemorySeries,
    /// Its tokens.
    pub tokens: &'a TokenTimes,
    /// Phases with their first and last moment.
    pub phases: &'a [(Phase, u64, u64)],
    /// Requests to a server.
    pub requests: &'a [RequestSpan],
    /// Buffers that the runtime says it allocated.
    pub buffers: &'a [ReportedBuffer],
    /// Weights of the model.
    pub weights: Option<Weights>,
    /// What the KV cache takes by the shape of the model.
    pub theory: Option<KvTheory>,
    /// How the run began.
    pub start: StartFacts,
    /// The most resident memory, where the kernel was asked for it.
    pub peak_rss_bytes: Option<u64>,
    /// Whether the tokens' bytes of KV cache are traced.
    pub is_traced: bool,
}

/// A request to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSpan {
    /// When it was sent.
    pub begin_ns: u64,
    /// When its first token arrived; none if none did.
    pub first_token_ns: Option<u64>,
    /// When its answer had ended; none if it did not.
    pub end_ns: Option<u64>,
    /// What the server says of it.
    pub timings: RequestTimings,
}

impl RequestSpan {
    /// Tokens of its prompt that were computed rather than found in the cache.
    pub(super) fn computed_prompt_tokens(&self) -> Option<u64> {
        Some(self.timings.prompt_tokens?.saturating_sub(self.timings.cached_tokens.unwrap_or(0)))
    }
}

/// Weights of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Whether they are mapped from their file; none if that is not known.
    pub is_mapped: Option<bool>,
}

/// What the KV cache takes by the shape of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvTheory {
    /// Keys and values of one token in all layers.
    pub bytes_per_token: u64,
    /// The whole cache at the context length of the run.
    pub cache_bytes: Option<u64>,
    /// Where this comes from.
    pub basis: MemoryBasis,
}

/// In which state the model was when the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartFacts {
    /// What was asked for.
    pub asked: StartKind,
    /// Whether the model was loaded before the first request.
    pub was_loaded: Option<bool>,
    /// Share of the model's file in the page cache before it was loaded.
    pub model_cached_share: Option<f64>,
}

impl StartFacts {
    /// `warm` if the model was loaded; else by its file: `cold`, `page_cache` if most of it was cached. None if
    /// neither is known.
    pub fn name(&self) -> Option<&'static str> {
        match (self.was_loaded, self.model_cached_share) {
            (Some(true), _) => Some("warm"),
            (_, Some(share)) if share >= 0.5 => Some("page_cache"),
            (_, Some(_)) => Some("cold"),
            _ => None,
        }
    }
}
