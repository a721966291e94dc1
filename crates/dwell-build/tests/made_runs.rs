//! Building and recovery with known truth: the records of a small model, whole, cut off and damaged, and the rows that
//! must come of them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/mock_engine.rs"]
mod mock_engine;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt64Type};
use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use dwell_build::import::{ALL, ImportRequest, import};
use dwell_build::{BuildError, BuildSetup, BuiltRun, NoListener, build_run, recover_run};
use dwell_collectors::{TENSOR_OPS_STREAM, WorkerRing};
use dwell_decode::testing::{MemorySample, PerfFile, fields};
use dwell_events::LossKind;
use dwell_events::engine::{Action, EngineOptions, Job};
use dwell_events::schema::Table;
use dwell_events::server::PROGRAM_RINGS_DIR;
use dwell_metadata::{RecordingEnd, RunRecord};
use dwell_records::Step;
use dwell_records::testing::{RecordBuilder, SmallModel};
use dwell_ring::Producer;
use dwell_store::{RawCompression, RawWriter, RecordsBuilder, RunDir, RunState, open_table, records_schema, verify};
use mock_engine::{MockEngine, PROMPT_TOKENS, USUAL_LOSSES};

/// When the engine begins.
const BEGIN_NS: u64 = 1_000_000;
/// Process of the engine; there is none of that number, so it is taken for dead.
const WORKER_PID: u32 = 4_194_305;

struct MadeRun {
    dir: RunDir,
    _place: tempfile::TempDir,
}

fn job(model: &str, tokens: u32) -> Job {
    let sequences = vec![0];
    let options = EngineOptions::new(PathBuf::from(format!("{model}.gguf")));
    let prompt = Action::Prompt { text: "hello".to_owned(), sequences: sequences.clone(), fill_to_tokens: None };
    Job::embedded(options, vec![prompt, Action::Generate { max_tokens: tokens, sequences }])
}

impl MadeRun {
    /// A run directory with the record of what was asked for.
    fn begun(job: &Job) -> Self {
        let place = tempfile::tempdir().unwrap();
        let dir = RunDir::create(place.path(), "small", "run").unwrap();
        // As 0.1.0 wrote it, which stays readable.
        let record = serde_json::json!({
            "job": job, "model_id": "small", "is_traced": true, "sample_interval_ms": null, "command_line": ["mock"],
            "clock": {"monotonic_ns": BEGIN_NS, "unix_ns": 1_700_000_000_000_000_000_u64}, "dwell_version": "0.1.0",
            "host": {"cpu_model": null, "cpus": 1, "memory_bytes": null, "page_bytes": 4096, "kernel": "6", "os": null,
                     "architecture": "x86_64"},
        });
        fs::write(dir.raw().join(RunRecord::FILE_NAME), record.to_string()).unwrap();
        Self { dir, _place: place }
    }

    /// Records the job of a mock through a ring, in several batches, as far as `observed` of its records; the rest stays
    /// in the ring.
    fn observed(model: &str, tokens: u32, observed: usize) -> Self {
        let job = job(model, tokens);
        let run = Self::begun(&job);
        let frames = MockEngine::records(&job, true, BEGIN_NS).ring_bytes();
        let mut ring = Producer::create(&run.dir.raw(), std::process::id(), 1 << 20).unwrap();
        let path_of = |pid| run.dir.raw().join(dwell_ring::file_name(pid));
        fs::rename(path_of(std::process::id()), path_of(WORKER_PID)).unwrap();
        let mut recording = WorkerRing::new(&run.dir, WORKER_PID);
        let (first, rest) = frames.split_at(observed.min(frames.len()));
        for batch in first.chunks(first.len().div_ceil(3).max(1)) {
            batch.iter().for_each(|frame| assert!(ring.write(&[frame])));
            // Longer than records wait before they are written.
            std::thread::sleep(Duration::from_millis(300));
            recording.drain(|_| {}).unwrap();
        }
        rest.iter().for_each(|frame| assert!(ring.write(&[frame])));
        if observed >= frames.len() {
            ring.close();
            recording.finish().unwrap();
        }
        run
    }

    /// A run that was recorded to its end.
    fn recorded(model: &str, tokens: u32) -> Self {
        let run = Self::observed(model, tokens, usize::MAX);
        let facts =
            br#"{"worker_failure": null, "worker_blocked_ns": 0, "missed_samples": 0, "is_interrupted": false}"#;
        fs::write(run.dir.raw().join(RecordingEnd::FILE_NAME), facts).unwrap();
        run.dir.set_state(RunState::Building).unwrap();
        run
    }

    fn build(&self) -> BuiltRun {
        build_run(&self.dir, &BuildSetup::drawing(&[]), &mut NoListener).unwrap()
    }

    fn recover(&self) -> Result<BuiltRun, BuildError> {
        recover_run(self.dir.path(), &BuildSetup::drawing(&[]), &mut NoListener)
    }

    fn batches(&self, table: Table) -> Vec<RecordBatch> {
        open_table(self.dir.path(), table).unwrap().map(Result::unwrap).collect()
    }

    fn rows(&self, table: Table) -> usize {
        self.batches(table).iter().map(RecordBatch::num_rows).sum()
    }

    /// Bytes of `trace` by kind of data and direction.
    fn moved(&self) -> BTreeMap<(String, String), u64> {
        let mut moved = BTreeMap::new();
        for batch in self.batches(Table::Trace) {
            let bytes = batch.column_by_name("size_bytes").unwrap().as_primitive::<UInt64Type>().clone();
            for row in 0..batch.num_rows() {
                let key = (word(&batch, "region_type", row), word(&batch, "op_type", row));
                *moved.entry(key).or_default() += bytes.value(row);
            }
        }
        moved
    }

    fn moved_bytes(&self, region_type: &str, op: &str) -> u64 {
        self.moved().get(&(region_type.to_owned(), op.to_owned())).copied().unwrap_or(0)
    }

    /// Kinds and counts of losses beyond those that every run has.
    fn unusual_losses(&self) -> Vec<(String, u64)> {
        let mut losses = Vec::new();
        for batch in self.batches(Table::Loss) {
            let counts = batch.column_by_name("count").unwrap().as_primitive::<UInt64Type>().clone();
            losses.extend((0..batch.num_rows()).map(|row| (word(&batch, "kind", row), counts.value(row))));
        }
        losses.retain(|(kind, _)| !USUAL_LOSSES.iter().any(|usual| usual.name() == kind));
        losses
    }

    fn state(&self) -> RunState {
        self.dir.marker().unwrap().unwrap().state
    }

    fn assert_sealed(&self) {
        let report = verify(self.dir.path(), &Table::ALL).unwrap();
        assert!(report.is_ok(), "{report:?}");
    }

    /// Everything that this many tokens leave, each at its position.
    fn assert_holds(&self, tokens: u64) {
        assert_eq!(self.rows(Table::Tokens) as u64, PROMPT_TOKENS + tokens);
        assert_eq!(self.rows(Table::KvBlockLifecycle) as u64, tokens, "one key each");
        assert_eq!(self.moved_bytes("kv_cache", "store"), tokens * SmallModel::ROW_BYTES);
        // Token n attends over n keys.
        assert_eq!(self.moved_bytes("kv_cache", "load"), tokens * (tokens + 1) / 2 * SmallModel::ROW_BYTES);
        // A row of the table of words, and the weight of the keys.
        let weight_bytes = SmallModel::ROW_BYTES + SmallModel::WIDTH as u64 * SmallModel::ROW_BYTES;
        assert_eq!(self.moved_bytes("weight", "load"), tokens * weight_bytes);
        assert_eq!(self.moved_bytes("unknown", "load") + self.moved_bytes("unknown", "store"), 0);
    }
}

fn word(batch: &RecordBatch, column: &str, row: usize) -> String {
    let words = batch.column_by_name(column).unwrap();
    let words = words.as_dictionary::<Int32Type>();
    words.values().as_string::<i32>().value(words.key(row).unwrap()).to_owned()
}

fn loss(kind: LossKind, count: u64) -> (String, u64) {
    (kind.name().to_owned(), count)
}

#[test]
fn a_recorded_run_becomes_the_tables_that_its_steps_say() {
    let run = MadeRun::recorded("works", 6);
    let built = run.build();
    assert!(!built.is_partial);
    assert_eq!(run.state(), RunState::Complete);
    assert_eq!(run.unusual_losses(), []);
    run.assert_holds(6);
    run.assert_sealed();
    assert_eq!(built.metrics.trace_rows, run.rows(Table::Trace) as u64);
}

/// Writes the records of a program into which the recorder was loaded.
fn write_program(run: &RunDir, pid: u32, records: &RecordBuilder) {
    let dir = run.raw().join(PROGRAM_RINGS_DIR);
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join(format!("{pid}.arrows"));
    let mut writer = RawWriter::create(&path, records_schema(), RawCompression::None).unwrap();
    let mut builder = RecordsBuilder::new();
    records.frames().for_each(|frame| builder.push(frame.sequence, frame.kind, frame.time_ns, frame.payload));
    writer.write(&builder.finish_batch()).unwrap();
    writer.finish().unwrap();
}

#[test]
fn rows_of_processes_that_compute_at_once_are_in_the_order_of_time() {
    let run = MadeRun::begun(&job("works", 1));
    let model = SmallModel::new();
    let step = |position, times_ns: [u64; 5]| {
        let [begin_ns, .., end_ns] = times_ns;
        Step { begin_ns, times_ns: times_ns.to_vec(), ..model.step(position, 7, begin_ns..end_ns) }
    };
    // A long graph of one process beside short ones of another.
    let long = RecordBuilder::new().hello(5).graph(8, &model.graph).step(900, &step(0, [100, 300, 500, 700, 900]));
    let short = RecordBuilder::new()
        .hello(6)
        .graph(9, &model.graph)
        .step(310, &step(0, [110, 120, 130, 140, 310]))
        .step(720, &step(1, [320, 330, 340, 710, 720]));
    write_program(&run.dir, 70, &long);
    write_program(&run.dir, 71, &short);
    run.dir.set_state(RunState::Building).unwrap();
    let built = run.build();
    assert_eq!((built.metrics.backward_rows, built.metrics.trace_rows), (0, run.rows(Table::Trace) as u64));
    let rows: Vec<(u64, u64)> = run.batches(Table::Trace).iter().flat_map(numbered_times).collect();
    assert!(rows.iter().map(|row| row.0).eq(0..built.metrics.trace_rows), "{rows:?}");
    assert!(rows.is_sorted_by_key(|row| row.1), "{rows:?}");
}

/// Number and time of each row of a batch of `trace`.
fn numbered_times(batch: &RecordBatch) -> Vec<(u64, u64)> {
    let of = |column: &str| batch[column].as_primitive::<UInt64Type>().values().to_vec();
    of("sample_id").into_iter().zip(of("timestamp_ns")).collect()
}

#[test]
fn building_again_from_the_same_streams_gives_the_same_bytes() {
    let run = MadeRun::recorded("works", 4);
    run.build();
    let tables = || Table::ALL.map(|table| fs::read(run.dir.table(table)).ok());
    let before = tables();
    run.dir.set_state(RunState::Building).unwrap();
    fs::remove_file(run.dir.manifest_json()).unwrap();
    assert!(!run.recover().unwrap().is_partial);
    assert!(before == tables());
}

#[test]
fn a_run_whose_engine_failed_midway_is_partial_and_says_why() {
    let run = MadeRun::recorded("fails-after-3", 6);
    let built = run.build();
    assert!(built.is_partial);
    assert_eq!(built.metadata.failure.as_deref(), Some("the mock failed after 3 steps"));
    assert_eq!(run.unusual_losses(), [loss(LossKind::WorkerDied, 1)]);
    run.assert_holds(3);
}

#[test]
fn a_run_whose_observer_was_killed_is_recovered_with_what_the_ring_holds() {
    // Hello, two phases, the model, the graph; then four records for each of six tokens.
    let run = MadeRun::observed("dies-after-6", 6, 5 + 4 * 2);
    assert_eq!(run.state(), RunState::Recording);
    assert!(run.recover().unwrap().is_partial);
    assert_eq!(run.state(), RunState::Partial);
    assert_eq!(run.unusual_losses(), [loss(LossKind::ObserverDied, 1)]);
    run.assert_holds(6);
    run.assert_sealed();
    let again = run.recover().err().unwrap();
    assert!(matches!(again, BuildError::AlreadyBuilt { .. }), "{again}");
}

#[test]
fn a_run_whose_stream_is_cut_in_the_middle_builds_what_is_there_and_says_what_is_missing() {
    let run = MadeRun::observed("works", 6, usize::MAX);
    let stream = run.dir.raw_stream(TENSOR_OPS_STREAM);
    let length_bytes = fs::metadata(&stream).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(&stream).unwrap();
    // Into the last of three batches.
    file.set_len(length_bytes - 100).unwrap();
    assert!(run.recover().unwrap().is_partial);
    let steps = run.moved_bytes("kv_cache", "store") / SmallModel::ROW_BYTES;
    assert!((1..6).contains(&steps), "{steps} of 6 steps are before the cut");
    let losses = run.unusual_losses();
    assert!(losses.contains(&loss(LossKind::ObserverDied, 1)), "{losses:?}");
    // The events of the engine, in a stream of their own, show which numbers are missing; the torn end counts as one.
    assert!(losses.contains(&loss(LossKind::UndecodableRecords, 6 - steps + 1)), "{steps} steps: {losses:?}");
    assert_eq!(run.rows(Table::KvBlockLifecycle) as u64, steps);
    run.assert_sealed();
}

#[test]
fn a_run_without_a_record_of_what_was_asked_for_is_not_recovered() {
    let run = MadeRun::observed("works", 2, 8);
    fs::remove_file(run.dir.raw().join(RunRecord::FILE_NAME)).unwrap();
    let refused = run.recover().err().unwrap();
    assert!(matches!(refused, BuildError::NothingRecorded { .. }), "{refused}");
}

#[test]
fn figures_by_region_name_tensor_and_layer() {
    let run = MadeRun::recorded("small", 2);
    run.build();
    let text = fs::read_to_string(run.dir.path().join("metrics_by_region.csv")).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let (tensor, layer) = (place("tensor"), place("layer"));
    let mut named: Vec<(&str, &str, &str)> = lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (fields[1], fields[tensor], fields[layer])
        })
        .collect();
    named.retain(|(region_type, ..)| matches!(*region_type, "weight" | "kv_cache"));
    named.sort_unstable();
    let expected =
        [("kv_cache", "cache_k_l0", "0"), ("weight", "blk.0.attn_k.weight", "0"), ("weight", "token_embd.weight", "")];
    assert_eq!(named, expected);
}

/// A recording of two loads and a store, of a program that dwell began and that had dwell's own memory before.
fn memory_samples() -> PerfFile {
    const LOAD_L1_HIT: u64 = 0x6810_0142;
    const STORE: u64 = 0x1e_0508_0184;
    let mut file = PerfFile::new(fields::MEMORY).with_clock(1);
    let sample = |index: u64, data_source| MemorySample {
        ip: 0x40_1000,
        pid: 100,
        tid: 101,
        time_ns: 1_000_000_123 + index * 1000,
        address: 0x7f00_0000_0000 + 64 * index,
        cpu: 3,
        period: 4000,
        weight: 300,
        data_source,
        ..MemorySample::default()
    };
    file.comm(100, "dwell");
    file.mmap2(100, 0x40_0000, 0x10_0000, 0, "/bin/dwell");
    file.sample(&sample(0, LOAD_L1_HIT));
    // Records without a time stay behind what came before them only in another round.
    file.round_ends();
    file.round_ends();
    file.comm(100, "program");
    file.mmap2(100, 0x40_0000, 0x10_0000, 0, "/opt/program");
    (1..).zip([LOAD_L1_HIT, STORE, LOAD_L1_HIT]).for_each(|(index, source)| file.sample(&sample(index, source)));
    file.lost(7, 2_000_000_000);
    file
}

/// Time, address, operation and file of the rows of a trace.
fn sampled_rows(dir: &Path) -> Vec<(u64, u64, String, String)> {
    let mut rows = Vec::new();
    for batch in open_table(dir, Table::Trace).unwrap().map(Result::unwrap) {
        let wide = |name, row| dwell_store::number_at::<UInt64Type>(&batch, name, row).unwrap();
        let text = |name, row| dwell_store::text_at(&batch, name, row).unwrap_or_default().to_owned();
        rows.extend((0..batch.num_rows()).map(|row| {
            assert_eq!((wide("period", row), text("source", row)), (4000, "perf_mem".to_owned()));
            (wide("timestamp_ns", row), wide("address", row), text("op_type", row), text("dso", row))
        }));
    }
    rows
}

/// A run whose memory accesses were sampled: what was asked for, and these pieces of the recording.
fn sampled_run(pieces: &[&[u8]]) -> MadeRun {
    let run = MadeRun::begun(&job("small", 1));
    let path = run.dir.raw().join(RunRecord::FILE_NAME);
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let fields = record.as_object_mut().unwrap();
    fields.retain(|key, _| key != "is_traced" && key != "sample_interval_ms");
    let settings = serde_json::json!({"period": 4000, "least_latency_cycles": 30, "own_program": "/bin/dwell"});
    fields.insert("collectors".to_owned(), serde_json::json!({ "perf_mem": settings }));
    fields["job"]["engine"] = "command".into();
    fs::write(&path, record.to_string()).unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("records", DataType::Binary, false)]));
    let mut stream = RawWriter::create(&run.dir.raw_stream("perf_mem"), schema.clone(), RawCompression::None).unwrap();
    for piece in pieces {
        let records: ArrayRef = Arc::new(BinaryArray::from_vec(vec![piece]));
        stream.write(&RecordBatch::try_new(schema.clone(), vec![records]).unwrap()).unwrap();
    }
    stream.finish().unwrap();
    run.dir.set_state(RunState::Building).unwrap();
    run
}

#[test]
fn sampled_accesses_of_a_run_are_the_trace_that_an_import_of_the_recording_has() {
    let recording = memory_samples().pipe();
    let run = sampled_run(&[&recording]);
    let built = run.build();
    let rows = sampled_rows(run.dir.path());
    let file = run.dir.path().parent().unwrap().join("recording.data");
    fs::write(&file, memory_samples().file()).unwrap();
    let importer = ALL.iter().find(|importer| importer.name() == "perf-data").unwrap();
    let request = ImportRequest {
        results: file.parent().unwrap().join("results"),
        files: vec![file],
        model_id: "model".to_owned(),
        run_id: None,
        options: BTreeMap::new(),
        command_line: Vec::new(),
    };
    let imported = import(*importer, &request, &[]).unwrap();
    // The import knows nothing of dwell, whose sample is the first one.
    assert_eq!(rows, sampled_rows(&imported.run_dir)[1..]);
    assert_eq!(
        rows.iter().map(|row| (&*row.2, &*row.3)).collect::<Vec<_>>(),
        [("load", "/opt/program"), ("store", "/opt/program"), ("load", "/opt/program"),]
    );
    assert!(run.unusual_losses().contains(&("lost_samples".to_owned(), 7)), "{:?}", run.unusual_losses());
    let origin = &built.metadata.tables["trace"];
    assert_eq!((origin.rows, &*origin.basis, &*origin.source), (3, "sampled", "perf_mem"));
    assert_eq!(built.metadata.tables["region_map"].source, "perf_mem");
    assert_eq!(built.metadata.quality.as_ref().unwrap().collector, "perf_mem");
}

#[test]
fn a_recording_that_breaks_off_is_read_up_to_there() {
    let recording = memory_samples().pipe();
    let run = sampled_run(&[&recording[..recording.len() - 30]]);
    assert!(run.build().is_partial);
    assert_eq!(sampled_rows(run.dir.path()).len(), 3);
    assert!(run.unusual_losses().contains(&("undecodable_records".to_owned(), 1)), "{:?}", run.unusual_losses());
}
