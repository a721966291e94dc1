//! What is handed over is what is in the file, in the order of the packet numbers, under every policy and codec.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Foreign, float_head, floats, head, pattern};
use dwell_tensors::{Codec, Handover, Pressure, StreamOptions, TensorFile, TensorStream, verify};

fn small_memory(pressure: Pressure, codec: Codec) -> StreamOptions {
    StreamOptions { pressure, codec, max_memory_bytes: 6 << 20, flush_bytes: 1 << 20, ..StreamOptions::default() }
}

/// Four threads hand over tensors of many sizes through every door; each knows what it gave.
fn hand_over_from_threads(stream: &TensorStream, pressure: Pressure, per_thread: u64) -> BTreeMap<String, Vec<u8>> {
    let taken = std::sync::Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let taken = &taken;
            scope.spawn(move || {
                for number in 0..per_thread {
                    let name = format!("t{thread}.{number}");
                    let length = [0, 1, 100, 3000, 70_000, 400_000][(number % 6) as usize] + (number % 7) as usize;
                    let bytes = pattern(thread * 1000 + number, length);
                    let head = head(&name, number, length);
                    let outcome = match number % 3 {
                        0 => stream.submit(head, &bytes),
                        1 => stream.submit_foreign(head, Box::new(Foreign(bytes.clone()))),
                        _ => fill_room(stream, pressure, head, &bytes),
                    };
                    if outcome.unwrap() == Handover::Taken {
                        taken.lock().unwrap().insert(name, bytes);
                    }
                }
            });
        }
    });
    taken.into_inner().unwrap()
}

fn fill_room(
    stream: &TensorStream,
    pressure: Pressure,
    head: dwell_tensors::TensorHead,
    bytes: &[u8],
) -> Result<Handover, dwell_tensors::TensorsError> {
    loop {
        if let Some(mut room) = stream.reserve(bytes.len(), Duration::from_millis(20))? {
            room.copy_from_slice(bytes);
            return stream.submit_room(head, room);
        }
        if pressure == Pressure::Drop {
            return stream.count_dropped(&head);
        }
    }
}

/// What is in the file is what was taken; numbers go up, and the gaps are the drops.
fn assert_holds(path: &std::path::Path, taken: &BTreeMap<String, Vec<u8>>, handed_over: u64) {
    let file = TensorFile::open(path).unwrap();
    assert!(file.is_finished());
    assert_eq!(file.packets().len(), taken.len());
    assert!(file.packets().is_sorted_by(|a, b| a.packet < b.packet));
    for (place, entry) in file.packets().iter().enumerate() {
        assert_eq!(file.read_elements(place).unwrap(), taken[file.name(entry)], "{}", file.name(entry));
    }
    let dropped: u64 = file.dropped().values().map(|(packets, _)| packets).sum();
    assert_eq!(file.packets().len() as u64 + dropped, handed_over);
    assert_eq!(verify(path).unwrap().problems, []);
}

#[test]
fn many_threads_and_every_codec_under_block() {
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd { level: 1 }, Codec::Float] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tensors");
        let stream = TensorStream::create(&path, small_memory(Pressure::Block, codec)).unwrap();
        let taken = hand_over_from_threads(&stream, Pressure::Block, 300);
        let summary = stream.finish().unwrap();
        assert_eq!(taken.len(), 1200);
        assert_eq!((summary.progress.packets, summary.progress.written_packets), (1200, 1200), "{codec}");
        assert!(summary.progress.peak_memory_bytes <= 6 << 20, "{codec}: {}", summary.progress.peak_memory_bytes);
        assert_holds(&path, &taken, 1200);
    }
}

#[test]
fn dropped_tensors_are_counted_by_name_and_the_rest_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let options = StreamOptions { workers: 1, ..small_memory(Pressure::Drop, Codec::Zstd { level: 19 }) };
    let stream = TensorStream::create(&path, options).unwrap();
    let taken = hand_over_from_threads(&stream, Pressure::Drop, 300);
    let summary = stream.finish().unwrap();
    assert!(summary.progress.dropped_packets > 0, "nothing was dropped: the test is too slow to show anything");
    assert_eq!(summary.progress.packets, 1200);
    assert_eq!(summary.progress.dropped_packets + taken.len() as u64, 1200);
    assert_holds(&path, &taken, 1200);
    let dropped = TensorFile::open(&path).unwrap().dropped();
    assert!(dropped.iter().all(|(name, (packets, _))| *packets == 1 && !taken.contains_key(name)));
}

#[test]
fn spilled_tensors_keep_their_order() {
    for codec in [Codec::None, Codec::Zstd { level: 12 }] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tensors");
        let options = StreamOptions { workers: 1, max_spill_bytes: 30 << 20, ..small_memory(Pressure::Spill, codec) };
        let stream = TensorStream::create(&path, options).unwrap();
        let taken = hand_over_from_threads(&stream, Pressure::Spill, 300);
        let summary = stream.finish().unwrap();
        assert!(summary.progress.spilled_packets > 0, "nothing was spilled");
        assert!(summary.progress.peak_memory_bytes <= 6 << 20, "{}", summary.progress.peak_memory_bytes);
        assert_eq!(taken.len(), 1200);
        assert_holds(&path, &taken, 1200);
        // The spill file has no name.
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn tokens_lie_between_the_packets_of_their_moment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let stream = TensorStream::create(&path, StreamOptions::default()).unwrap();
    let next = AtomicU64::new(0);
    for token in 0..50_u64 {
        for part in 0..token % 4 {
            let bytes = pattern(part, if part == 2 { 200_000 } else { 64 });
            stream.submit(head("x", next.fetch_add(1, Ordering::Relaxed), bytes.len()), &bytes).unwrap();
        }
        let mark = stream.record_token(token as i64 * 3, &format!("tök{token}")).unwrap();
        assert_eq!((mark.token_index, mark.packet), (token, next.load(Ordering::Relaxed)));
    }
    stream.finish().unwrap();
    let file = TensorFile::open(&path).unwrap();
    let packets: Vec<u64> = file.tokens().iter().map(|mark| mark.packet).collect();
    let expected: Vec<u64> = (0..50)
        .scan(0, |sum, token| {
            *sum += token % 4;
            Some(*sum)
        })
        .collect();
    assert_eq!(packets, expected);
    let told: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("a_tokens.json")).unwrap()).unwrap();
    assert_eq!(told["total_tokens"], 50);
    assert_eq!(told["tokens"][7]["token_text"], "tök7");
    assert_eq!(told["tokens"][7]["packet"], packets[7]);
}

#[test]
fn seventy_thousand_names_and_empty_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let stream = TensorStream::create(&path, small_memory(Pressure::Block, Codec::None)).unwrap();
    for number in 0..70_000_u64 {
        let bytes = &number.to_le_bytes()[..(number % 9) as usize];
        stream.submit(head(&format!("name.{number}"), 0, bytes.len()), bytes).unwrap();
    }
    stream.finish().unwrap();
    let file = TensorFile::open(&path).unwrap();
    assert_eq!((file.packets().len(), file.names().len()), (70_000, 70_000));
    for number in [0_u64, 8, 32_767, 32_768, 69_999] {
        let place = file.find(&format!("name.{number}"), Some(0));
        assert_eq!(place, [number as usize]);
        assert_eq!(file.read_elements(place[0]).unwrap(), number.to_le_bytes()[..(number % 9) as usize]);
    }
}

#[test]
fn seventy_thousand_dropped_names_are_all_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let stream = TensorStream::create(&path, small_memory(Pressure::Drop, Codec::None)).unwrap();
    for number in 0..70_000_u64 {
        stream.count_dropped(&head(&format!("name.{number}"), 0, 10)).unwrap();
    }
    stream.finish().unwrap();
    let dropped = TensorFile::open(&path).unwrap().dropped();
    assert_eq!(dropped.len(), 70_000);
    assert!(dropped.values().all(|counts| *counts == (1, 10)));
}

#[test]
fn more_than_four_gigabytes_pass_through_little_memory() {
    if std::env::var_os("DWELL_QUICK").is_some() {
        println!("SKIPPED more_than_four_gigabytes_pass_through_little_memory: DWELL_QUICK is set");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tensors");
    let options =
        StreamOptions { codec: Codec::Zstd { level: 1 }, max_memory_bytes: 64 << 20, ..StreamOptions::default() };
    let stream = TensorStream::create(&path, options).unwrap();
    // Runs of one number: much of it, quickly stored.
    let mut elements = floats(2 << 20, |_| 0.0);
    for step in 0..520_u64 {
        elements[..8].copy_from_slice(&step.to_le_bytes());
        stream.submit(float_head("x", step, 2 << 20), &elements).unwrap();
    }
    let summary = stream.finish().unwrap();
    assert!(summary.progress.raw_bytes > 1 << 32);
    assert!(summary.progress.peak_memory_bytes <= 64 << 20);
    let file = TensorFile::open(&path).unwrap();
    for step in [0_u64, 300, 519] {
        let place = file.find("x", Some(step))[0];
        elements[..8].copy_from_slice(&step.to_le_bytes());
        assert_eq!(file.read_elements(place).unwrap(), elements);
    }
}
