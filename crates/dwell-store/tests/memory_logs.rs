//! Files of samples: what one replaces stays until there is something in its place.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::path::{Path, PathBuf};

use dwell_events::ClockAnchor;
use dwell_events::schema::memory::MemoryRow;
use dwell_store::{MemoryLog, MemoryLogForm, StoreError};

const ANCHOR: ClockAnchor = ClockAnchor { monotonic_ns: 5, unix_ns: 7 };

fn begin(path: &Path, may_replace: bool) -> Result<MemoryLog, StoreError> {
    MemoryLog::create(path, MemoryLogForm::of(path).unwrap(), ANCHOR, may_replace)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A file for each form, with its old content.
fn old_files(folder: &Path) -> [PathBuf; 2] {
    let files = ["m.csv", "m.parquet"].map(|name| folder.join(name));
    files.iter().for_each(|file| fs::write(file, "old").unwrap());
    files
}

#[test]
fn a_log_without_rows_leaves_everything_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    for file in old_files(place.path()) {
        drop(begin(&file, true).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        fs::remove_file(&file).unwrap();
        drop(begin(&file, false).unwrap());
    }
    assert_eq!(names(place.path()), [""; 0]);
}

#[test]
fn what_is_replaced_is_kept_until_the_new_file_is_finished() {
    let place = tempfile::tempdir().unwrap();
    let [csv, table] = old_files(place.path());
    let mut log = begin(&csv, true).unwrap();
    assert!(!log.has_rows() && log.earlier().is_none());
    log.write(&[MemoryRow::default()]).unwrap();
    assert!(log.has_rows() && fs::read_to_string(&csv).unwrap().lines().count() == 2);
    assert_eq!(fs::read_to_string(log.earlier().unwrap()).unwrap(), "old");
    log.finish().unwrap();
    let mut log = begin(&table, true).unwrap();
    log.write(&[MemoryRow::default()]).unwrap();
    assert_eq!(fs::read_to_string(&table).unwrap(), "old", "a table has its place once it is whole");
    log.finish().unwrap();
    assert_eq!(fs::read(&table).unwrap()[..4], *b"PAR1");
    assert_eq!(names(place.path()), ["m.csv", "m.parquet"]);
}

#[test]
fn nothing_that_exists_is_touched_without_permission() {
    let place = tempfile::tempdir().unwrap();
    let [csv, table] = old_files(place.path());
    let stream = place.path().join("n.parquet.arrows");
    fs::write(&stream, "old").unwrap();
    for file in [&csv, &table, &place.path().join("n.parquet")] {
        assert!(begin(file, false).is_err(), "{file:?}");
    }
    let late = place.path().join("late.csv");
    let mut log = begin(&late, false).unwrap();
    fs::write(&late, "mine").unwrap();
    assert!(log.write(&[MemoryRow::default()]).is_err());
    drop(log);
    for file in [&csv, &table, &stream] {
        assert_eq!(fs::read_to_string(file).unwrap(), "old");
    }
    assert_eq!(fs::read_to_string(&late).unwrap(), "mine");
    assert_eq!(names(place.path()).len(), 4);
}
