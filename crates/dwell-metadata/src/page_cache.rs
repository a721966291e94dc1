//! How much of a model's file is in memory already when a run begins.

use serde::{Deserialize, Serialize};

/// The model's file and the page cache, when a run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCache {
    /// Size of the model's file.
    pub model_bytes: u64,
    /// How much of it was in the page cache.
    pub resident_bytes: u64,
    /// Whether it was dropped from the page cache before that was looked at, as a cold start asks for.
    pub was_dropped: bool,
}
