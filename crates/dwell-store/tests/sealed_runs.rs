//! The manifest, and what verifying finds.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::path::Path;

use dwell_events::Hint;
use dwell_events::schema::Table;
use dwell_events::schema::memory::{self, MemoryRow};
use dwell_files::{FileError, write_json_atomically};
use dwell_store::{
    ClockAnchor, FilesRead, Manifest, MemoryCsvFile, RawCompression, RawWriter, RecordsBuilder, RunDir, RunState,
    StoreError, TableWriter, changed_files, ensure_listed_tables, records_schema, verify, write_manifest,
};

/// A complete run with one raw stream, one table and two text files.
fn sealed_run(root: &Path) -> RunDir {
    let run = RunDir::create(root, "tiny", "one").unwrap();
    let mut records = RecordsBuilder::new();
    records.push(0, 1, 2, b"payload");
    let mut raw = RawWriter::create(&run.raw_stream("records"), records_schema(), RawCompression::None).unwrap();
    raw.write(&records.finish_batch()).unwrap();
    raw.finish().unwrap();
    let rows = [MemoryRow { label: "worker".to_owned(), pid: 1, ..MemoryRow::default() }];
    let mut table = TableWriter::create(run.path(), Table::Memory).unwrap();
    table.write(&memory::batch(&rows)).unwrap();
    table.finish().unwrap();
    let mut csv = MemoryCsvFile::create(&run.memory_csv(), ClockAnchor { monotonic_ns: 0, unix_ns: 0 }).unwrap();
    csv.write(&rows).unwrap();
    csv.finish().unwrap();
    write_json_atomically(&run.metadata_json(), &["basis"]).unwrap();
    write_manifest(&run).unwrap();
    run.set_state(RunState::Complete).unwrap();
    run
}

#[test]
fn a_sealed_run_lists_every_file_and_verifies() {
    let root = tempfile::tempdir().unwrap();
    let run = sealed_run(root.path());
    let manifest = Manifest::read(run.path()).unwrap();
    let paths: Vec<&str> = manifest.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["memory.csv", "memory.parquet", "metadata.json", "raw/records.arrows"]);
    assert_eq!(manifest.files[1].schema_version.as_deref(), Some(dwell_events::SCHEMA_VERSION));
    assert_eq!(manifest.files[0].schema_version, None);
    let report = verify(run.path(), &Table::ALL).unwrap();
    assert!(report.is_ok() && report.unlisted.is_empty(), "{report:?}");
    assert_eq!(report.ok, paths);
}

#[test]
fn a_finished_run_that_lost_a_table_is_refused_and_one_that_never_had_it_is_not() {
    let root = tempfile::tempdir().unwrap();
    let run = sealed_run(root.path());
    fs::remove_file(run.memory_csv()).unwrap();
    ensure_listed_tables(&run).unwrap();
    fs::remove_file(run.table(Table::Memory)).unwrap();
    let error = ensure_listed_tables(&run).unwrap_err();
    assert!(error.to_string().contains("missing (memory.parquet)"), "{error}");
    assert!(error.hints()[0].contains("`dwell verify '"), "{:?}", error.hints());
    run.set_state(RunState::Building).unwrap();
    ensure_listed_tables(&run).unwrap();
}

#[test]
fn the_hash_is_that_of_sha256sum() {
    let root = tempfile::tempdir().unwrap();
    let run = RunDir::create(root.path(), "tiny", "one").unwrap();
    fs::write(run.path().join("a"), "abc").unwrap();
    let manifest = write_manifest(&run).unwrap();
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!((manifest.files[0].size_bytes, manifest.files[0].sha256.as_str()), (3, expected));
}

#[test]
fn a_changed_byte_is_found_by_verify() {
    let root = tempfile::tempdir().unwrap();
    let run = sealed_run(root.path());
    let path = run.raw_stream("records");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let report = verify(run.path(), &Table::ALL).unwrap();
    assert!(!report.is_ok());
    assert_eq!(report.changed.len(), 1);
    assert_eq!(
        (report.changed[0].path.as_str(), report.changed[0].found_bytes),
        ("raw/records.arrows", bytes.len() as u64)
    );
}

#[test]
fn a_file_of_another_size_is_found_without_reading_it() {
    let root = tempfile::tempdir().unwrap();
    let run = sealed_run(root.path());
    // It has no blocks; reading it would take a day.
    let table = fs::OpenOptions::new().append(true).open(run.memory_csv()).unwrap();
    table.set_len(8 << 40).unwrap();
    let report = verify(run.path(), &[]).unwrap();
    assert_eq!((report.changed.len(), report.changed[0].found_bytes), (1, 8 << 40));
}

#[test]
fn what_is_read_is_compared_with_the_manifest() {
    let root = tempfile::tempdir().unwrap();
    let run = sealed_run(root.path());
    let changed = |read| changed_files(&run, read);
    assert_eq!((changed(FilesRead::Tables), changed(FilesRead::Results)), (Vec::new(), Vec::new()));
    // The same size, another byte.
    fs::write(run.metadata_json(), fs::read_to_string(run.metadata_json()).unwrap().replace("basis", "bases")).unwrap();
    fs::write(run.table(Table::Memory), "short").unwrap();
    fs::write(run.memory_csv(), "nobody reads it").unwrap();
    assert_eq!(changed(FilesRead::Tables), ["memory.parquet", "metadata.json"]);
    assert_eq!(changed(FilesRead::Results), ["metadata.json"]);
    run.set_state(RunState::Building).unwrap();
    assert_eq!(changed(FilesRead::Tables), [""; 0], "it is not finished");
    run.set_state(RunState::Complete).unwrap();
    fs::remove_file(run.manifest_json()).unwrap();
    assert_eq!(changed(FilesRead::Tables), [""; 0], "there is nothing to compare with");
}

#[test]
fn missing_and_unlisted_files_are_found_by_verify() {
    let root = tempfile::tempdir().unwrap();
    let run = sealed_run(root.path());
    fs::remove_file(run.memory_csv()).unwrap();
    fs::create_dir(run.figures()).unwrap();
    fs::write(run.figures().join("later.svg"), "").unwrap();
    fs::write(run.path().join("trace.parquet.partial"), "").unwrap();
    let report = verify(run.path(), &Table::ALL).unwrap();
    assert_eq!(report.missing, ["memory.csv"]);
    assert_eq!(report.unlisted, ["figures/later.svg"]);
}

#[test]
fn a_table_that_cannot_be_read_is_found_even_if_the_manifest_lists_it() {
    let root = tempfile::tempdir().unwrap();
    let run = sealed_run(root.path());
    fs::write(run.table(Table::Memory), "PAR1").unwrap();
    fs::copy(run.path().join("metadata.json"), run.table(Table::Trace)).unwrap();
    write_manifest(&run).unwrap();
    let report = verify(run.path(), &Table::ALL).unwrap();
    let tables: Vec<Table> = report.table_problems.iter().map(|problem| problem.table).collect();
    assert_eq!(tables, [Table::Trace, Table::Memory]);
    assert!(!report.is_ok());
}

#[test]
fn a_table_with_the_wrong_columns_is_found_by_verify() {
    let root = tempfile::tempdir().unwrap();
    let run = sealed_run(root.path());
    fs::copy(run.table(Table::Memory), run.table(Table::Loss)).unwrap();
    write_manifest(&run).unwrap();
    let report = verify(run.path(), &Table::ALL).unwrap();
    assert!(report.table_problems[0].problem.contains("kind, severity, source"), "{report:?}");
}

#[test]
fn a_manifest_cannot_point_outside_of_the_run() {
    let root = tempfile::tempdir().unwrap();
    let run = sealed_run(root.path());
    let mut manifest = Manifest::read(run.path()).unwrap();
    manifest.files[0].path = "../../../../etc/passwd".to_owned();
    manifest.files[1].path = "/etc/passwd".to_owned();
    write_json_atomically(&run.manifest_json(), &manifest).unwrap();
    let report = verify(run.path(), &Table::ALL).unwrap();
    assert_eq!(report.missing, ["../../../../etc/passwd", "/etc/passwd"]);
}

#[test]
fn a_manifest_of_another_major_version_or_of_no_json_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let run = sealed_run(root.path());
    let mut manifest = Manifest::read(run.path()).unwrap();
    manifest.manifest_schema_version = "2.0".to_owned();
    write_json_atomically(&run.manifest_json(), &manifest).unwrap();
    assert!(matches!(verify(run.path(), &Table::ALL), Err(StoreError::OtherMajorVersion { .. })));
    fs::write(run.manifest_json(), "no").unwrap();
    assert!(matches!(verify(run.path(), &Table::ALL), Err(StoreError::File(FileError::UnfitJson { .. }))));
    fs::remove_file(run.manifest_json()).unwrap();
    assert!(matches!(verify(run.path(), &Table::ALL), Err(StoreError::File(FileError::NotFound { .. }))));
}
