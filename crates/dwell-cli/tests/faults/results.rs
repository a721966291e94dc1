//! Results that cannot be written where they should.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{SmallDisk, Workplace, dwell, skip};
use crate::models::small_model;
use crate::outcome::{assert_nothing_is_left, assert_refused};

fn run_into(results: &Path, run_id: &str) -> Output {
    let mut command = dwell();
    command.arg("run").arg("--model").arg(small_model()).arg("--output").arg(results);
    command.arg(format!("--run-id={run_id}")).args(["--prompt", "hello", "--max-tokens", "2"]).output().unwrap()
}

#[test]
fn a_results_folder_below_a_file_is_refused() {
    let work = Workplace::new();
    let file = work.path().join("file");
    fs::write(&file, "text").unwrap();
    let output = run_into(&file.join("results"), "run");
    assert_refused(&output, "creating the results directory failed with Not a directory", &["`-o DIR`"]);
    assert_eq!(fs::read_to_string(file).unwrap(), "text");
}

#[test]
fn a_results_folder_that_is_read_only_is_refused() {
    let Some(disk) = SmallDisk::mount("1m") else {
        return skip("a_results_folder_that_is_read_only_is_refused", "mounting a tmpfs needs root");
    };
    disk.remount("ro");
    let output = run_into(&disk.path().join("results"), "run");
    assert_refused(&output, "creating the results directory failed with Read-only file system", &["`-o DIR`"]);
}

#[test]
fn a_run_id_that_is_no_plain_name_is_refused() {
    for run_id in ["a/b", "../run", "..", ".", "", "/tmp/run", "-run", "a\\b"] {
        let work = Workplace::new();
        let output = run_into(&work.path().join("results"), run_id);
        assert_refused(&output, "and one plain file name was needed", &["use `"]);
        assert_nothing_is_left(&work);
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0, "{run_id}");
    }
}

fn files_below(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    files
}

#[test]
fn a_run_that_exists_is_not_touched() {
    let work = Workplace::new();
    let results = work.path().join("results");
    assert_eq!(run_into(&results, "run").status.code(), Some(0));
    let before = files_below(&results);
    assert_refused(&run_into(&results, "run"), "found that it exists already", &["choose another run id"]);
    assert!(files_below(&results) == before);
}
