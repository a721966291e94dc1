//! The collector `pressure` on this machine: from its beginning to its table.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::thread;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use dwell_clock::monotonic_ns;
use dwell_collectors::{ALL, Collected, Collector, build_tables};
use dwell_events::ClockAnchor;
use dwell_events::engine::{EngineOptions, Job};
use dwell_metadata::{BuildOptions, RecordingEnd, RunRecord};
use dwell_store::{RunDir, open_table};
use serde_json::json;

const INTERVAL_MS: u64 = 20;

fn pressure() -> &'static dyn Collector {
    *ALL.iter().find(|collector| collector.description().name.name() == "pressure").unwrap()
}

/// The record of a run that this collector watches.
fn record() -> RunRecord {
    let job = Job::embedded(EngineOptions::new("model.gguf".into()), Vec::new());
    let record = json!({
        "job": job, "model_id": "m", "command_line": [], "build": BuildOptions::default(), "dwell_version": "0",
        "collectors": {"pressure": {"sample_interval_ms": INTERVAL_MS}},
        "clock": ClockAnchor { monotonic_ns: monotonic_ns(), unix_ns: 0 }, "host": dwell_host::read_host(),
    });
    serde_json::from_value(record).unwrap()
}

/// Watches until this many samples must have been due, then builds. Returns the window and the end's losses.
fn watched(run: &RunDir, samples: u64) -> ((u64, u64), Collected) {
    let record = record();
    let begin_ns = monotonic_ns();
    let settings = record.request.collectors.settings(pressure().description().name).unwrap();
    let mut watching = pressure().begin(run, &record.request, settings).unwrap();
    for _ in 0..samples {
        thread::sleep(Duration::from_millis(INTERVAL_MS));
        assert!(!watching.poll().unwrap(), "it cannot see a model compute");
    }
    let end = watching.end().unwrap();
    let window = (begin_ns, monotonic_ns());
    let facts = RecordingEnd { collectors: [("pressure".to_owned(), end)].into(), ..RecordingEnd::default() };
    (window, build_tables(run, &record, Some(&facts)).unwrap())
}

fn numbers(run: &RunDir, column: &str) -> Vec<Option<u64>> {
    let table = pressure().own_tables()[0];
    let values = |batch: arrow_array::RecordBatch| -> Vec<Option<u64>> {
        batch.column_by_name(column).unwrap().as_primitive::<UInt64Type>().iter().collect()
    };
    open_table(run.path(), table).unwrap().flat_map(|batch| values(batch.unwrap())).collect()
}

#[test]
fn samples_lie_inside_the_run_at_its_interval_and_every_one_that_is_missing_is_counted() {
    let place = tempfile::tempdir().unwrap();
    let run = RunDir::create(place.path(), "model", "run").unwrap();
    let ((begin_ns, end_ns), collected) = watched(&run, 10);
    let times: Vec<u64> = numbers(&run, "timestamp_ns").into_iter().map(Option::unwrap).collect();
    assert!(times.is_sorted() && times[0] >= begin_ns && times[times.len() - 1] <= end_ns, "{times:?}");
    let built = collected.tables.iter().find(|built| built.source == pressure().description().name).unwrap();
    assert_eq!((built.rows, built.basis.name()), (times.len() as u64, "sampled"));
    let missed: u64 = collected
        .losses
        .iter()
        .filter(|loss| loss.source == "pressure" && loss.detail == "samples that were due")
        .map(|loss| loss.count)
        .sum();
    // The first, one for each interval that has passed, and the last; a busy machine misses some and says so.
    let due = (times[times.len() - 1] - times[0]) / (INTERVAL_MS * 1_000_000);
    let taken = times.len() as u64 + missed;
    assert!((due..=due + 3).contains(&taken), "{taken} of {due}");
    let available = numbers(&run, "available_bytes");
    assert!(available.iter().all(|bytes| bytes.is_some_and(|bytes| bytes > 0)), "{available:?}");
}

#[test]
fn a_run_that_it_did_not_watch_has_no_table_of_it() {
    let place = tempfile::tempdir().unwrap();
    let run = RunDir::create(place.path(), "model", "run").unwrap();
    let mut record = record();
    record.request.collectors = record.request.collectors.without(pressure().description().name);
    let collected = build_tables(&run, &record, None).unwrap();
    let name = pressure().own_tables()[0];
    assert!(!collected.has(name) && !run.table(name).exists());
}
