//! Payloads that no publisher of the fixtures makes: other mixtures of arrays and maps, what is not known, what is too
//! much.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_kv_events::limits::{EVENTS_PER_BATCH_MAX, HASHES_PER_EVENT_MAX, NAME_MAX_BYTES, TOKENS_PER_EVENT_MAX};
use dwell_kv_events::{BlockHash, DecodeError, Event, decode_batch};

/// MessagePack, written down.
enum Item {
    Nil,
    Int(i64),
    Float(f64),
    Text(&'static str),
    List(Vec<Item>),
    Map(Vec<(&'static str, Item)>),
}

use Item::{Float, Int, List, Map, Nil, Text};

fn put(item: &Item, out: &mut Vec<u8>) {
    match item {
        Nil => rmp::encode::write_nil(out).unwrap(),
        Int(number) => _ = rmp::encode::write_sint(out, *number).unwrap(),
        Float(number) => rmp::encode::write_f64(out, *number).unwrap(),
        Text(text) => rmp::encode::write_str(out, text).unwrap(),
        List(items) => {
            rmp::encode::write_array_len(out, items.len() as u32).unwrap();
            items.iter().for_each(|item| put(item, out));
        }
        Map(pairs) => {
            rmp::encode::write_map_len(out, pairs.len() as u32).unwrap();
            for (key, value) in pairs {
                rmp::encode::write_str(out, key).unwrap();
                put(value, out);
            }
        }
    }
}

fn bytes(item: &Item) -> Vec<u8> {
    let mut out = Vec::new();
    put(item, &mut out);
    out
}

fn batch_of(events: Vec<Item>) -> Vec<u8> {
    bytes(&List(vec![Float(1.0), List(events)]))
}

#[test]
fn a_batch_may_be_a_map_too() {
    let events = List(vec![List(vec![Text("BlockRemoved"), List(vec![Int(5)]), Nil])]);
    let batch =
        decode_batch(&bytes(&Map(vec![("events", events), ("data_parallel_rank", Int(2)), ("ts", Int(9))]))).unwrap();
    assert_eq!((batch.unix_ns, batch.rank, batch.events.len()), (9_000_000_000, Some(2), 1));
}

#[test]
fn what_is_not_known_is_counted_and_passed_over() {
    let other = List(vec![Text("BlockMoved"), Map(vec![("a", List(vec![Int(1), Nil]))]), Int(3)]);
    let other_map = Map(vec![("block_hashes", Text("none at all")), ("type", Text("BlockMoved"))]);
    let longer = Map(vec![("type", Text("BlockRemoved")), ("block_hashes", List(vec![Int(8)])), ("why", Text("age"))]);
    let cleared = List(vec![Text("AllBlocksCleared"), Text("more"), List(vec![Nil])]);
    let events = List(vec![other, other_map, longer, cleared]);
    let batch = decode_batch(&bytes(&List(vec![Float(1.0), events, Nil, Text("also")]))).unwrap();
    assert_eq!((batch.unknown_events, batch.unknown_fields), (2, 4));
    let [Event::Removed(removed), Event::Cleared] = batch.events.as_slice() else { panic!("{batch:?}") };
    assert_eq!(removed.block_hashes, [BlockHash::Signed(8)]);
}

#[test]
fn a_field_that_makes_no_sense_costs_the_batch() {
    let unfit = |event: Item| decode_batch(&batch_of(vec![event])).unwrap_err();
    let no_hashes = unfit(List(vec![Text("BlockRemoved")]));
    assert_eq!(no_hashes, DecodeError::MissingField { field: "block_hashes", of: "BlockRemoved" });
    assert!(matches!(unfit(Int(1)), DecodeError::Unfit { field: "an event", .. }));
    assert!(matches!(unfit(List(vec![])), DecodeError::MissingField { field: "tag", .. }));
    let nil_hash = List(vec![Text("BlockRemoved"), List(vec![Nil])]);
    assert!(matches!(unfit(nil_hash), DecodeError::Unfit { field: "a block hash", .. }));
    for ts in [f64::NAN, -1.0, f64::INFINITY, 1e30] {
        let error = decode_batch(&bytes(&List(vec![Float(ts), List(vec![])]))).unwrap_err();
        assert!(matches!(error, DecodeError::Unfit { field: "ts", .. }), "{ts}");
    }
}

/// The head of an array, with nothing behind it.
fn claims(elements: usize) -> Vec<u8> {
    [&[0xdd][..], &(elements as u32).to_be_bytes()].concat()
}

#[test]
fn limits_hold_before_anything_is_read() {
    let head = [0x92, 0xca, 0, 0, 0, 0];
    let too_many_events = [&head[..], &claims(EVENTS_PER_BATCH_MAX + 1)].concat();
    let removed = [&head[..], &[0x91, 0x92, 0xac], b"BlockRemoved", &claims(HASHES_PER_EVENT_MAX + 1)].concat();
    let stored =
        [&head[..], &[0x91, 0x94, 0xab], b"BlockStored", &[0x90, 0xc0], &claims(TOKENS_PER_EVENT_MAX + 1)].concat();
    for (payload, what, limit) in [
        (too_many_events, "events", EVENTS_PER_BATCH_MAX),
        (removed, "block_hashes", HASHES_PER_EVENT_MAX),
        (stored, "token_ids", TOKENS_PER_EVENT_MAX),
    ] {
        assert_eq!(decode_batch(&payload), Err(DecodeError::TooMany { what, found: limit + 1, limit }));
    }
    let name: &'static str = "m".repeat(NAME_MAX_BYTES + 1).leak();
    let error = decode_batch(&batch_of(vec![List(vec![Text("BlockRemoved"), List(vec![]), Text(name)])])).unwrap_err();
    assert!(matches!(error, DecodeError::TooMany { what: "bytes of a name", .. }));
}
