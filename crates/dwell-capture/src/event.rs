//! What a worker tells while it captures: one JSON object per line.

use dwell_events::engine::EngineEvent;
use dwell_tensors::{StreamProgress, StreamSummary};
use serde::{Deserialize, Serialize};

use crate::group::Group;
use crate::listed::ListedTensor;

/// What a worker tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "capture")]
pub enum CaptureEvent {
    /// The engine reported something.
    Engine {
        /// What.
        event: EngineEvent,
    },
    /// What there is to capture.
    Graph {
        /// In the order of the graph.
        tensors: Vec<ListedTensor>,
    },
    /// The stream is open.
    Begun {
        /// Names of what is captured, with their groups, in the order of the graph.
        tensors: Vec<(String, Option<Group>)>,
        /// Names that were asked for and cannot be stored.
        unstorable: Vec<String>,
        /// Whether of a prompt some have the last position alone.
        has_last_position_only: bool,
        /// Tensors that the stream has already.
        resumed_packets: u64,
        /// Tokens that the stream has already.
        resumed_tokens: u64,
    },
    /// How far the stream is.
    Progress {
        /// Its counts.
        counts: CaptureCounts,
    },
    /// The stream is closed.
    Ended {
        /// Its last counts.
        counts: CaptureCounts,
        /// From its opening to its last byte.
        duration_ns: u64,
        /// Whether it has its index; else it can be gone on with.
        is_finished: bool,
    },
}

/// How far a stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureCounts {
    /// Tensors handed over, dropped ones included.
    pub packets: u64,
    /// Bytes of their elements.
    pub raw_bytes: u64,
    /// Bytes of the file.
    pub written_bytes: u64,
    /// Tensors dropped.
    pub dropped_packets: u64,
    /// Tensors that waited in the spill file.
    pub spilled_packets: u64,
    /// Tokens recorded.
    pub tokens: u64,
    /// The most memory that tensors on their way took.
    pub peak_memory_bytes: u64,
    /// How long the engine waited for memory.
    pub waited_ns: u64,
}

impl From<StreamProgress> for CaptureCounts {
    fn from(progress: StreamProgress) -> Self {
        Self {
            packets: progress.packets,
            raw_bytes: progress.raw_bytes,
            written_bytes: progress.written_bytes,
            dropped_packets: progress.dropped_packets,
            spilled_packets: progress.spilled_packets,
            tokens: progress.tokens,
            peak_memory_bytes: progress.peak_memory_bytes,
            waited_ns: progress.producers_waited.as_nanos().try_into().unwrap_or(u64::MAX),
        }
    }
}

impl CaptureEvent {
    /// That a stream is closed.
    pub(crate) fn ended(summary: &StreamSummary, is_finished: bool) -> Self {
        Self::Ended {
            counts: summary.progress.into(),
            duration_ns: summary.duration.as_nanos().try_into().unwrap_or(u64::MAX),
            is_finished,
        }
    }
}
