//! perf.data files whose every sample is known, read back: all fields, all forms, and with the real perf as a witness.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::io::Cursor;
use std::process::Command;

use dwell_decode::perf_data::{PerfData, Record, RecordingClock, Sample, Weight};
use dwell_decode::testing::{MemorySample, PerfFile, fields};

/// Data sources of which perf knows a text: hits of every level, remote ones, what is not available.
const DATA_SOURCES: [u64; 8] = [
    0x6810_0142,
    0x6810_0842,
    0x1e_0508_0021,
    0x2_6910_0142,
    0x1e_0508_0184,
    0xc3a_0000_0002,
    0x12_0000_0002,
    0x1a_2908_0144,
];

fn samples(count: u64) -> Vec<MemorySample> {
    let sample = |index: u64| MemorySample {
        event: (index % 2) as usize,
        ip: 0x40_1000 + index,
        pid: 100,
        tid: 101 + (index % 3) as u32,
        time_ns: 1_000_000_000 + index * 1_234_567,
        address: 0x7f00_0000_0000 + 64 * index,
        cpu: (index % 4) as u32,
        period: 4000 + index,
        weight: 300 + index,
        data_source: DATA_SOURCES[index as usize % DATA_SOURCES.len()],
        physical_address: 0x1234_5000 + index,
    };
    (0..count).map(sample).collect()
}

fn made(sample_type: u64, samples: &[MemorySample]) -> PerfFile {
    let mut file = PerfFile::new(sample_type);
    file.comm(100, "llama server");
    file.mmap2(100, 0x40_0000, 0x10_0000, 0, "/usr/bin/no-such-program");
    samples.iter().for_each(|sample| file.sample(sample));
    file
}

fn read(bytes: &[u8]) -> Vec<Sample> {
    let mut data = PerfData::open(Cursor::new(bytes)).unwrap();
    let mut found = Vec::new();
    while let Some(record) = data.next_record().unwrap() {
        if let Record::Sample(sample) = record {
            found.push(*sample);
        }
    }
    assert_eq!(data.recording().counts.samples, found.len() as u64);
    assert_eq!(data.recording().counts.short_records, 0);
    found
}

/// What was written, from what was read.
fn written(sample: &Sample) -> MemorySample {
    let process = sample.process().unwrap();
    MemorySample {
        event: sample.event(),
        ip: sample.ip().unwrap(),
        pid: process.pid,
        tid: process.tid,
        time_ns: sample.time_ns().unwrap(),
        address: sample.address().unwrap(),
        cpu: sample.cpu().unwrap(),
        period: sample.period().unwrap(),
        weight: sample.weight().unwrap().access_cycles(),
        data_source: sample.data_source().unwrap().0,
        physical_address: sample.physical_address().unwrap(),
    }
}

fn all_written(bytes: &[u8]) -> Vec<MemorySample> {
    read(bytes).iter().map(written).collect()
}

#[test]
fn every_field_is_read_back_whatever_stands_between() {
    let expected = samples(20);
    let alternatives = [
        fields::MEMORY,
        fields::MEMORY & !fields::WEIGHT_STRUCT | fields::WEIGHT,
        fields::MEMORY | fields::LONG_BEFORE_WEIGHT,
        fields::MEMORY | fields::BETWEEN,
        fields::MEMORY | fields::LONG_BEFORE_WEIGHT | fields::BETWEEN | fields::BEHIND,
        // The id in the middle of the sample, and a stream id.
        fields::MEMORY & !(1 << 16) | 1 << 6 | 1 << 9,
    ];
    for sample_type in alternatives {
        let file = made(sample_type, &expected);
        assert_eq!(all_written(&file.file()), expected, "{sample_type:#x}");
        assert_eq!(all_written(&file.pipe()), expected, "{sample_type:#x} of a pipe");
    }
}

#[test]
fn records_within_compressed_ones_are_read_across_their_borders() {
    let expected = samples(500);
    let file = made(fields::MEMORY, &expected);
    for (bytes_of_each, is_newer_kind) in [(5000, false), (777, true), (8, false), (8, true)] {
        let compressed = file.compressed(bytes_of_each, is_newer_kind).unwrap();
        assert!(compressed.file() != file.file());
        assert_eq!(all_written(&compressed.file()), expected, "{bytes_of_each} bytes in each");
        assert_eq!(all_written(&compressed.pipe()), expected, "{bytes_of_each} bytes in each, of a pipe");
    }
}

#[test]
fn a_weight_of_three_parts_is_not_one_number() {
    let sample = MemorySample { weight: 7 << 48 | 5 << 32 | 300, ..samples(1)[0] };
    let parts = Weight::Parts { access_cycles: 300, instruction_cycles: 5, retire_cycles: 7 };
    assert_eq!(read(&made(fields::MEMORY, &[sample]).file())[0].weight(), Some(parts));
    let one = fields::MEMORY & !fields::WEIGHT_STRUCT | fields::WEIGHT;
    assert_eq!(read(&made(one, &[sample]).file())[0].weight(), Some(Weight::Cycles(sample.weight)));
}

#[test]
fn fields_that_were_not_recorded_are_missing() {
    let only_times = 1 << 2 | 1 << 16;
    let found = read(&made(only_times, &samples(1)).file());
    assert_eq!(found[0].time_ns(), Some(1_000_000_000));
    assert_eq!((found[0].ip(), found[0].address(), found[0].process()), (None, None, None));
    assert_eq!((found[0].cpu(), found[0].weight(), found[0].data_source()), (None, None, None));
}

#[test]
fn records_come_in_order_of_time_across_the_buffers_of_processors() {
    let all = samples(90);
    let mut file = PerfFile::new(fields::MEMORY);
    for round in all.chunks(30) {
        for cpu in 0..4 {
            round.iter().filter(|sample| sample.cpu == cpu).for_each(|sample| file.sample(sample));
        }
        file.round_ends();
    }
    assert_eq!(all_written(&file.file()), all);
}

#[test]
fn what_the_recording_says_about_itself_is_told() {
    let mut file = made(fields::MEMORY, &samples(3)).with_clock(1);
    file.lost(42, 2_000_000_000);
    file.record(13, 0, &[9, 0, 0, 0, 0, 0, 0, 0]);
    for bytes in [file.file(), file.pipe()] {
        let mut data = PerfData::open(Cursor::new(bytes)).unwrap();
        while data.next_record().unwrap().is_some() {}
        let recording = data.recording();
        let names: Vec<&str> = recording.events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P"]);
        assert_eq!((recording.counts.lost_records, recording.counts.lost_samples), (42, 9));
        assert_eq!(recording.clock(), RecordingClock::Posix(1));
    }
    let data = PerfData::open(Cursor::new(made(fields::MEMORY, &[]).file())).unwrap();
    assert_eq!(data.recording().clock(), RecordingClock::Scheduler);
}

#[test]
fn a_recording_that_was_not_finished_is_read_to_its_end() {
    let expected = samples(10);
    let file = made(fields::MEMORY, &expected);
    let mut bytes = file.file();
    // The size of the data is written last.
    bytes[48..56].fill(0);
    let features = bytes.len() - 16 - 8 - 2 * (128 + 4 + 4 + 64 + 8);
    bytes.truncate(features);
    assert_eq!(all_written(&bytes), expected);
    assert!(PerfData::open(Cursor::new(&bytes)).unwrap().recording().is_unfinished);
}

/// What `perf script` prints of a recording, in the fields that are compared.
fn perf_script(path: &std::path::Path) -> String {
    let fields = "pid,tid,cpu,time,period,event,addr,ip,weight,data_src,phys_addr";
    let mut perf = Command::new("perf");
    perf.args(["script", "--ns", "-G", "-F", fields, "-i"]).arg(path);
    let output = perf.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A sample from a line of `perf script`, by its columns.
fn printed(line: &str) -> MemorySample {
    let (head, tail) = line.split_once('|').unwrap();
    let mut head = head.split_whitespace();
    let (pid, tid) = head.next().unwrap().split_once('/').unwrap();
    let cpu = head.next().unwrap().trim_matches(['[', ']']);
    let time = head.next().unwrap().trim_end_matches(':').replace('.', "");
    let period = head.next().unwrap();
    let event = usize::from(head.next().unwrap().contains("mem-stores"));
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (address, data_source) = (hex(head.next().unwrap()), hex(head.next().unwrap()));
    let tail: Vec<&str> = tail.split_whitespace().collect();
    let [.., weight, ip, physical] = tail[..] else { panic!("{line}") };
    MemorySample {
        event,
        ip: hex(ip),
        pid: pid.parse().unwrap(),
        tid: tid.parse().unwrap(),
        time_ns: time.parse().unwrap(),
        address,
        cpu: cpu.parse().unwrap(),
        period: period.parse().unwrap(),
        weight: weight.parse().unwrap(),
        data_source,
        physical_address: hex(physical),
    }
}

#[test]
fn perf_reads_the_same_from_the_made_files() {
    if Command::new("perf").arg("--version").output().is_err() {
        return skip::skip("perf_reads_the_same_from_the_made_files", "there is no perf");
    }
    let expected = samples(40);
    let folder = tempfile::tempdir().unwrap();
    let long = fields::LONG_BEFORE_WEIGHT & !fields::COUNTS;
    for sample_type in [fields::MEMORY, fields::MEMORY | long | fields::BETWEEN | fields::BEHIND] {
        let path = folder.path().join("perf.data");
        std::fs::write(&path, made(sample_type, &expected).file()).unwrap();
        let lines: Vec<MemorySample> = perf_script(&path).lines().map(printed).collect();
        assert_eq!(lines, expected, "{sample_type:#x}");
    }
}
