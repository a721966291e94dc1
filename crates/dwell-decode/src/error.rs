//! The error that every decoder here returns.

use std::io;

/// Why a recording could not be decoded, and where.
#[derive(Debug, thiserror::Error)]
#[error("{reason} (at byte {offset} of the recording)")]
pub struct DecodeError {
    /// Offset into the recording, in bytes. In a perf.data file, where the compressed record begins; in a compressed capture
    /// of memray, counted in what was decompressed.
    pub offset: u64,
    /// What was wrong there.
    pub reason: DecodeReason,
}

/// What was wrong with a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeReason {
    /// Reading failed.
    #[error("reading failed with {0}")]
    Read(#[source] io::Error),

    /// The recording ends within something.
    #[error("the recording ends within {within}")]
    EndsWithin {
        /// What was being read.
        within: &'static str,
    },

    /// The recording is not of the expected format, or contradicts itself.
    #[error("{0}")]
    Malformed(String),

    /// The recording is valid, and of a kind that is not read.
    #[error("{0}")]
    Unsupported(String),

    /// The recording states more of something than is ever read.
    #[error("the recording states {found} {what}, and at most {limit} are read")]
    TooMany {
        /// What is counted, such as `bytes of a record`.
        what: &'static str,
        /// How many are stated.
        found: u64,
        /// How many are read at most.
        limit: u64,
    },
}

impl DecodeError {
    /// An error at an offset.
    pub fn new(offset: u64, reason: DecodeReason) -> Self {
        Self { offset, reason }
    }

    /// Whether the recording only ends too early: everything before is good.
    pub fn is_truncation(&self) -> bool {
        matches!(self.reason, DecodeReason::EndsWithin { .. })
    }
}
