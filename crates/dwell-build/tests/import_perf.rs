//! Recordings of perf with known samples become runs with exactly these accesses, from the file and from perf's text.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_array::types::{UInt16Type, UInt32Type, UInt64Type};
use dwell_build::import::{ALL, ImportError, ImportReport, ImportRequest, import};
use dwell_decode::testing::{MemorySample, PerfFile, fields};
use dwell_events::Hint;
use dwell_events::schema::Table;
use dwell_store::{RunState, number_at, open_table, text_at, verify};
use serde_json::json;

const LOAD_L1_HIT: u64 = 0x6810_0142;
const STORE_L1_MISS: u64 = 0x1e_0508_0184;
const LOAD_REMOTE_DRAM: u64 = 0x3a_0000_0002;
const NOT_AVAILABLE: u64 = 0x1e_0508_0021;
const PREFETCH: u64 = 0x08;

/// One row of the trace, in the columns that a sample fills.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    timestamp_ns: u64,
    address: u64,
    op: String,
    dso: String,
    latency_ns: Option<u32>,
    cache_level: Option<String>,
    cpu: Option<u16>,
    thread: Option<u32>,
    period: u64,
    source: String,
}

fn sample(index: u64, data_source: u64) -> MemorySample {
    MemorySample {
        event: 0,
        ip: 0x40_1000,
        pid: 100,
        tid: 101,
        time_ns: 1_000_000_123 + index * 1000,
        address: 0x7f00_0000_0000 + 64 * index,
        cpu: 3,
        period: 4000,
        weight: 300,
        data_source,
        physical_address: 0,
    }
}

fn recording() -> PerfFile {
    let mut file = PerfFile::new(fields::MEMORY).with_clock(1);
    file.comm(100, "llama server");
    file.mmap2(100, 0x40_0000, 0x10_0000, 0, "/opt/libggml-cpu.so");
    let sources = [LOAD_L1_HIT, STORE_L1_MISS, LOAD_REMOTE_DRAM, NOT_AVAILABLE, PREFETCH];
    (0..).zip(sources).for_each(|(index, source)| file.sample(&sample(index, source)));
    // The event says what the data source does not, and an address of 0 is none.
    file.sample(&MemorySample { event: 1, weight: 0, ..sample(5, NOT_AVAILABLE) });
    file.sample(&MemorySample { address: 0, ..sample(6, LOAD_L1_HIT) });
    file
}

fn expected(latency_ns: Option<u32>) -> Vec<Row> {
    let row = |index: u64, op: &str, level: Option<&str>, latency_ns| Row {
        timestamp_ns: 1_000_000_123 + index * 1000,
        address: 0x7f00_0000_0000 + 64 * index,
        op: op.to_owned(),
        dso: "/opt/libggml-cpu.so".to_owned(),
        latency_ns,
        cache_level: level.map(str::to_owned),
        cpu: Some(3),
        thread: Some(101),
        period: 4000,
        source: "perf_mem".to_owned(),
    };
    vec![
        row(0, "load", Some("L1"), latency_ns),
        row(1, "store", None, latency_ns),
        row(2, "load", Some("remote_DRAM"), latency_ns),
        row(3, "load", None, latency_ns),
        row(5, "store", None, None),
    ]
}

fn rows(run: &Path) -> Vec<Row> {
    let mut found = Vec::new();
    for batch in open_table(run, Table::Trace).unwrap() {
        let batch = batch.unwrap();
        let text = |column, row| text_at(&batch, column, row).map(str::to_owned);
        found.extend((0..batch.num_rows()).map(|row| Row {
            timestamp_ns: number_at::<UInt64Type>(&batch, "timestamp_ns", row).unwrap(),
            address: number_at::<UInt64Type>(&batch, "address", row).unwrap(),
            op: text("op_type", row).unwrap(),
            dso: text("dso", row).unwrap(),
            latency_ns: number_at::<UInt32Type>(&batch, "access_latency_ns", row),
            cache_level: text("cache_level", row),
            cpu: number_at::<UInt16Type>(&batch, "cpu_id", row),
            thread: number_at::<UInt32Type>(&batch, "thread_id", row),
            period: number_at::<UInt64Type>(&batch, "period", row).unwrap(),
            source: text("source", row).unwrap(),
        }));
    }
    found
}

/// Kind and count of each loss.
fn losses(run: &Path) -> Vec<(String, u64)> {
    let batch = open_table(run, Table::Loss).unwrap().next();
    let Some(batch) = batch.map(Result::unwrap) else { return Vec::new() };
    let kind = |row| text_at(&batch, "kind", row).unwrap().to_owned();
    let count = |row| number_at::<UInt64Type>(&batch, "count", row).unwrap();
    (0..batch.num_rows()).map(|row| (kind(row), count(row))).collect()
}

fn import_files(
    format: &str,
    files: Vec<PathBuf>,
    options: &[(&'static str, &str)],
) -> Result<ImportReport, ImportError> {
    let importer = ALL.iter().find(|importer| importer.name() == format).unwrap();
    let request = ImportRequest {
        results: files[0].parent().unwrap().join("results"),
        files,
        model_id: "model".to_owned(),
        run_id: None,
        options: options.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
        command_line: vec!["dwell".to_owned(), "import".to_owned()],
    };
    import(*importer, &request, &[])
}

fn import_bytes(
    dir: &Path,
    format: &str,
    bytes: &[u8],
    options: &[(&'static str, &str)],
) -> Result<ImportReport, ImportError> {
    let path = dir.join("recording");
    fs::write(&path, bytes).unwrap();
    import_files(format, vec![path], options)
}

#[test]
fn samples_become_accesses_and_cycles_no_nanoseconds() {
    let dir = tempfile::tempdir().unwrap();
    for bytes in [recording().file(), recording().pipe(), recording().compressed(200, true).unwrap().file()] {
        let report = import_bytes(dir.path(), "perf-data", &bytes, &[]).unwrap();
        assert_eq!(rows(&report.run_dir), expected(None));
        let skipped_and_cycles = [("skipped_samples".to_owned(), 2), ("latencies_in_cycles".to_owned(), 4)];
        assert_eq!(losses(&report.run_dir), skipped_and_cycles);
        assert_eq!(report.state, RunState::Complete);
        assert!(verify(&report.run_dir, &Table::ALL).unwrap().is_ok());
        let import = report.metadata.import.unwrap();
        assert_eq!((import.format.as_str(), import.files.len()), ("perf-data", 1));
        let found = import.found;
        assert_eq!((&found["form"], &found["clock"]), (&json!("perf.data"), &json!("CLOCK_MONOTONIC")));
        assert_eq!(found["events"]["cpu/mem-loads,ldlat=30/P"], 6);
        assert_eq!(found["samples"], json!({ "accesses": 5, "prefetches": 1, "without_address": 1 }));
        let written = fs::read_to_string(report.run_dir.join("metadata.json")).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&written).unwrap().get("perf").is_none());
    }
}

#[test]
fn cycles_become_nanoseconds_by_a_stated_clock() {
    let dir = tempfile::tempdir().unwrap();
    let report = import_bytes(dir.path(), "perf-data", &recording().file(), &[("cpu-mhz", "2400")]).unwrap();
    assert_eq!(rows(&report.run_dir), expected(Some(125)));
    assert_eq!(losses(&report.run_dir), [("skipped_samples".to_owned(), 2)]);
    assert_eq!(report.metadata.import.unwrap().found["cpu_mhz"], 2400);
}

#[test]
fn the_text_that_perf_prints_gives_the_same_accesses_as_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("perf.data");
    fs::write(&data, recording().file()).unwrap();
    let fields = "comm,pid,tid,cpu,time,period,event,addr,ip,sym,dso,weight,data_src";
    let output = Command::new("perf").args(["script", "--ns", "-F", fields, "-i"]).arg(&data).output();
    let Ok(output) = output else {
        return skip::skip("the_text_that_perf_prints_gives_the_same_accesses_as_the_file", "there is no perf");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = import_bytes(dir.path(), "perf-script", &output.stdout, &[("cpu-mhz", "2400")]).unwrap();
    assert_eq!(rows(&report.run_dir), expected(Some(125)));
    assert_eq!(losses(&report.run_dir), [("skipped_samples".to_owned(), 2)]);
    assert_eq!(report.metadata.import.unwrap().found["clock"], "unknown");
}

#[test]
fn lost_samples_and_cut_recordings_are_loss() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = recording();
    file.lost(42, 2_000_000_000);
    let report = import_bytes(dir.path(), "perf-data", &file.file(), &[("cpu-mhz", "2400")]).unwrap();
    assert_eq!(report.state, RunState::Partial);
    assert!(losses(&report.run_dir).contains(&("lost_samples".to_owned(), 42)));
    let mut pipe = recording().pipe();
    pipe.truncate(pipe.len() - 4);
    let report = import_bytes(dir.path(), "perf-data", &pipe, &[("cpu-mhz", "2400")]).unwrap();
    assert_eq!((report.state, rows(&report.run_dir)), (RunState::Partial, expected(Some(125))));
    assert!(losses(&report.run_dir).contains(&("undecodable_records".to_owned(), 1)));
}

#[test]
fn lines_that_are_not_understood_are_loss_with_the_first_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let text = "x 1 1.000000: mem-loads:  7f00\nwhat is this\nx 1 2.000000: mem-stores:  7f40\n";
    let report = import_bytes(dir.path(), "perf-script", text.as_bytes(), &[]).unwrap();
    assert_eq!(rows(&report.run_dir).iter().map(|row| row.op.as_str()).collect::<Vec<_>>(), ["load", "store"]);
    let loss = open_table(&report.run_dir, Table::Loss).unwrap().next().unwrap().unwrap();
    let detail = "lines with no time of a sample; the first, line 2: what is this";
    assert_eq!((text_at(&loss, "detail", 0), report.state), (Some(detail), RunState::Partial));
}

#[test]
fn what_cannot_be_imported_is_refused_with_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |result: Result<ImportReport, ImportError>| {
        let error = result.unwrap_err();
        assert!(!dir.path().join("results").exists());
        (error.to_string(), error.hints())
    };
    let (message, _) = refused(import_bytes(dir.path(), "perf-data", b"not a recording at all", &[]));
    assert!(message.contains("no perf.data file: it does not begin with PERFILE2"), "{message}");
    let mut damaged = recording().file();
    let in_records = damaged.len() / 2;
    damaged[in_records..].fill(0);
    for bytes in [b"not a recording at all".to_vec(), damaged] {
        let (message, hints) = refused(import_bytes(dir.path(), "perf-data", &bytes, &[]));
        assert!(hints.iter().any(|hint| hint.contains("--header-only")), "{message} {hints:?}");
    }
    let mut foreign = recording().file();
    foreign[..8].reverse();
    let (message, hints) = refused(import_bytes(dir.path(), "perf-data", &foreign, &[]));
    assert!(message.contains("other byte order") && hints[0].contains("perf script"), "{message} {hints:?}");
    let (message, hints) = refused(import_bytes(dir.path(), "perf-script", b"x 1 1.000000: page-faults:  7f00\n", &[]));
    assert!(message.contains("1 samples without operation"), "{message}");
    assert!(hints.iter().any(|hint| hint.contains("--unknown-op")), "{hints:?}");
    let (message, hints) = refused(import_bytes(dir.path(), "perf-script", b"nothing\n", &[]));
    assert!(message.contains("the first, line 1: nothing") && hints[0].contains("perf script --ns -F"), "{message}");
    let two = vec![dir.path().join("a"), dir.path().join("b")];
    assert!(refused(import_files("perf-data", two, &[])).0.contains("takes one file, and 2 were given"));
    assert!(refused(import_files("perf-script", vec![dir.path().join("absent")], &[])).0.contains("absent"));
    let page_faults = b"x 1 1.000000: page-faults:  7f00\n";
    let report = import_bytes(dir.path(), "perf-script", page_faults, &[("unknown-op", "store")]).unwrap();
    assert_eq!(rows(&report.run_dir)[0].op, "store");
}

#[test]
fn the_share_of_accesses_whose_function_is_known_is_what_was_imported() {
    let dir = tempfile::tempdir().unwrap();
    let line = |at: u32, function: &str| {
        format!(
            "x 1 {at}.000000: cpu/mem-loads/P:     7f0000000040 {:>16} |OP LOAD|LVL L1 hit|BLK  N/A {:>16} {function}\n",
            "68100142", 300
        )
    };
    let named = format!("{:>16} memcpy (/lib/libc.so)", "7f1234567890");
    let text = [line(1, &named), line(2, ""), line(3, ""), line(4, &named), line(5, "")].concat();
    let report = import_bytes(dir.path(), "perf-script", text.as_bytes(), &[("cpu-mhz", "1000")]).unwrap();
    let quality = report.metadata.quality.unwrap();
    let share = |name: &str| quality.checks.iter().find(|check| check.name.name() == name).unwrap().share;
    assert_eq!(["symbols", "latency", "cache_level"].map(share), [Some(0.4), Some(1.0), Some(1.0)]);
}
