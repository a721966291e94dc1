//! What an export refuses, whoever made the run.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;

use dwell_events::schema::Table;
use dwell_report::{EXPORTERS, ExportRequest, ReportError, RunResults, dataset_staging, export};
use dwell_store::{RunDir, RunState, StoreError, write_manifest};

#[test]
fn a_run_that_calls_itself_by_a_path_is_refused_and_nothing_is_left() {
    let root = tempfile::tempdir().unwrap();
    let run = RunDir::create(&root.path().join("results"), "m", "r").unwrap();
    fs::write(run.metadata_json(), r#"{"run_id": "r", "model_id": "../../out", "state": "complete"}"#).unwrap();
    run.set_state(RunState::Complete).unwrap();
    write_manifest(&run).unwrap();
    let target = root.path().join("dataset");
    let request = ExportRequest {
        source: run.path().to_owned(),
        staging: dataset_staging(&target),
        target,
        exporter: EXPORTERS.into_iter().find(|exporter| exporter.name() == "zenodo").unwrap(),
        licence: Some("MIT".to_owned()),
        title: None,
        with_raw: false,
        all: false,
        tables: Table::ALL.to_vec(),
    };
    let refused = export(&[RunResults::load(&run).unwrap()], &request, &mut |_| {});
    assert!(matches!(refused, Err(ReportError::Store(StoreError::UnusableName { .. }))), "{refused:?}");
    let left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["results"]);
}
