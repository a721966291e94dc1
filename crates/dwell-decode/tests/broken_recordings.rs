//! Recordings that are cut, changed or lie: no panic, no memory for what is not there, and what came before the fault.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use std::io::Cursor;

use dwell_decode::error::{DecodeError, DecodeReason};
use dwell_decode::perf_data::{PerfData, Record, Sample};
use dwell_decode::perf_script::{PerfScript, ScriptSample};
use dwell_decode::testing::{MemorySample, PerfFile, fields};
use proptest::prelude::*;

fn made(samples: u64) -> PerfFile {
    let mut file = PerfFile::new(fields::MEMORY | fields::LONG_BEFORE_WEIGHT | fields::BETWEEN);
    file.comm(100, "llama server");
    file.mmap2(100, 0x40_0000, 0x10_0000, 0, "/usr/bin/no-such-program");
    for index in 0..samples {
        let event = (index % 2) as usize;
        file.sample(&MemorySample { event, time_ns: 1000 + index, address: 64 * index, ..MemorySample::default() });
    }
    file
}

/// Samples before the end or the first error, and that error.
fn read(bytes: &[u8]) -> (Vec<Sample>, Option<DecodeError>) {
    let mut data = match PerfData::open(Cursor::new(bytes)) {
        Ok(data) => data,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut samples = Vec::new();
    loop {
        match data.next_record() {
            Ok(Some(Record::Sample(sample))) => samples.push(*sample),
            Ok(Some(_)) => {}
            Ok(None) => return (samples, None),
            Err(error) => return (samples, Some(error)),
        }
    }
}

#[test]
fn a_recording_cut_anywhere_gives_what_came_before() {
    let file = made(12);
    let forms = [file.file(), file.pipe(), file.compressed(500, false).unwrap().pipe()];
    for bytes in forms {
        let (all, error) = read(&bytes);
        assert!(error.is_none() && all.len() == 12);
        let mut most = 0;
        for length in 0..=bytes.len() {
            let (samples, error) = read(&bytes[..length]);
            assert_eq!(samples, all[..samples.len()], "cut at {length}");
            assert!(samples.len() >= most, "cut at {length}: fewer samples than of less");
            most = samples.len();
            // A cut between two records of a pipe cannot be seen, nor one within what a file says behind its data.
            assert!(error.is_none_or(|error| error.is_truncation() || error.offset <= length as u64));
        }
        assert_eq!(most, 12);
    }
}

#[test]
fn a_cut_file_says_that_it_ends_too_early() {
    let bytes = made(12).file();
    let data_end = bytes.len() - 16 - 8 - 2 * (128 + 4 + 4 + 64 + 8);
    let (samples, error) = read(&bytes[..data_end - 100]);
    assert_eq!(samples.len(), 11);
    let text = error.unwrap().to_string();
    assert!(text.starts_with("the recording ends within a record (at byte "), "{text}");
}

fn refusal(bytes: &[u8]) -> String {
    read(bytes).1.expect("an error").to_string()
}

#[test]
fn what_is_no_recording_is_refused_with_the_reason() {
    let not = "no perf.data file: it does not begin with PERFILE2 (at byte 0 of the recording)";
    assert_eq!(refusal(b"#!/bin/sh and so on and so on"), not);
    assert_eq!(refusal(b"PERF"), "the recording ends within its head (at byte 0 of the recording)");
    let mut foreign = made(1).file();
    foreign[..8].reverse();
    assert!(refusal(&foreign).starts_with("a perf.data file of a machine with the other byte order"));
    let mut pipe = made(1).file();
    pipe[8] = 20;
    assert!(refusal(&pipe).starts_with("a head of 20 bytes"));
    let stream = PerfData::stream(Cursor::new(made(1).file()));
    assert!(stream.err().unwrap().to_string().starts_with("a perf.data file, which cannot be read from a pipe"));
}

#[test]
fn lengths_that_lie_are_found() {
    // More attributes than there could be.
    let mut file = made(1).file();
    file[32..40].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    assert!(matches!(read(&file).1.unwrap().reason, DecodeReason::TooMany { what: "events", .. }));
    // A record smaller than its own head.
    let mut pipe = PerfFile::new(fields::MEMORY).pipe();
    pipe.extend([9, 0, 0, 0, 0, 0, 4, 0]);
    assert!(refusal(&pipe).starts_with("a record states a size of 4 bytes"));
    // A call chain longer than its sample.
    let mut file = PerfFile::new(fields::MEMORY | 0x20);
    let mut body = vec![0; 64];
    body[..8].copy_from_slice(&11_u64.to_le_bytes());
    body.extend(u64::MAX.to_le_bytes());
    file.record(9, 2, &body);
    let mut data = PerfData::open(Cursor::new(file.file())).unwrap();
    assert_eq!(data.next_record().unwrap(), None);
    assert_eq!(data.recording().counts.short_records, 1);
    // A trace of another unit that is not all there.
    let mut file = made(1);
    file.record(71, 0, &u64::MAX.to_le_bytes());
    assert!(refusal(&file.pipe()).starts_with("the recording ends within data that follows a record"));
    // Samples of an event that nobody described.
    let mut file = made(0);
    file.record(9, 2, &[0; 200]);
    let mut data = PerfData::open(Cursor::new(file.file())).unwrap();
    while data.next_record().unwrap().is_some() {}
    assert_eq!(data.recording().counts.samples_of_unknown_events, 1);
}

#[test]
fn a_compressed_record_that_is_gigabytes_takes_little_memory() {
    // Zero bytes are records of the size 0, so only the first window of them is ever decompressed.
    let mut pipe = made(0).pipe();
    let zeros = zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap();
    let size = (8 + zeros.len()) as u16;
    pipe.extend([81, 0, 0, 0, 0, 0]);
    pipe.extend(size.to_le_bytes());
    pipe.extend(zeros);
    let (text, peak) = counting_allocator::most_held_during(|| refusal(&pipe));
    assert!(text.starts_with("a record states a size of 0 bytes"), "{text}");
    assert!(peak < 8 << 20, "{peak}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_bytes_never_panic_and_take_little_memory(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        form in 0..3,
    ) {
        let file = made(30);
        let mut bytes = match form {
            0 => file.file(),
            1 => file.pipe(),
            _ => file.compressed(700, true).unwrap().file(),
        };
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        let (_, peak) = counting_allocator::most_held_during(|| read(&bytes));
        // One window of the recording and one of decompressed data; what zstd itself holds is not counted here.
        prop_assert!(peak < 16 << 20, "{peak}");
    }

    #[test]
    fn changed_lines_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&b" \t\n:|()[]+x./0f9\xff"[..])), 1..20),
    ) {
        let line = "    llama server   100/101   [001] U  1.000000:  4000 cpu/mem-loads,ldlat=30/P:     7f0000000000  68100142 \
                    |OP LOAD|LVL L1 hit|SNP None|BLK  N/A     300     401000 ns::F<int>::f(int, char)+0x10 (/usr/bin/x (y))   1234\n\
                    \tffffffff8175286a elf_load ([kernel.kallsyms])\n\n";
        let mut text = line.repeat(2).into_bytes();
        for (index, byte) in changes {
            let at = index.index(text.len());
            text[at] = byte;
        }
        let mut script = PerfScript::new(&text[..]);
        let mut samples = 0;
        let result = script.read(|_: &ScriptSample<'_>| { samples += 1; Ok::<(), DecodeError>(()) });
        prop_assert!(result.is_ok());
        let counts = script.counts();
        let skipped: u64 = counts.skipped.values().map(|skipped| skipped.count).sum();
        prop_assert_eq!(counts.samples, samples);
        prop_assert!(counts.samples + skipped + counts.chain_lines <= counts.lines);
    }
}
