//! What a stream has done so far.

use std::time::Duration;

use crate::Stored;

/// How far a stream is. Counts go up only, except for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamProgress {
    /// Tensors handed over, dropped ones included.
    pub packets: u64,
    /// Bytes of their elements.
    pub raw_bytes: u64,
    /// Tensors in the file, with nothing missing before them.
    pub written_packets: u64,
    /// Bytes of the file, with nothing missing before them.
    pub written_bytes: u64,
    /// Tensors dropped.
    pub dropped_packets: u64,
    /// Bytes of their elements.
    pub dropped_bytes: u64,
    /// Tensors that waited in the spill file.
    pub spilled_packets: u64,
    /// Bytes of their elements.
    pub spilled_bytes: u64,
    /// Tokens recorded.
    pub tokens: u64,
    /// Memory in use, idle buffers included.
    pub memory_bytes: u64,
    /// The most that it was.
    pub peak_memory_bytes: u64,
    /// How long producers waited for memory, summed over threads.
    pub producers_waited: Duration,
}

/// What a stream came to.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSummary {
    /// The last state of its counts.
    pub progress: StreamProgress,
    /// What the codecs made of the tensors.
    pub stored: Stored,
    /// From the first call to the last byte.
    pub duration: Duration,
    /// Whether writes went past the page cache.
    pub used_direct_io: bool,
}

/// Where a resumed stream goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resumed {
    /// The tokens recorded before the checkpoint.
    pub tokens: Vec<crate::TokenMark>,
    /// The number that the next tensor gets.
    pub packets: u64,
    /// The step after the last one of the checkpoint.
    pub next_step: u64,
    /// What lay behind the checkpoint and was cut away.
    pub trimmed_bytes: u64,
}
