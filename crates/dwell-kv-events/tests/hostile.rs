//! Arbitrary bytes neither panic nor take more memory than the limits allow.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::most_held_during;
use dwell_kv_events::limits::STATE_MAX_BYTES;
use dwell_kv_events::{
    BlockHash, BlockStored, BlockTracker, Event, EventBatch, TokenPolicy, TrackOptions, decode_batch,
};
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

fn tracker() -> BlockTracker {
    let clock = ClockAnchor { monotonic_ns: 0, unix_ns: 0 };
    let tokens = TokenPolicy::Hash { salt: b"salt".to_vec() };
    BlockTracker::new(TrackOptions { clock, kv_bytes_per_token: None, tokens })
}

fn stored(block_hashes: Vec<BlockHash>, parent: Option<BlockHash>, medium: &str) -> EventBatch {
    let stored = BlockStored {
        block_hashes,
        parent,
        token_ids: Vec::new(),
        block_size: 16,
        lora_name: Some(medium.into()),
        medium: Some(medium.into()),
        group: None,
    };
    EventBatch { unix_ns: 7, events: vec![Event::Stored(stored)], rank: None, unknown_events: 0, unknown_fields: 0 }
}

/// Stores so many blocks, in batches.
fn store(tracker: &mut BlockTracker, blocks: u64, name: impl Fn(u64) -> BlockHash) {
    let numbers: Vec<u64> = (0..blocks).collect();
    for part in numbers.chunks(1000) {
        tracker.apply(&stored(part.iter().map(|&number| name(number)).collect(), None, "GPU"));
    }
}

#[test]
fn a_block_takes_a_hundred_bytes() {
    const BLOCKS: u64 = 300_000;
    let ((), most) = most_held_during(|| store(&mut tracker(), BLOCKS, BlockHash::Unsigned));
    assert!(most <= 100 * BLOCKS as usize, "{} bytes a block", most / BLOCKS as usize);
    let digest = |number: u64| BlockHash::Bytes(number.to_be_bytes().repeat(4).into());
    let ((), most) = most_held_during(|| store(&mut tracker(), BLOCKS, digest));
    assert!(most <= 220 * BLOCKS as usize, "{} bytes a block that is named by a digest", most / BLOCKS as usize);
}

#[test]
fn blocks_beyond_the_memory_are_counted_and_their_rows_come_in_parts() {
    let mut tracker = tracker();
    let blocks = 2_500_000;
    let ((), most) = most_held_during(|| store(&mut tracker, blocks, BlockHash::Unsigned));
    assert!(most <= STATE_MAX_BYTES + (64 << 20), "{most} bytes");
    let mut rows = 0;
    let (counts, most) = most_held_during(|| {
        let counts = tracker.end();
        while tracker.rows_ready() > 0 {
            rows += tracker.take_rows(1000).len() as u64;
        }
        counts
    });
    assert!(most <= 96 << 20, "{most} bytes beside the blocks");
    assert!(counts.not_followed > 0 && counts.stored + counts.not_followed == blocks, "{counts:?}");
    assert_eq!((rows, counts.alive), (counts.stored, counts.stored));
}

#[test]
fn media_without_end_and_blocks_in_a_circle_are_no_trouble() {
    let mut tracker = tracker();
    for number in 0..10_000 {
        tracker.apply(&stored(vec![BlockHash::Unsigned(number)], None, &format!("medium {number}")));
    }
    let (one, two) = (BlockHash::Signed(1), BlockHash::Signed(2));
    for _ in 0..2 {
        tracker.apply(&stored(vec![one.clone()], Some(two.clone()), "medium 0"));
        tracker.apply(&stored(vec![two.clone()], Some(one.clone()), "medium 0"));
    }
    tracker.apply(&stored(vec![BlockHash::Signed(3)], Some(one), "medium 0"));
    let (rows, counts) = tracker.finish();
    assert_eq!(rows.len() as u64, counts.stored);
    assert!(counts.not_followed > 5000 && counts.media.len() < 5000, "{counts:?}");
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
