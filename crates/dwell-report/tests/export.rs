//! What an export refuses, whoever made the run.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;

use dwell_events::Hint;
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
    let refused = export(&[RunResults::load(&run).unwrap()], &request, &|_| {});
    assert!(matches!(refused, Err(ReportError::Store(StoreError::UnusableName { .. }))), "{refused:?}");
    let left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["results"]);
}

/// A finished run that an experiment made for a purpose.
fn run_of_kind(results: &std::path::Path, run_id: &str, kind: &str) -> RunResults {
    let run = RunDir::create(results, "m", run_id).unwrap();
    let metadata = serde_json::json!({
        "run_id": run_id, "model_id": "m", "state": "complete",
        "experiment": {"id": "e", "name": "study", "run_kind": kind},
    });
    fs::write(run.metadata_json(), metadata.to_string()).unwrap();
    fs::write(run.metrics_csv(), "region_type,loads\nweight,3\n").unwrap();
    run.set_state(RunState::Complete).unwrap();
    write_manifest(&run).unwrap();
    RunResults::load(&run).unwrap()
}

#[test]
fn all_is_hinted_at_only_where_it_would_find_runs() {
    let hints = |has_finished| {
        ReportError::NothingToExport { found_runs: 1, why: String::new(), has_finished, path: "results".into() }.hints()
    };
    assert!(hints(true)[0].contains("`--all`"));
    assert_eq!(hints(false), ["finish runs that were killed with `dwell recover 'results'`"]);
}

#[test]
fn warm_up_runs_are_exported_on_request_and_are_in_no_average() {
    let root = tempfile::tempdir().unwrap();
    let results = root.path().join("results");
    let runs = ["warmup", "repetition"].map(|kind| run_of_kind(&results, kind, kind));
    let target = root.path().join("dataset");
    let request = ExportRequest {
        source: results,
        staging: dataset_staging(&target),
        target: target.clone(),
        exporter: EXPORTERS.into_iter().find(|exporter| exporter.name() == "hf").unwrap(),
        licence: Some("MIT".to_owned()),
        title: None,
        with_raw: false,
        all: true,
        tables: Table::ALL.to_vec(),
    };
    let report = export(&runs, &request, &|_| {}).unwrap();
    assert_eq!(report.runs, 2);
    let expected = "no run excluded; taken in on request: 1 warm-up; 1 of them is in no average";
    assert_eq!(report.exclusions, expected);
    assert!(target.join("data/m/warmup/metadata.json").is_file());
    let summary = fs::read_to_string(target.join("summary.csv")).unwrap();
    let loads = summary.lines().find(|line| line.contains(",loads,")).unwrap();
    assert!(loads.contains(",1,3"), "one run of three loads: {loads}");
}
