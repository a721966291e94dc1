//! What verifying a tree of runs finds.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use dwell_events::schema::Table;
use dwell_store::{
    ManifestRow, ResultsManifest, RunDir, RunOutcome, RunState, TreeReport, verify_tree, write_manifest,
};

fn finished_run(results: &Path, model_id: &str, run_id: &str) -> RunDir {
    let run = RunDir::create(results, model_id, run_id).unwrap();
    fs::write(run.metadata_json(), "{}").unwrap();
    write_manifest(&run).unwrap();
    run.set_state(RunState::Complete).unwrap();
    let path = format!("{model_id}/{run_id}");
    let row = ManifestRow { run_id: run_id.to_owned(), model_id: model_id.to_owned(), path, ..ManifestRow::default() };
    ResultsManifest::open(results).record(&row).unwrap();
    run
}

fn verified(results: &Path) -> TreeReport {
    let largest = AtomicUsize::new(0);
    let report = verify_tree(results, &Table::ALL, &|done, all| {
        assert!(done <= all);
        largest.fetch_max(done, Ordering::Relaxed);
    });
    let report = report.unwrap();
    assert_eq!(largest.into_inner(), report.runs.len(), "progress came to its end");
    report
}

fn outcome<'a>(report: &'a TreeReport, path: &str) -> &'a RunOutcome {
    &report.runs.iter().find(|run| run.path == path).unwrap().outcome
}

#[test]
fn a_tree_of_whole_runs_is_ok() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..20 {
        finished_run(dir.path(), ["a", "b"][number % 2], &format!("{number:02}"));
    }
    let report = verified(dir.path());
    assert!(report.is_ok(), "{report:?}");
    let paths: Vec<&str> = report.runs.iter().map(|run| run.path.as_str()).collect();
    assert_eq!(paths.len(), 20);
    assert!(paths.is_sorted());
    assert!(matches!(outcome(&report, "b/07"), RunOutcome::Ok { files: 1 }));
    assert_eq!(report.manifest.unwrap().rows, 20);
}

#[test]
fn every_run_is_told_by_what_is_wrong_with_it() {
    let dir = tempfile::tempdir().unwrap();
    finished_run(dir.path(), "a", "whole");
    fs::write(finished_run(dir.path(), "a", "damaged").metadata_json(), "[]").unwrap();
    RunDir::create(dir.path(), "a", "killed").unwrap();
    fs::remove_file(finished_run(dir.path(), "b", "bare").manifest_json()).unwrap();
    fs::write(finished_run(dir.path(), "b", "torn").path().join("raw/STATE"), "{").unwrap();
    let report = verified(dir.path());
    assert!(!report.is_ok());
    assert!(matches!(outcome(&report, "a/whole"), RunOutcome::Ok { .. }));
    let RunOutcome::Damaged { report: damage } = outcome(&report, "a/damaged") else { panic!("{report:?}") };
    assert_eq!(damage.changed[0].path, "metadata.json");
    assert!(matches!(outcome(&report, "a/killed"), RunOutcome::Unfinished { state: RunState::Recording }));
    for path in ["b/bare", "b/torn"] {
        assert!(matches!(outcome(&report, path), RunOutcome::Unverifiable { .. }), "{path}");
    }
    assert!(report.manifest.unwrap().is_ok(), "an unfinished run has no row yet, and all others have theirs");
}

#[test]
fn rows_without_folders_and_folders_without_rows_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = ResultsManifest::open(dir.path());
    let row = |run_id: &str| ManifestRow { run_id: run_id.to_owned(), model_id: "m".to_owned(), ..Default::default() };
    fs::remove_dir_all(finished_run(dir.path(), "m", "removed").path()).unwrap();
    manifest.record(&ManifestRow { path: "../outside".to_owned(), ..row("hostile") }).unwrap();
    manifest.record(&ManifestRow { state: "failed".to_owned(), ..row("failed") }).unwrap();
    manifest.record(&row("of-another-tool")).unwrap();
    finished_run(dir.path(), "m", "kept");
    let unlisted = RunDir::create(dir.path(), "m", "unlisted").unwrap();
    write_manifest(&unlisted).unwrap();
    unlisted.set_state(RunState::Partial).unwrap();
    let report = verified(dir.path());
    assert!(!report.is_ok());
    let manifest = report.manifest.unwrap();
    assert_eq!(manifest.rows_without_folder, ["m/removed", "../outside"]);
    assert_eq!(manifest.folders_without_row, ["m/unlisted"]);
}

#[test]
fn a_manifest_that_cannot_be_read_is_a_problem_and_none_is_not() {
    let dir = tempfile::tempdir().unwrap();
    finished_run(dir.path(), "m", "run");
    fs::write(dir.path().join("manifest.csv"), "a,b\n1,2\n").unwrap();
    let report = verified(dir.path());
    assert!(!report.is_ok());
    assert!(report.manifest.unwrap().problem.unwrap().contains("the column \"a\""));
    let report = verified(&dir.path().join("m"));
    assert!(report.is_ok() && report.manifest.is_none(), "the folder of a model has none");
}
