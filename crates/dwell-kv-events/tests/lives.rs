//! Events with known consequences.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;

use dwell_events::schema::kv_block_lifecycle::{EndCause, KvEventBlockRow};
use dwell_kv_events::{
    BlockCounts, BlockHash, BlockRemoved, BlockStored, BlockTracker, CachedPrompt, Event, EventBatch, MediumCounts,
    TokenPolicy, TrackOptions,
};
use dwell_store::ClockAnchor;

const S: u64 = 1_000_000_000;
/// The server's clock is 1000 s ahead of ours.
const CLOCK: ClockAnchor = ClockAnchor { monotonic_ns: 500 * S, unix_ns: 1500 * S };

fn tracker() -> BlockTracker {
    let tokens = TokenPolicy::Hash { salt: b"salt".to_vec() };
    BlockTracker::new(TrackOptions { clock: CLOCK, kv_bytes_per_token: Some(100), tokens })
}

fn hashes(numbers: &[i64]) -> Vec<BlockHash> {
    numbers.iter().map(|&number| BlockHash::Signed(number)).collect()
}

/// Blocks of 2 tokens; the tokens of a block are its hash and the negative of it.
fn stored(numbers: &[i64], parent: Option<i64>) -> BlockStored {
    BlockStored {
        block_hashes: hashes(numbers),
        parent: parent.map(BlockHash::Signed),
        token_ids: numbers.iter().flat_map(|&number| [number, -number]).collect(),
        block_size: 2,
        lora_name: None,
        medium: Some("GPU".into()),
        group: None,
    }
}

fn removed(numbers: &[i64]) -> BlockRemoved {
    BlockRemoved { block_hashes: hashes(numbers), medium: Some("GPU".into()), group: None }
}

fn at(seconds: u64, events: Vec<Event>) -> EventBatch {
    EventBatch { unix_ns: (1500 + seconds) * S, events, rank: Some(0), unknown_events: 0, unknown_fields: 0 }
}

fn lives(batches: &[EventBatch]) -> (Vec<KvEventBlockRow>, BlockCounts) {
    let mut tracker = tracker();
    batches.iter().for_each(|batch| tracker.apply(batch));
    tracker.finish()
}

#[test]
fn a_block_is_stored_reused_and_removed() {
    let (rows, counts) = lives(&[
        at(0, vec![Event::Stored(stored(&[1, 2], None))]),
        at(2, vec![Event::Stored(stored(&[3], Some(2)))]),
        at(3, vec![Event::Stored(stored(&[4], Some(2)))]),
        at(4, vec![Event::Stored(stored(&[1], None))]),
        at(10, vec![Event::Removed(removed(&[2, 1]))]),
    ]);
    let hash_order: Vec<&str> = rows.iter().map(|row| row.block_hash.as_str()).collect();
    assert_eq!(hash_order, ["2", "1", "3", "4"]);
    let second = &rows[0];
    assert_eq!((second.write_ns, second.last_read_ns, second.evict_ns), (500 * S, Some(503 * S), Some(510 * S)));
    assert_eq!((second.total_reads, second.end_cause), (1, EndCause::Removed));
    assert_eq!((second.first_position, second.positions, second.bytes), (Some(2), 2, Some(200)));
    assert_eq!((second.parent_hash.as_deref(), second.medium.as_deref()), (Some("1"), Some("GPU")));
    assert_eq!((rows[1].total_reads, rows[1].last_read_ns, rows[1].first_position), (2, Some(504 * S), Some(0)));
    let last = &rows[2];
    assert_eq!((last.evict_ns, last.end_cause, last.first_position), (None, EndCause::Teardown, Some(4)));
    assert_eq!((counts.stored, counts.reuses, counts.reused_blocks), (4, 3, 2));
    assert_eq!((counts.removed, counts.alive, counts.unmatched), (2, 2, 0));
    assert_eq!(counts.media["GPU"], MediumCounts { stored: 4, ended: 2, alive: 2 });
    assert!((counts.lifetime_p50_s.unwrap() - 10.0).abs() < 0.04);
}

/// A prompt of these blocks; the first `cached` of them were in the cache.
fn prompt(seconds: u64, blocks: &[i64], cached: u64) -> CachedPrompt {
    let token_ids = blocks.iter().flat_map(|&number| [number, -number]).collect();
    CachedPrompt { time_ns: (500 + seconds) * S, token_ids, cached_tokens: 2 * cached }
}

fn lives_with(prompts: Vec<CachedPrompt>, batches: &[EventBatch]) -> (BTreeMap<String, u64>, BlockCounts) {
    let tokens = TokenPolicy::Hash { salt: b"salt".to_vec() };
    let options = TrackOptions { clock: CLOCK, kv_bytes_per_token: None, tokens };
    let mut tracker = BlockTracker::with_prompts(options, prompts);
    batches.iter().for_each(|batch| tracker.apply(batch));
    let (rows, counts) = tracker.finish();
    (rows.into_iter().map(|row| (row.block_hash, row.total_reads)).collect(), counts)
}

#[test]
fn requests_that_share_a_prefix_use_every_block_of_it() {
    // Five requests: the first stores the prefix and goes on, four others find it and add a block of their own.
    let first =
        [at(0, vec![Event::Stored(stored(&[1, 2, 3], None))]), at(1, vec![Event::Stored(stored(&[10], Some(3)))])];
    let others = (1..5).map(|number| at(2 * number as u64, vec![Event::Stored(stored(&[10 + number], Some(3)))]));
    let batches: Vec<EventBatch> = first.into_iter().chain(others).collect();
    let (_, counts) = lives(&batches);
    assert_eq!((counts.reuses, counts.reused_blocks), (4 * 3, 3), "by the events alone");
    let prompts = (1..5).map(|number| prompt(2 * number as u64 + 1, &[1, 2, 3, 10 + number], 3)).collect();
    let (uses, counts) = lives_with(prompts, &batches);
    assert_eq!((counts.reuses, counts.reused_blocks, counts.unseen_reuses), (4 * 3, 3, 0), "as the requests say");
    assert_eq!((uses["1"], uses["3"], uses["10"]), (4, 4, 0));
}

#[test]
fn what_a_request_found_counts_though_it_stored_nothing() {
    let stored = at(0, vec![Event::Stored(stored(&[1, 2, 3], None))]);
    let (uses, counts) =
        lives_with(vec![prompt(1, &[1, 2, 3], 2), prompt(2, &[1, 7], 1), prompt(3, &[7, 1], 0)], &[stored]);
    assert_eq!((uses["1"], uses["2"], uses["3"], counts.reuses), (2, 1, 0, 3));
}

#[test]
fn a_block_that_is_computed_again_was_not_found() {
    // A prompt that is whole in the cache: the server computes its last block again, and says so.
    let batches =
        [at(0, vec![Event::Stored(stored(&[1, 2], None))]), at(5, vec![Event::Stored(stored(&[2], Some(1)))])];
    let (uses, counts) = lives_with(vec![prompt(5, &[1, 2], 1)], &batches);
    assert_eq!((uses["1"], uses["2"], counts.reuses), (1, 0, 1));
}

#[test]
fn what_was_found_is_looked_for_where_most_of_it_is() {
    let mut on_cpu = stored(&[1], None);
    on_cpu.medium = Some("CPU".into());
    let batches = [at(0, vec![Event::Stored(on_cpu), Event::Stored(stored(&[1, 2], None))])];
    let (_, counts) = lives_with(vec![prompt(1, &[1, 2], 2)], &batches);
    assert_eq!((counts.reuses, counts.unseen_reuses), (2, 0), "not on both media");
}

#[test]
fn a_server_whose_clock_is_ahead_is_understood_and_blocks_from_before_are_counted_apart() {
    // By its clock the server stored the blocks after the request that found them.
    let late = at(9, vec![Event::Stored(stored(&[1, 2], None))]);
    let (_, counts) = lives_with(vec![prompt(1, &[1, 2], 2)], std::slice::from_ref(&late));
    assert_eq!((counts.reuses, counts.unseen_reuses), (2, 0));
    let (_, counts) = lives_with(vec![prompt(10, &[1, 2, 3, 4], 4)], &[late]);
    assert_eq!((counts.reuses, counts.unseen_reuses), (2, 2), "nobody has seen two of them being stored");
}

#[test]
fn what_was_removed_is_not_found_again_until_it_is_stored_again() {
    let batches = [
        at(0, vec![Event::Stored(stored(&[1], None))]),
        at(2, vec![Event::Removed(removed(&[1]))]),
        at(4, vec![Event::Stored(stored(&[1], None))]),
    ];
    let tracked = |prompts| lives_with(prompts, &batches).1;
    let counts = tracked(vec![prompt(1, &[1], 1), prompt(5, &[1], 1)]);
    assert_eq!((counts.stored, counts.reuses, counts.reused_blocks), (2, 2, 2));
}

#[test]
fn the_same_tokens_have_the_same_hash_and_no_ids_are_kept() {
    let (rows, _) = lives(&[
        at(0, vec![Event::Stored(stored(&[1], None)), Event::Removed(removed(&[1]))]),
        at(1, vec![Event::Stored(stored(&[1, 5], None))]),
    ]);
    assert_eq!(rows[0].token_hash, rows[1].token_hash);
    assert_ne!(rows[1].token_hash, rows[2].token_hash);
    assert!(rows.iter().all(|row| row.token_ids.is_none() && row.token_hash.is_some()));
}

#[test]
fn media_groups_and_ranks_hold_copies_of_their_own() {
    let mut on_cpu = stored(&[1], None);
    on_cpu.medium = Some("CPU".into());
    let mut in_group = stored(&[1], None);
    in_group.group = Some(1);
    let mut of_rank = at(0, vec![Event::Stored(stored(&[1], None))]);
    of_rank.rank = Some(1);
    let first = at(0, [stored(&[1], None), on_cpu, in_group].map(Event::Stored).to_vec());
    let (rows, counts) = lives(&[first, of_rank, at(5, vec![Event::Removed(removed(&[1]))])]);
    assert_eq!((counts.stored, counts.reuses, counts.removed, counts.alive), (4, 0, 1, 3));
    assert_eq!((rows[0].medium.as_deref(), rows[0].kv_group, rows[0].server_rank), (Some("GPU"), None, Some(0)));
    assert_eq!(counts.media["CPU"], MediumCounts { stored: 1, ended: 0, alive: 1 });
}

#[test]
fn clearing_ends_every_life_of_its_rank_in_the_order_of_their_stores() {
    let mut other = at(0, vec![Event::Stored(stored(&[9], None))]);
    other.rank = Some(1);
    let (rows, counts) =
        lives(&[at(0, vec![Event::Stored(stored(&[4, 3, 8], None))]), other, at(2, vec![Event::Cleared])]);
    let ends: Vec<_> = rows.iter().map(|row| (row.block_hash.as_str(), row.end_cause, row.evict_ns)).collect();
    let cleared = |hash| (hash, EndCause::Cleared, Some(502 * S));
    assert_eq!(ends, [cleared("4"), cleared("3"), cleared("8"), ("9", EndCause::Teardown, None)]);
    assert_eq!((counts.cleared, counts.alive), (3, 1));
}

#[test]
fn what_contradicts_is_counted() {
    let (rows, counts) =
        lives(&[at(0, vec![Event::Removed(removed(&[7, 8]))]), at(1, vec![Event::Stored(stored(&[2], Some(1)))])]);
    assert_eq!((counts.unmatched, counts.unknown_parents, rows.len()), (2, 1, 1));
    assert_eq!((rows[0].first_position, rows[0].parent_hash.as_deref()), (None, Some("1")));
}

#[test]
fn a_server_that_is_replaced_takes_its_blocks_along() {
    let mut tracker = tracker();
    tracker.apply(&at(0, vec![Event::Stored(stored(&[1], None))]));
    tracker.restart();
    tracker.apply(&at(5, vec![Event::Stored(stored(&[1], None))]));
    let (rows, counts) = tracker.finish();
    assert_eq!((counts.ended_with_server, counts.stored, counts.reuses, counts.alive), (1, 2, 0, 1));
    assert_eq!((rows[0].evict_ns, rows[0].block_id, rows[1].block_id), (None, 0, 1));
}

#[test]
fn an_event_without_tokens_says_nothing_of_them() {
    let event = BlockStored { token_ids: vec![], block_size: 0, ..stored(&[1], None) };
    let (rows, _) = lives(&[at(0, vec![Event::Stored(event)])]);
    assert_eq!((rows[0].positions, rows[0].first_position, rows[0].bytes, rows[0].token_hash), (0, None, None, None));
}

#[test]
fn a_server_whose_clock_is_far_behind_is_at_the_beginning_of_ours() {
    let mut batch = at(0, vec![Event::Stored(stored(&[1], None))]);
    batch.unix_ns = 0;
    assert_eq!(lives(&[batch]).0[0].write_ns, 0);
}
