//! Accesses of any source become a run like a recorded one.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::Path;

use arrow_array::types::{UInt32Type, UInt64Type};
use dwell_build::import::accesses::{AccessSink, AccessSource, RowOrder};
use dwell_build::import::{
    ImportError, ImportOption, ImportReport, ImportRequest, ImportSummary, Imported, Importer, import,
};
use dwell_build::{BuildError, BuildSetup, NoListener, recover_run};
use dwell_events::schema::Table;
use dwell_events::schema::trace::TraceRow;
use dwell_events::{Basis, Hint, OpType};
use dwell_metadata::{CollectorUse, RunMetadata, RunView, ViewedRun};
use dwell_store::{RunDir, RunState, number_at, open_table, text_at, verify};
use serde_json::{Value, json};

const SOURCE: &str = "made_up";
const RULES: &str = "version: 1
rules:
- {symbol: gemm, region: weight}
- {symbol: append, region: kv_cache}
";

/// Gives rows that are made up, and may fail after them.
struct MadeUp {
    rows: Vec<TraceRow<'static>>,
    failure: Option<&'static str>,
}

impl Importer for MadeUp {
    fn name(&self) -> &'static str {
        SOURCE
    }

    fn about(&self) -> &'static str {
        "rows that are made up"
    }

    fn files_help(&self) -> &'static str {
        "none"
    }

    fn options(&self) -> &'static [ImportOption] {
        &[]
    }

    fn import(&self, request: &ImportRequest, run: &RunDir) -> Result<Imported, ImportError> {
        let source = AccessSource { name: SOURCE, basis: Basis::Sampled, order: RowOrder::NearlyByTime };
        let mut sink = AccessSink::create(run, request, source)?;
        self.rows.iter().try_for_each(|row| sink.push(row))?;
        if let Some(message) = self.failure {
            return Err(ImportError::Refused { message: message.to_owned(), hints: Vec::new() });
        }
        let accesses = sink.finish()?;
        let Value::Object(found) = serde_json::to_value(&accesses.counts).unwrap() else { panic!("counts are keys") };
        Ok(Imported {
            metadata: RunMetadata {
                collectors: CollectorUse { used: vec![SOURCE.to_owned()], ..CollectorUse::default() },
                tables: accesses.tables,
                build: Some(accesses.build),
                ..RunMetadata::default()
            },
            loss: accesses.loss.into_iter().collect(),
            given: Some(accesses.given),
            found,
            summary: ImportSummary::default(),
        })
    }
}

/// A view that says what it was given.
struct Told;

impl RunView for Told {
    fn path(&self) -> &'static str {
        "told.txt"
    }

    fn content(&self, run: &ViewedRun<'_>) -> Result<Option<String>, String> {
        Ok(Some(format!("{} rows of {}", run.metrics.trace_rows, run.metadata.engine)))
    }
}

fn access(timestamp_ns: u64, address: u64, op_type: OpType, symbol: &'static str) -> TraceRow<'static> {
    TraceRow { timestamp_ns, address, op_type, symbol, size_bytes: 8, source: SOURCE, period: 4, ..TraceRow::EMPTY }
}

/// Out of order: what the page of a weight says to the third access holds only if the first comes before it.
fn story() -> Vec<TraceRow<'static>> {
    vec![
        access(20, 0x9000, OpType::Store, "append"),
        access(10, 0x1000, OpType::Load, "gemm"),
        access(30, 0x1800, OpType::Load, "memcpy"),
        access(25, 0x5000, OpType::Store, "idle"),
    ]
}

fn request(dir: &Path, options: &[(&'static str, String)]) -> ImportRequest {
    fs::write(dir.join("rules.yaml"), RULES).unwrap();
    let rules = ("rules", dir.join("rules.yaml").display().to_string());
    ImportRequest {
        files: vec![dir.join("recording")],
        results: dir.join("results"),
        model_id: "model".to_owned(),
        run_id: Some("run".to_owned()),
        options: options.iter().cloned().chain([rules]).collect(),
        command_line: vec!["dwell".to_owned(), "import".to_owned()],
    }
}

fn import_story(dir: &Path, policy: &str) -> Result<ImportReport, ImportError> {
    let options = [("unknown", policy.to_owned())];
    import(&MadeUp { rows: story(), failure: None }, &request(dir, &options), &[&Told])
}

/// Number, time and label of each row.
fn labels(run: &Path) -> Vec<(u64, u64, String, u32)> {
    let mut found = Vec::new();
    for batch in open_table(run, Table::Trace).unwrap() {
        let batch = batch.unwrap();
        let number = |column, row| number_at::<UInt64Type>(&batch, column, row).unwrap();
        found.extend((0..batch.num_rows()).map(|row| {
            let region_id = number_at::<UInt32Type>(&batch, "region_id", row).unwrap();
            let region_type = text_at(&batch, "region_type", row).unwrap().to_owned();
            (number("sample_id", row), number("timestamp_ns", row), region_type, region_id)
        }));
    }
    found
}

#[test]
fn rows_out_of_order_become_a_sealed_run_with_labels_metrics_picture_and_views() {
    let dir = tempfile::tempdir().unwrap();
    let report = import_story(dir.path(), "keep").unwrap();
    let run = report.run_dir.as_path();
    assert_eq!(report.state, RunState::Complete);
    assert!(verify(run, &Table::ALL).unwrap().is_ok());
    let counts = json!({
        "accesses": 4, "rows": 4, "dropped": 0, "out_of_order": 2, "late": 0, "regions": 2,
        "region_types": {"kv_cache": 1, "unknown": 1, "weight": 2},
        "decided_by": {"rule": 2, "page": 1, "nothing": 1},
        "first_ns": 10, "last_ns": 30,
    });
    assert_eq!(Value::Object(report.found.clone()), counts);
    let expected = [(10, "weight", 1), (20, "kv_cache", 2), (25, "unknown", 0), (30, "weight", 1)];
    let expected = (0..).zip(expected).map(|(number, (time_ns, name, id))| (number, time_ns, name.to_owned(), id));
    assert_eq!(labels(run), expected.collect::<Vec<_>>());
    assert_eq!(fs::read_to_string(run.join("told.txt")).unwrap(), "4 rows of imported");
    for file in ["metrics.csv", "overview.json", "region_map.parquet", "loss.parquet"] {
        assert!(run.join(file).is_file(), "{file}");
    }
    let metadata = &report.metadata;
    let trace = &metadata.tables["trace"];
    assert_eq!((trace.rows, trace.basis.as_str(), trace.source.as_str()), (4, "sampled", SOURCE));
    assert_eq!(metadata.build.as_ref().unwrap().rules.as_deref(), Some(RULES));
    assert_eq!(metadata.quality.as_ref().unwrap().collector, SOURCE);
}

#[test]
fn accesses_that_nothing_labels_are_dropped_and_counted_or_refused_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    let refused = import_story(dir.path(), "error").unwrap_err();
    assert!(refused.to_string().contains("store of address 0x5000 at 25 ns by symbol \"idle\""), "{refused}");
    assert!(!refused.hints().is_empty());
    assert!(!dir.path().join("results").exists());
    let report = import_story(dir.path(), "skip").unwrap();
    assert_eq!((report.found["rows"].as_u64(), report.found["dropped"].as_u64()), (Some(3), Some(1)));
    let loss = open_table(&report.run_dir, Table::Loss).unwrap().next().unwrap().unwrap();
    assert_eq!(text_at(&loss, "kind", 0), Some("unlabelled_accesses"));
    assert_eq!((loss.num_rows(), number_at::<UInt64Type>(&loss, "count", 0)), (1, Some(1)));
}

#[test]
fn rules_that_are_not_there_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut request = request(dir.path(), &[]);
    request.options.insert("rules", dir.path().join("absent.yaml").display().to_string());
    let refused = import(&MadeUp { rows: story(), failure: None }, &request, &[]).unwrap_err().to_string();
    assert!(refused.contains("absent.yaml"), "{refused}");
    assert!(!dir.path().join("results").exists());
}

#[test]
fn an_import_that_fails_after_many_rows_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let rows = (0..500_000).map(|row| access(row, row * 64, OpType::Load, "gemm")).collect();
    let importer = MadeUp { rows, failure: Some("the recording ends within a record") };
    let failure = import(&importer, &request(dir.path(), &[]), &[]).unwrap_err();
    assert_eq!(failure.to_string(), "the recording ends within a record");
    assert!(!dir.path().join("results").exists());
}

#[test]
fn an_import_that_was_killed_is_no_finished_run_and_says_how_to_repeat_it() {
    let dir = tempfile::tempdir().unwrap();
    let report = import_story(dir.path(), "keep").unwrap();
    // The state that every moment before the seal has.
    let run = RunDir::open(&report.run_dir).unwrap();
    fs::remove_file(run.manifest_json()).unwrap();
    run.set_state(RunState::Building).unwrap();
    let refused = recover_run(run.path(), &BuildSetup::drawing(&[]), &mut NoListener).err().unwrap();
    assert!(matches!(refused, BuildError::ImportKilled { .. }), "{refused}");
    let begun: Value = serde_json::from_slice(&fs::read(run.raw().join("import.json")).unwrap()).unwrap();
    assert_eq!(begun["command_line"], json!(["dwell", "import"]));
    assert!(refused.hints()[0].contains("import.json"));
}

#[test]
fn a_recording_without_accesses_is_a_run_without_rows() {
    let dir = tempfile::tempdir().unwrap();
    let report = import(&MadeUp { rows: Vec::new(), failure: None }, &request(dir.path(), &[]), &[&Told]).unwrap();
    assert_eq!((labels(&report.run_dir).len(), report.found["rows"].as_u64()), (0, Some(0)));
    assert!(verify(&report.run_dir, &Table::ALL).unwrap().is_ok());
}

#[test]
fn more_texts_than_are_kept_make_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    // Every row brings a symbol and a page of its own.
    let rows = 70_000_u64;
    let symbol = |row: u64| -> &'static str { Box::leak(format!("gemm_{row}").into_boxed_str()) };
    let story = (0..rows).map(|row| access(row + 1, row << 12, OpType::Load, symbol(row))).collect();
    let importer = MadeUp { rows: story, failure: None };
    let report = import(&importer, &request(dir.path(), &[]), &[]).unwrap();
    let mut row = 0;
    for batch in open_table(&report.run_dir, Table::Trace).unwrap() {
        let batch = batch.unwrap();
        for place in 0..batch.num_rows() {
            let number = |column| number_at::<UInt64Type>(&batch, column, place);
            let numbers = [number("sample_id"), number("timestamp_ns"), number("address_page")];
            assert_eq!(numbers, [Some(row), Some(row + 1), Some(row)]);
            let texts = ["symbol", "region_type"].map(|column| text_at(&batch, column, place));
            assert_eq!(texts, [Some(symbol(row)), Some("weight")]);
            row += 1;
        }
    }
    assert_eq!(row, rows);
}
