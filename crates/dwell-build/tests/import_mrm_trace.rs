//! Runs that mrm-trace itself wrote become runs of ours, with their labels as they are.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use dwell_build::import::{self, ImportError, ImportReport, ImportRequest};
use dwell_events::Hint;
use dwell_events::schema::Table;
use dwell_store::{RunState, number_at, open_table, text_at, verify};
use serde_json::{Value, json};
use skip::skip;

fn peer_python(test: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    let python = cache.join("dwell/venv-peer/bin/python");
    if !python.exists() {
        skip(test, "mrm-trace is not in the cache (scripts/setup.sh test gets it)");
        return None;
    }
    Some(python)
}

/// A run that the peer writes, and what it says of it.
fn peer_run(python: &Path, folder: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peer/mrm_trace_run.py");
    let output = Command::new(python).arg(script).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn import(dir: &Path, run_id: &str, files: &[PathBuf]) -> Result<ImportReport, ImportError> {
    let request = ImportRequest {
        files: files.to_vec(),
        results: dir.join("results"),
        model_id: "model".to_owned(),
        run_id: Some(run_id.to_owned()),
        options: Default::default(),
        command_line: vec!["dwell".to_owned()],
    };
    let importer = import::ALL.iter().copied().find(|importer| importer.name() == "mrm-trace").unwrap();
    import::import(importer, &request, &[])
}

/// One row of a table after another, as JSON.
fn rows(run: &Path, table: Table, row_of: impl Fn(&arrow_array::RecordBatch, usize) -> Value) -> Vec<Value> {
    let batches = open_table(run, table).unwrap().map(Result::unwrap);
    batches.flat_map(|batch| (0..batch.num_rows()).map(|row| row_of(&batch, row)).collect::<Vec<_>>()).collect()
}

fn labels(run: &Path) -> Vec<Value> {
    rows(run, Table::Trace, |batch, row| {
        let region_id = number_at::<UInt32Type>(batch, "region_id", row).unwrap();
        json!([text_at(batch, "region_type", row).unwrap(), region_id])
    })
}

#[test]
fn a_run_of_the_peer_keeps_its_labels_regions_and_blocks() {
    let Some(python) = peer_python("a_run_of_the_peer_keeps_its_labels_regions_and_blocks") else { return };
    let dir = tempfile::tempdir().unwrap();
    let peer = dir.path().join("peer");
    let told = peer_run(&python, &peer);
    let report = import(dir.path(), "run", std::slice::from_ref(&peer)).unwrap();
    let run = report.run_dir.as_path();
    assert_eq!(report.state, RunState::Complete);
    assert!(verify(run, &Table::ALL).unwrap().is_ok());
    assert_eq!(Value::Array(labels(run)), told["labels"]);

    let regions = rows(run, Table::RegionMap, |batch, row| {
        let number = |column| number_at::<Int64Type>(batch, column, row).unwrap();
        json!({
            "region_id": number("region_id"),
            "region_type": text_at(batch, "region_type", row).unwrap(),
            "page_min": number("page_min"),
            "page_max": number("page_max"),
            "first_seen_ns": number("first_seen_ns"),
            "last_seen_ns": number("last_seen_ns"),
            "access_count": number("access_count"),
        })
    });
    // Rows that nothing labels are a region of the peer with number 0, and none of ours.
    let mut theirs: Vec<Value> = told["regions"].as_array().unwrap().clone();
    theirs.retain(|region| region["region_id"] != 0);
    theirs.sort_by_key(|region| region["region_id"].as_u64());
    assert_eq!(regions, theirs);

    let blocks = rows(run, Table::KvBlockLifecycle, |batch, row| {
        let number = |column| number_at::<Int64Type>(batch, column, row);
        json!({
            "block_id": number("block_id"),
            "address": number("address"),
            "address_page": number("address_page"),
            "write_ns": number("write_ns"),
            "last_read_ns": number("last_read_ns"),
            "evict_ns": number("evict_ns"),
            "total_reads": number("total_reads"),
            "lifetime_ns": number("lifetime_ns"),
        })
    });
    assert_eq!(Value::Array(blocks), told["blocks"]);

    let import = report.metadata.import.as_ref().unwrap();
    assert_eq!(import.found["peer_metadata"], json!({"run_id": "peer", "note": "kept"}));
    assert_eq!(report.metadata.tables["trace"].basis, "sampled", "nobody stated a period");
    assert!(fs::read_to_string(run.join("metrics.csv")).unwrap().contains("\nweight,"));
}

#[test]
fn a_trace_alone_is_enough_and_regions_follow_from_it() {
    let Some(python) = peer_python("a_trace_alone_is_enough_and_regions_follow_from_it") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (peer, alone) = (dir.path().join("peer"), dir.path().join("alone"));
    let told = peer_run(&python, &peer);
    fs::create_dir(&alone).unwrap();
    fs::copy(peer.join("trace.parquet"), alone.join("trace.parquet")).unwrap();
    for (name, file) in [("folder", alone.clone()), ("file", alone.join("trace.parquet"))] {
        let report = import(dir.path(), name, &[file]).unwrap();
        assert_eq!(Value::Array(labels(&report.run_dir)), told["labels"]);
        let counts = rows(&report.run_dir, Table::RegionMap, |batch, row| {
            json!([
                number_at::<Int64Type>(batch, "region_id", row).unwrap(),
                number_at::<UInt64Type>(batch, "bytes_read", row).unwrap()
                    + number_at::<UInt64Type>(batch, "bytes_written", row).unwrap(),
            ])
        });
        let ids = told["labels"].as_array().unwrap().iter().map(|label| label[1].as_u64().unwrap());
        let mut expected = std::collections::BTreeMap::new();
        ids.filter(|&id| id != 0).for_each(|id| *expected.entry(id).or_insert(0) += 1);
        assert_eq!(counts, expected.iter().map(|pair| json!([pair.0, pair.1])).collect::<Vec<_>>());
        assert!(!report.run_dir.join("kv_block_lifecycle.parquet").exists());
    }
}

#[test]
fn a_trace_that_is_cut_anywhere_is_refused_by_name_and_leaves_nothing() {
    let Some(python) = peer_python("a_trace_that_is_cut_anywhere_is_refused_by_name_and_leaves_nothing") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (peer, cut) = (dir.path().join("peer"), dir.path().join("cut"));
    peer_run(&python, &peer);
    let whole = fs::read(peer.join("trace.parquet")).unwrap();
    fs::create_dir(&cut).unwrap();
    for length in (0..whole.len()).step_by(whole.len() / 200 + 1) {
        fs::write(cut.join("trace.parquet"), &whole[..length]).unwrap();
        let refused = import(dir.path(), "run", std::slice::from_ref(&cut)).unwrap_err();
        assert!(refused.to_string().contains("trace.parquet"), "{length}: {refused}");
        assert!(!dir.path().join("results").exists(), "{length}");
    }
}

#[test]
fn what_is_no_run_of_the_peer_is_refused_with_a_way_out() {
    let Some(python) = peer_python("what_is_no_run_of_the_peer_is_refused_with_a_way_out") else { return };
    let dir = tempfile::tempdir().unwrap();
    let peer = dir.path().join("peer");
    peer_run(&python, &peer);
    let ours = import(dir.path(), "run", std::slice::from_ref(&peer)).unwrap().run_dir;
    let refused = import(dir.path(), "again", std::slice::from_ref(&ours)).unwrap_err();
    assert!(refused.to_string().contains("found a run of dwell"), "{refused}");
    assert!(refused.hints()[0].contains("dwell relabel"));
    let refused = import(dir.path(), "two", &[peer.clone(), peer.clone()]).unwrap_err();
    assert!(refused.to_string().contains("found 2 paths, and needs one run"), "{refused}");
    fs::remove_file(peer.join("trace.parquet")).unwrap();
    let refused = import(dir.path(), "none", &[peer]).unwrap_err();
    assert!(refused.to_string().contains("found no trace.parquet"), "{refused}");
}
