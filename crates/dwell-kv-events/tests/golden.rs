//! Bytes that the publishers of vLLM and SGLang made, against what was given to them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod publisher;

use dwell_kv_events::{BlockHash, BlockRemoved, BlockStored, Event, EventBatch, decode_batch};
use publisher::{Publisher, VERSIONS, skip};
use serde_json::{Value, json};

fn golden() -> Vec<Value> {
    serde_json::from_str(include_str!("../fixtures/golden.json")).unwrap()
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn payload(entry: &Value) -> Vec<u8> {
    bytes_of_hex(entry["msgpack"].as_str().unwrap())
}

fn hash(value: &Value) -> BlockHash {
    match (value.as_i64(), value.as_u64(), value.as_str()) {
        (Some(number), ..) => BlockHash::Signed(number),
        (None, Some(number), _) => BlockHash::Unsigned(number),
        (.., Some(hex)) => BlockHash::Bytes(bytes_of_hex(hex).into()),
        _ => panic!("{value}"),
    }
}

/// What the publisher was given, as far as its version can say it.
fn given(entry: &Value) -> EventBatch {
    let version = entry["publisher"].as_str().unwrap();
    let (has_lora_name, has_group) = match version {
        "vllm-0.11.0" | "sglang-0.5.15" => (false, false),
        "sglang-0.5.23" => (true, false),
        _ => (true, true),
    };
    let text = |value: &Value| value.as_str().map(Box::<str>::from);
    let event = |event: &Value| {
        let hashes = || event["block_hashes"].as_array().unwrap().iter().map(hash).collect();
        let group = event["group_idx"].as_u64().filter(|_| has_group).map(|group| group as u32);
        match event["type"].as_str().unwrap() {
            "BlockStored" => Event::Stored(BlockStored {
                block_hashes: hashes(),
                parent: Some(&event["parent_block_hash"]).filter(|parent| !parent.is_null()).map(hash),
                token_ids: event["token_ids"].as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect(),
                block_size: event["block_size"].as_u64().unwrap() as u32,
                lora_name: text(&event["lora_name"]).filter(|_| has_lora_name),
                medium: text(&event["medium"]),
                group,
            }),
            "BlockRemoved" => {
                Event::Removed(BlockRemoved { block_hashes: hashes(), medium: text(&event["medium"]), group })
            }
            "AllBlocksCleared" => Event::Cleared,
            other => panic!("{other}"),
        }
    };
    EventBatch {
        unix_ns: (entry["given"]["ts"].as_f64().unwrap() * 1e9) as u64,
        events: entry["given"]["events"].as_array().unwrap().iter().map(event).collect(),
        rank: entry["given"]["rank"].as_u64().map(|rank| rank as u32),
        unknown_events: 0,
        unknown_fields: 0,
    }
}

#[test]
fn every_publisher_says_what_it_was_given() {
    let golden = golden();
    assert_eq!(golden.len(), 2 * VERSIONS.len());
    for entry in &golden {
        assert_eq!(decode_batch(&payload(entry)).unwrap(), given(entry), "{}", entry["publisher"]);
    }
}

#[test]
fn both_encodings_are_among_them() {
    // Behind the head of the batch and its time comes the list of events, then the first of them.
    let first_event = |entry: &Value| payload(entry)[11] >> 4;
    let shapes: Vec<u8> = golden().iter().map(first_event).collect();
    assert!(shapes.contains(&0x8) && shapes.contains(&0x9), "{shapes:x?}");
}

#[test]
fn a_payload_that_is_cut_anywhere_is_an_error() {
    for entry in golden() {
        let payload = payload(&entry);
        for end in 0..payload.len() {
            assert!(decode_batch(&payload[..end]).is_err(), "{} cut at {end}", entry["publisher"]);
        }
        let longer = [payload.as_slice(), &[0xc0]].concat();
        assert!(decode_batch(&longer).is_err(), "{}", entry["publisher"]);
    }
}

#[test]
fn the_publishers_still_make_these_bytes() {
    for version in VERSIONS {
        let Some(mut publisher) = Publisher::load(version) else {
            return skip("the_publishers_still_make_these_bytes", "the publishers are not in the cache");
        };
        for entry in golden().iter().filter(|entry| entry["publisher"] == version) {
            let mut command = entry["given"].clone();
            command["do"] = json!("encode");
            assert_eq!(publisher.tell(&command)["msgpack"], entry["msgpack"], "{version}");
        }
    }
}
