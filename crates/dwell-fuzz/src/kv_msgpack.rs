//! Batches of KV cache events, as vLLM and SGLang publish them, and the lives that they tell of.

use dwell_events::ClockAnchor;
use dwell_kv_events::{BlockTracker, TokenPolicy, TrackOptions, decode_batch};

pub(crate) fn run(bytes: &[u8]) {
    let Ok(batch) = decode_batch(bytes) else { return };
    let clock = ClockAnchor { monotonic_ns: 0, unix_ns: 0 };
    let tokens = TokenPolicy::Hash { salt: Vec::new() };
    let mut tracker = BlockTracker::new(TrackOptions { clock, kv_bytes_per_token: Some(u64::MAX), tokens });
    // Twice, so that blocks are stored again and removed again.
    tracker.apply(&batch);
    tracker.apply(&batch);
    let (rows, counts) = tracker.finish();
    assert_eq!(rows.len() as u64, counts.stored);
}
