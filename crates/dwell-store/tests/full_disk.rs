//! A full disk is a clear error and destroys nothing. Needs the right to mount a small tmpfs.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_array::RecordBatch;
use dwell_events::Hint;
use dwell_events::schema::{Table, memory};
use dwell_files::{FileError, available_bytes, write_bytes_atomically};
use dwell_store::{
    ManifestRow, RawCompression, RawReader, RawWriter, RecordsBuilder, ResultsManifest, StoreError, StreamEnd,
    TableWriter, records_schema,
};

/// A file system of 256 KiB; unmounted when dropped.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    /// `None`, noted as a skipped test, where mounting is not possible.
    fn mount(test: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(dir.path()).output();
        if output.is_ok_and(|output| output.status.success()) {
            return Some(Self { dir });
        }
        common::skip(test, "mounting a tmpfs needs root");
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.dir.path()).status();
    }
}

fn records(sequence: u64) -> RecordBatch {
    let mut builder = RecordsBuilder::new();
    builder.push(sequence, 1, 2, &[7; 30_000]);
    builder.finish_batch()
}

fn read_back(path: &Path) -> (usize, Option<StreamEnd>) {
    let mut reader = RawReader::open(path).unwrap();
    let batches = reader.by_ref().map(Result::unwrap).count();
    (batches, reader.end())
}

#[test]
fn a_raw_stream_on_a_full_disk_stays_whole_and_goes_on_when_there_is_space() {
    let Some(disk) = SmallDisk::mount("a_raw_stream_on_a_full_disk_stays_whole_and_goes_on_when_there_is_space") else {
        return;
    };
    std::fs::write(disk.path("ballast"), [0; 100_000]).unwrap();
    let path = disk.path("records.arrows");
    let mut writer = RawWriter::create(&path, records_schema(), RawCompression::None).unwrap();
    let mut written = 0;
    let error = loop {
        writer.write(&records(written)).unwrap();
        match writer.flush() {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::File(FileError::NoSpace { .. })), "{error}");
    assert!(error.hints()[0].contains("df -h"));
    assert_eq!(read_back(&path), (written as usize, Some(StreamEnd::Open)));
    std::fs::remove_file(disk.path("ballast")).unwrap();
    writer.finish().unwrap();
    assert_eq!(read_back(&path), (written as usize + 1, Some(StreamEnd::Finished)));
}

#[test]
fn a_table_on_a_full_disk_never_gets_its_name() {
    let Some(disk) = SmallDisk::mount("a_table_on_a_full_disk_never_gets_its_name") else { return };
    std::fs::write(disk.path("ballast"), [0; 258_048]).unwrap();
    let mut writer = TableWriter::create(disk.dir.path(), Table::Memory).unwrap();
    let rows: Vec<memory::MemoryRow> = (0..20_000_u64)
        .map(|index| memory::MemoryRow { rss_bytes: index.wrapping_mul(0x9e37_79b9_7f4a_7c15), ..Default::default() })
        .collect();
    let outcome = writer.write(&memory::batch(&rows)).and_then(|()| writer.finish());
    assert!(matches!(outcome, Err(StoreError::File(FileError::NoSpace { .. }))), "{outcome:?}");
    assert!(!disk.path("memory.parquet").exists());
}

#[test]
fn a_json_file_on_a_full_disk_keeps_its_old_content() {
    let Some(disk) = SmallDisk::mount("a_json_file_on_a_full_disk_keeps_its_old_content") else { return };
    let path = disk.path("metadata.json");
    write_bytes_atomically(&path, b"old").unwrap();
    let error = write_bytes_atomically(&path, &vec![1; 500_000]).unwrap_err();
    assert!(matches!(error, FileError::NoSpace { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert!(!disk.path("metadata.json.partial").exists());
}

#[test]
fn a_results_manifest_on_a_full_disk_stays_as_it_was_and_goes_on_when_there_is_space() {
    let Some(disk) =
        SmallDisk::mount("a_results_manifest_on_a_full_disk_stays_as_it_was_and_goes_on_when_there_is_space")
    else {
        return;
    };
    let manifest = ResultsManifest::open(disk.dir.path());
    // Longer than a page, so that a part of the line finds room.
    let row = |number: usize| ManifestRow { failure: "x".repeat(6_000), ..named_row(number) };
    manifest.record(&row(0)).unwrap();
    std::fs::write(disk.path("ballast"), [0; 180_000]).unwrap();
    let mut before = Vec::new();
    let (failed, error) = (1..)
        .find_map(|number| {
            before = std::fs::read(manifest.path()).unwrap();
            manifest.record(&row(number)).err().map(|error| (number, error))
        })
        .unwrap();
    assert!(matches!(error, StoreError::File(FileError::NoSpace { .. })), "{error}");
    assert!(failed > 2, "some fit");
    assert!(std::fs::read(manifest.path()).unwrap() == before, "a failed row leaves no trace");
    let replaced = manifest.record(&ManifestRow { state: "partial".to_owned(), ..row(0) });
    assert!(matches!(replaced, Err(StoreError::File(FileError::NoSpace { .. }))), "{replaced:?}");
    assert!(std::fs::read(manifest.path()).unwrap() == before, "the old file stays until the new one is whole");
    std::fs::remove_file(disk.path("ballast")).unwrap();
    // A busy kernel gives the pages of a removed file back a little later.
    while available_bytes(disk.dir.path()).unwrap() < 100_000 {
        std::thread::yield_now();
    }
    manifest.record(&row(failed)).unwrap();
    let found: Vec<String> = manifest.rows().unwrap().into_iter().map(|row| row.run_id).collect();
    assert_eq!(found, (0..=failed).map(|number| named_row(number).run_id).collect::<Vec<_>>());
}

fn named_row(number: usize) -> ManifestRow {
    ManifestRow { run_id: format!("run-{number}"), model_id: "model".to_owned(), ..ManifestRow::default() }
}
