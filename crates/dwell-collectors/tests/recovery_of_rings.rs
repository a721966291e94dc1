//! What a killed observer left: whatever was written and whatever was not, every record comes back once.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt16Type, UInt64Type};
use dwell_collectors::{ENGINE_STREAM, MergedRecords, TENSOR_OPS_STREAM, WorkerRing, salvage};
use dwell_records::testing::{RecordBuilder, SmallModel};
use dwell_records::{Frame, Kind};
use dwell_ring::Producer;
use dwell_store::{RawCompression, RawReader, RawWriter, RecordsBuilder, RunDir, records_schema};

/// Twelve records: hello, an event, a graph, then steps and events in turn.
fn records() -> RecordBuilder {
    let model = SmallModel::new();
    let event = br#"{"event":"batch_ends","step":0}"#;
    let mut records = RecordBuilder::new().hello(1).engine(2, event).graph(3, &model.graph);
    for step in 0..4 {
        let end_ns = 100 + 20 * u64::from(step);
        records = records.step(end_ns, &model.step(step, 1, end_ns - 10..end_ns)).engine(end_ns + 1, event);
    }
    records.step(300, &model.step(4, 1, 290..300))
}

struct Run {
    dir: RunDir,
    _place: tempfile::TempDir,
}

impl Run {
    /// A run whose worker, this process, wrote all records into its ring and is gone.
    fn killed() -> Self {
        let place = tempfile::tempdir().unwrap();
        let dir = RunDir::create(place.path(), "model", "run").unwrap();
        let mut ring = Producer::create(&dir.raw(), std::process::id(), 1 << 20).unwrap();
        for frame in records().ring_bytes() {
            assert!(ring.write(&[&frame]));
        }
        Self { dir, _place: place }
    }

    fn stream(&self, name: &str) -> std::path::PathBuf {
        self.dir.raw_stream(name)
    }

    /// A stream with these records, as an observer left it that was killed afterwards.
    fn write(&self, stream: &str, wanted: impl Fn(&Frame<'_>) -> bool) {
        let mut writer = RawWriter::create(&self.stream(stream), records_schema(), RawCompression::None).unwrap();
        let mut builder = RecordsBuilder::new();
        for frame in records().frames().filter(wanted) {
            builder.push(frame.sequence, frame.kind, frame.time_ns, frame.payload);
        }
        writer.write(&builder.finish_batch()).unwrap();
        writer.flush().unwrap();
    }

    /// Numbers of the records, in the order in which they are read, and how many are missing.
    fn read(&self) -> (Vec<u64>, u64) {
        let mut merged = MergedRecords::open(&self.dir, 1).unwrap();
        let mut sequences = Vec::new();
        while let Some((_, frame)) = merged.next_frame() {
            sequences.push(frame.sequence);
        }
        (sequences, merged.missing())
    }

    fn kinds(&self, stream: &str) -> Vec<u16> {
        kinds(&self.stream(stream))
    }

    fn rings(&self) -> usize {
        let entries = std::fs::read_dir(self.dir.raw()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "ring")).count()
    }
}

fn kinds(stream: &Path) -> Vec<u16> {
    let of = |batch: RecordBatch| batch.column(1).as_primitive::<UInt16Type>().values().to_vec();
    RawReader::open(stream).unwrap().flat_map(|batch| of(batch.unwrap())).collect()
}

fn is_event(frame: &Frame<'_>) -> bool {
    frame.kind == Kind::Engine as u16
}

const ALL: [u64; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
const EVENTS: [u16; 5] = [Kind::Engine as u16; 5];

#[test]
fn events_and_recorded_graphs_have_streams_of_their_own() {
    let run = Run::killed();
    let mut worker = WorkerRing::new(&run.dir, std::process::id());
    let mut seen = Vec::new();
    assert!(worker.drain(|frame| seen.push(frame.sequence)).unwrap(), "steps were computed");
    worker.finish().unwrap();
    assert_eq!(seen, ALL);
    assert_eq!(run.kinds(ENGINE_STREAM), EVENTS);
    assert!(!run.kinds(TENSOR_OPS_STREAM).contains(&(Kind::Engine as u16)));
    assert_eq!((run.read(), run.rings()), ((ALL.to_vec(), 0), 0));
}

#[test]
fn an_engine_that_is_not_recorded_has_the_stream_of_events_alone() {
    let place = tempfile::tempdir().unwrap();
    let dir = RunDir::create(place.path(), "model", "run").unwrap();
    let mut ring = Producer::create(&dir.raw(), std::process::id(), 1 << 20).unwrap();
    let events = RecordBuilder::new().engine(1, b"{}").engine(2, b"{}");
    events.ring_bytes().iter().for_each(|frame| assert!(ring.write(&[frame])));
    let mut worker = WorkerRing::new(&dir, std::process::id());
    worker.drain(|_| {}).unwrap();
    worker.finish().unwrap();
    assert_eq!(kinds(&dir.raw_stream(ENGINE_STREAM)), EVENTS[..2]);
    assert!(!dir.raw_stream(TENSOR_OPS_STREAM).exists());
}

#[test]
fn a_kill_between_the_flushes_of_two_streams_loses_and_doubles_nothing() {
    for ahead in 0..=12 {
        for (first, second) in [(ENGINE_STREAM, TENSOR_OPS_STREAM), (TENSOR_OPS_STREAM, ENGINE_STREAM)] {
            let run = Run::killed();
            let belongs = |frame: &Frame<'_>| is_event(frame) == (first == ENGINE_STREAM);
            run.write(first, |frame| frame.sequence < ahead && belongs(frame));
            run.write(second, |frame| frame.sequence < ahead / 2 && !belongs(frame));
            salvage(&run.dir).unwrap();
            assert_eq!(run.read(), (ALL.to_vec(), 0), "{first} had records up to {ahead}");
            assert_eq!((run.kinds(ENGINE_STREAM).len(), run.rings()), (5, 0));
        }
    }
}

#[test]
fn a_run_of_an_earlier_version_with_all_records_in_one_stream_is_continued() {
    for written in [0, 1, 5, 6, 11, 12] {
        let run = Run::killed();
        run.write(TENSOR_OPS_STREAM, |frame| frame.sequence < written);
        salvage(&run.dir).unwrap();
        assert_eq!(run.read(), (ALL.to_vec(), 0), "{written} were written");
    }
}

#[test]
fn a_stream_whose_end_is_torn_gets_its_records_from_the_ring_again() {
    let run = Run::killed();
    run.write(ENGINE_STREAM, |frame| is_event(frame) && frame.sequence < 6);
    run.write(TENSOR_OPS_STREAM, |frame| !is_event(frame) && frame.sequence < 6);
    let path = run.stream(TENSOR_OPS_STREAM);
    let whole_bytes = std::fs::metadata(&path).unwrap().len();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(whole_bytes - 40).unwrap();
    assert_eq!(run.read().1, 1 + 3, "a torn end, and what is before the last event");
    salvage(&run.dir).unwrap();
    assert_eq!(run.read(), (ALL.to_vec(), 0));
}

#[test]
fn salvaging_twice_changes_nothing() {
    let run = Run::killed();
    salvage(&run.dir).unwrap();
    let before = [ENGINE_STREAM, TENSOR_OPS_STREAM].map(|name| std::fs::read(run.stream(name)).unwrap());
    salvage(&run.dir).unwrap();
    assert_eq!([ENGINE_STREAM, TENSOR_OPS_STREAM].map(|name| std::fs::read(run.stream(name)).unwrap()), before);
    let sequences = RawReader::open(&run.stream(ENGINE_STREAM)).unwrap().next().unwrap().unwrap();
    assert_eq!(sequences.column(0).as_primitive::<UInt64Type>().values().to_vec(), [1, 4, 6, 8, 10]);
}
