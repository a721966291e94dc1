//! A relabelled run says what its input said, and that it was relabelled.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};

use dwell_analysis::Options;
use dwell_build::{BuildError, RelabelRequest, relabel_run};
use dwell_events::schema::Table;
use dwell_label::{RuleSet, UnknownPolicy};
use dwell_metadata::RunMetadata;
use dwell_store::{RunDir, RunState, verify};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder with the accesses of a kept run, and metadata if any is given.
fn input(dir: &Path, metadata: Option<&str>) -> PathBuf {
    let input = dir.join("model/run");
    fs::create_dir_all(&input).unwrap();
    for table in ["trace", "region_map", "loss"] {
        let kept = repository().join(format!("tests/fixtures/v0.1.0/expected/building/tables/{table}.parquet"));
        fs::copy(kept, input.join(format!("{table}.parquet"))).unwrap();
    }
    metadata.map_or(Ok(()), |text| fs::write(input.join("metadata.json"), text)).unwrap();
    input
}

fn request(input: &Path, output: PathBuf) -> RelabelRequest {
    RelabelRequest {
        input: input.to_owned(),
        output,
        rules: RuleSet::default_rules(),
        policy: UnknownPolicy::Keep,
        analysis: Options::default(),
    }
}

fn metadata_of(run: &Path) -> RunMetadata {
    let path = run.join("metadata.json");
    RunMetadata::parse(&fs::read(&path).unwrap(), &path).unwrap()
}

#[test]
fn what_the_input_said_is_kept_and_what_changed_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let known = repository().join("crates/dwell-metadata/tests/files/experiment-1.2.json");
    let input = input(dir.path(), Some(&fs::read_to_string(known).unwrap()));
    let output = dir.path().join("out");
    let report = relabel_run(&request(&input, output.clone()), &mut |_| {}).unwrap();
    assert!(verify(&output, &Table::ALL).unwrap().is_ok());
    let (before, after) = (metadata_of(&input), metadata_of(&output));
    assert_eq!((before.metadata_schema_version.as_str(), after.metadata_schema_version.as_str()), ("1.2", "1.10"));
    assert_eq!((&after.engine, &after.host, &after.model), (&before.engine, &before.host, &before.model));
    assert_eq!((&after.experiment, &after.validity), (&before.experiment, &before.validity));
    assert_eq!(after.relabelled.as_ref().unwrap().input, input);
    assert_eq!(after.build.unwrap().rules.as_deref(), Some(RuleSet::default_rules().text()));
    assert_eq!(after.tables.keys().collect::<Vec<_>>(), ["loss", "region_map", "trace"]);
    let origin = |table: &str| (after.tables[table].rows, after.tables[table].source.as_str());
    assert_eq!(origin("trace"), (report.rows_out, "tensor_ops"));
    assert_eq!(origin("region_map"), (report.regions, "labeller"));
    assert_eq!(after.state, RunDir::open(&output).unwrap().marker().unwrap().unwrap().state.name());
}

#[test]
fn tables_without_metadata_become_a_run_that_says_what_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let input = input(dir.path(), None);
    let output = dir.path().join("out");
    let report = relabel_run(&request(&input, output.clone()), &mut |_| {}).unwrap();
    assert!(verify(&output, &Table::ALL).unwrap().is_ok());
    let metadata = metadata_of(&output);
    assert_eq!((metadata.run_id.as_str(), metadata.model_id.as_str(), metadata.engine.as_str()), ("run", "model", ""));
    assert_eq!((metadata.host, metadata.quality), (None, None));
    assert_eq!((metadata.tables["trace"].rows, metadata.tables["trace"].source.as_str()), (report.rows_out, "unknown"));
    assert!(matches!(report.state, RunState::Complete | RunState::Partial));
    assert_eq!(metadata.state, report.state.name());
}

#[test]
fn metadata_of_another_version_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let input = input(dir.path(), Some(r#"{"metadata_schema_version": "2.0"}"#));
    let output = dir.path().join("out");
    let error = relabel_run(&request(&input, output.clone()), &mut |_| {}).unwrap_err();
    assert!(matches!(error, BuildError::Metadata(_)), "{error}");
    assert!(!output.exists() && !dir.path().join("out.partial").exists());
}
