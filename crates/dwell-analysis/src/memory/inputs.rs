//! What a report on memory is made from.

use dwell_events::kv_accesses::KvAccesses;
use dwell_events::server::{ReportedBuffer, StartKind};
use dwell_events::{Phase, PhaseSpan, RequestSpan};
use serde::{Deserialize, Serialize};

use super::{MemorySeries, TokenTimes};
use crate::Basis;

/// What a report on memory is made from. What an engine does not have is empty or missing.
#[derive(Clone, Copy, Debug)]
pub struct MemoryInputs<'a> {
    /// Samples of the engine's processes.
    pub series: &'a MemorySeries,
    /// Its tokens.
    pub tokens: &'a TokenTimes,
    /// Phases with their first and last moment.
    pub phases: &'a [PhaseSpan],
    /// Requests to a server.
    pub requests: &'a [RequestSpan],
    /// Buffers that the runtime says it allocated.
    pub buffers: &'a [ReportedBuffer],
    /// Weights of the model.
    pub weights: Option<Weights>,
    /// What the KV cache takes by the shape of the model.
    pub theory: Option<KvTheory>,
    /// How the run began.
    pub start: ModelStart,
    /// The most resident memory, where the kernel was asked for it.
    pub peak_rss_bytes: Option<u64>,
    /// What was traced of the KV cache; none if nothing was. The tokens' bytes of KV cache count only if it was.
    pub traced_kv: Option<KvAccesses>,
}

impl MemoryInputs<'_> {
    /// The span of a phase that the run came to.
    pub(super) fn phase(&self, wanted: Phase) -> Option<&PhaseSpan> {
        self.phases.iter().find(|span| span.phase == wanted)
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
    /// State of the layers that keep one instead, for all sequences.
    pub state_bytes: Option<u64>,
    /// Where this comes from.
    pub basis: Basis,
}

/// In which state the model was when the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelStart {
    /// What was asked for.
    pub asked: StartKind,
    /// Whether the model was loaded before the first request.
    pub was_loaded: Option<bool>,
    /// Share of the model's file in the page cache before it was loaded.
    pub model_cached_share: Option<f64>,
}

impl ModelStart {
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
