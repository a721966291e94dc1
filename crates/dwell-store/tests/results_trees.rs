//! Runs found below a folder.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use dwell_events::Hint;
use dwell_files::FileError;
use dwell_store::{EXPERIMENTS_DIR, ManifestRow, ResultsManifest, RunDir, StoreError, TreeKind, runs_under, tree_kind};

fn found(path: &Path) -> Vec<PathBuf> {
    let runs = runs_under(path).unwrap();
    runs.into_iter().map(|run| run.path.strip_prefix(path).unwrap().to_owned()).collect()
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

/// Three runs of two models, a folder of tables from elsewhere, and much that is no run.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (model, run) in [("b", "2"), ("b", "1"), ("a", "z")] {
        RunDir::create(dir.path(), model, run).unwrap();
    }
    let put = |path: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "{}").unwrap();
    };
    put("foreign/run/trace.parquet");
    put("foreign/notes/readme.txt");
    put("a/z/deeper/metadata.json");
    put("experiments/one/metadata.json");
    put(".hidden/run/metadata.json");
    put("a/.hidden/metadata.json");
    put("a/file");
    symlink(dir.path().join("b/1"), dir.path().join("a/link")).unwrap();
    symlink(dir.path().join("b"), dir.path().join("c")).unwrap();
    dir
}

#[test]
fn the_runs_of_a_results_directory_are_found_by_path() {
    let dir = tree();
    assert_eq!(found(dir.path()), paths(&["a/z", "b/1", "b/2", "foreign/run"]));
    assert_eq!(tree_kind(dir.path()).unwrap(), TreeKind::Tree);
    assert!(runs_under(dir.path()).unwrap().iter().all(|found| found.run.is_ok()));
}

#[test]
fn the_folder_of_a_model_and_a_run_are_taken_too() {
    let dir = tree();
    assert_eq!(found(&dir.path().join("b")), paths(&["1", "2"]));
    assert_eq!(found(&dir.path().join("b/2")), paths(&[""]));
    assert_eq!(tree_kind(&dir.path().join("b")).unwrap(), TreeKind::Tree);
    assert_eq!(tree_kind(&dir.path().join("b/2")).unwrap(), TreeKind::Run);
}

#[test]
fn a_run_that_cannot_be_opened_is_found_with_the_reason() {
    let dir = tree();
    fs::write(dir.path().join("b/1/raw/STATE"), "{ torn").unwrap();
    let runs = runs_under(dir.path()).unwrap();
    let problems: Vec<&Path> =
        runs.iter().filter(|found| found.run.is_err()).map(|found| found.path.as_path()).collect();
    assert_eq!(problems, [dir.path().join("b/1")]);
    assert_eq!(runs.len(), 4);
}

#[test]
fn what_holds_no_runs_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(runs_under(dir.path()), Err(StoreError::NotARun { .. })));
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(matches!(runs_under(&dir.path().join("file")), Err(StoreError::NotARun { .. })));
    assert!(matches!(runs_under(&dir.path().join("missing")), Err(StoreError::File(FileError::NotFound { .. }))));
}

#[test]
fn results_of_which_every_run_failed_are_a_tree_without_runs() {
    let dir = tempfile::tempdir().unwrap();
    let failed = ManifestRow { state: "failed".to_owned(), ..ManifestRow::default() };
    ResultsManifest::open(dir.path()).record(&failed).unwrap();
    assert!(found(dir.path()).is_empty());
}

#[test]
fn no_model_takes_a_name_of_the_tree() {
    let dir = tempfile::tempdir().unwrap();
    for name in [EXPERIMENTS_DIR, "manifest.csv"] {
        let error = RunDir::create(dir.path(), name, "run").unwrap_err();
        assert!(matches!(error, StoreError::UnusableName { what: "model id", .. }), "{error}");
        assert_eq!(error.hints(), [format!("use `{name}_model`")]);
    }
    RunDir::create(dir.path(), "model", EXPERIMENTS_DIR).unwrap();
    assert_eq!(found(dir.path()), paths(&["model/experiments"]));
}
