//! What came of a stream of KV cache events, in numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What happened to blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockCounts {
    /// Events that were understood.
    pub events: u64,
    /// Lives that began.
    pub stored: u64,
    /// Uses of blocks that were there: by requests of which the server said what they found; without such requests, by
    /// those that attach a block to one that has another attached already, or store a block again.
    pub reuses: u64,
    /// Lives with at least one of those.
    pub reused_blocks: u64,
    /// Blocks that requests found and of which no store was seen.
    pub unseen_reuses: u64,
    /// Lives that ended with a removal.
    pub removed: u64,
    /// Lives that ended when the cache was emptied.
    pub cleared: u64,
    /// Lives that ended unseen, because another server took the place of theirs.
    pub ended_with_server: u64,
    /// Lives at the end.
    pub alive: u64,
    /// Median of the lifetimes that ended, within 0.4 %.
    pub lifetime_p50_s: Option<f64>,
    /// The lifetime that 99 of 100 of them do not exceed.
    pub lifetime_p99_s: Option<f64>,
    /// The same by medium.
    pub media: BTreeMap<String, MediumCounts>,
    /// Removals of blocks of which no store was seen.
    pub unmatched: u64,
    /// The first of them.
    #[serde(skip)]
    pub first_unmatched: Option<String>,
    /// Blocks that were attached to one of which no store was seen.
    pub unknown_parents: u64,
    /// Stores beyond the number of blocks that are followed at a time.
    pub not_followed: u64,
    /// Events of kinds that are not known.
    pub unknown_events: u64,
    /// Fields that are not known.
    pub unknown_fields: u64,
}

/// What happened to the blocks on one medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MediumCounts {
    /// Lives that began.
    pub stored: u64,
    /// Lives whose end was reported.
    pub ended: u64,
    /// Lives at the end.
    pub alive: u64,
}

/// What a recorded stream holds and lacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KvBlocksReport {
    /// Batches in the stream.
    pub batches: u64,
    /// Those of them that had to be asked for a second time.
    pub replayed_batches: u64,
    /// Numbers that are missing between them.
    pub lost_batches: u64,
    /// Numbers that are missing before the first.
    pub unseen_batches: u64,
    /// Batches that came twice.
    pub duplicate_batches: u64,
    /// Batches that could not be decoded, and places of the stream that could not be read.
    pub undecodable_batches: u64,
    /// Why the first of them could not.
    pub first_undecodable: Option<String>,
    /// Servers that took the place of another.
    pub restarts: u64,
    /// First moment that a server told, in nanoseconds since the epoch.
    pub first_unix_ns: Option<u64>,
    /// Last moment that a server told.
    pub last_unix_ns: Option<u64>,
    /// Rows that were written.
    pub rows: u64,
    /// What happened to blocks.
    #[serde(flatten)]
    pub blocks: BlockCounts,
}
