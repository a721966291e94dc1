//! Arbitrary bytes neither panic nor take more memory than the limits allow.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::most_held_during;
use dwell_kv_events::{BlockTracker, TokenPolicy, TrackOptions, decode_batch};
use dwell_store::ClockAnchor;
use proptest::collection::vec;
use proptest::prelude::*;

/// What may be set aside for elements that are claimed and not there: 1024 of events, hashes and tokens.
const CLAIMED_MAX_BYTES: usize = 256 * 1024;

fn decode_within_limits(payload: &[u8]) {
    let (decoded, most) = most_held_during(|| decode_batch(payload));
    assert!(most <= CLAIMED_MAX_BYTES + 64 * payload.len(), "{most} bytes for {payload:x?}");
    if let Ok(batch) = decoded {
        let clock = ClockAnchor { monotonic_ns: 0, unix_ns: 0 };
        let options = TrackOptions { clock, kv_bytes_per_token: Some(u64::MAX), tokens: TokenPolicy::Keep };
        let mut tracker = BlockTracker::new(options);
        tracker.apply(&batch);
        tracker.finish();
    }
}

/// Bytes that come far: heads of containers, tags, numbers, lengths that are too large.
fn likely_piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0x80_u8..0xa0).prop_map(|head| vec![head]),
        Just([&[0xab][..], b"BlockStored"].concat()),
        Just([&[0xac][..], b"BlockRemoved"].concat()),
        Just([&[0xb0][..], b"AllBlocksCleared"].concat()),
        Just([&[0xa4][..], b"type"].concat()),
        Just([&[0xac][..], b"block_hashes"].concat()),
        Just([&[0xa9][..], b"token_ids"].concat()),
        Just([&[0xcb][..], &1.7e9_f64.to_be_bytes()].concat()),
        Just(vec![0xdd, 0xff, 0xff, 0xff, 0xff]),
        Just(vec![0xdf, 0x00, 0x0f, 0xff, 0xff]),
        Just(vec![0xc6, 0x7f, 0xff, 0xff, 0xff]),
        any::<i64>().prop_map(|number| [&[0xd3][..], &number.to_be_bytes()].concat()),
        vec(any::<u8>(), 0..4),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn arbitrary_bytes(payload in vec(any::<u8>(), 0..512)) {
        decode_within_limits(&payload);
    }

    #[test]
    fn bytes_that_look_like_a_batch(pieces in vec(likely_piece(), 0..24)) {
        decode_within_limits(&[&[0x92, 0xca, 0, 0, 0, 0, 0x91][..], &pieces.concat()].concat());
        decode_within_limits(&pieces.concat());
    }
}
