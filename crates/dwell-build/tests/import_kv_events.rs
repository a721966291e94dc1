//! Recorded batches become a run.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use dwell_build::import::{self, ImportError, ImportReport, ImportRequest, Importer};
use dwell_events::Hint;
use dwell_events::kv_blocks::KvBlocksReport;
use dwell_events::schema::Table;
use dwell_kv_events::{RawBatch, RawBatchWriter, RecordingForm};
use dwell_metadata::RunMetadata;
use dwell_store::{RunState, open_table, verify};
use serde_json::{Value, json};

/// A batch in the array form: blocks of 2 tokens.
fn stored(ts: f64, hashes: &[i64], parent: Option<i64>) -> Value {
    let tokens: Vec<i64> = hashes.iter().flat_map(|&hash| [hash, hash + 1]).collect();
    json!([ts, [["BlockStored", hashes, parent, tokens, 2, null, "GPU"]]])
}

fn removed(ts: f64, hashes: &[i64]) -> Value {
    json!([ts, [["BlockRemoved", hashes, "GPU"]]])
}

/// Two blocks are stored; one is built upon and removed after 4 s.
fn story() -> Vec<Value> {
    vec![stored(100.0, &[1, 2], None), stored(101.0, &[3], Some(1)), removed(104.0, &[1])]
}

fn payload(batch: &Value) -> Vec<u8> {
    fn put(value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Null => rmp::encode::write_nil(out).unwrap(),
            Value::Number(number) => match number.as_i64() {
                Some(number) => _ = rmp::encode::write_sint(out, number).unwrap(),
                None => rmp::encode::write_f64(out, number.as_f64().unwrap()).unwrap(),
            },
            Value::String(text) => rmp::encode::write_str(out, text).unwrap(),
            Value::Array(values) => {
                rmp::encode::write_array_len(out, values.len() as u32).unwrap();
                values.iter().for_each(|value| put(value, out));
            }
            other => panic!("{other}"),
        }
    }
    let mut out = Vec::new();
    put(batch, &mut out);
    out
}

fn lines(batches: &[Value]) -> String {
    batches.iter().map(|batch| format!("{batch}\n")).collect()
}

fn with_lengths(payloads: &[Vec<u8>]) -> Vec<u8> {
    payloads.iter().flat_map(|payload| [&(payload.len() as u32).to_be_bytes(), payload.as_slice()].concat()).collect()
}

fn raw_stream(path: &Path, batches: &[(u64, u32, Vec<u8>)]) {
    let mut writer = RawBatchWriter::create(path).unwrap();
    for (sequence, publisher, payload) in batches {
        let (sequence, publisher, payload) = (*sequence, *publisher, payload.clone());
        writer.push(&RawBatch { sequence, publisher, payload, ..RawBatch::default() }).unwrap();
    }
    writer.finish().unwrap();
}

fn request(dir: &Path, files: &[&str]) -> ImportRequest {
    ImportRequest {
        files: files.iter().map(|file| dir.join(file)).collect(),
        results: dir.join("results"),
        model_id: "model".to_owned(),
        run_id: Some("run".to_owned()),
        options: [("kv-bytes-per-token", "1000".to_owned()), ("salt", "salt".to_owned())].into(),
        command_line: vec!["dwell".to_owned()],
    }
}

fn importer() -> &'static dyn Importer {
    import::ALL.iter().copied().find(|importer| importer.name() == "kv-events").unwrap()
}

fn import_kv_events(request: &ImportRequest) -> Result<ImportReport, ImportError> {
    import::import(importer(), request, &[])
}

fn import(dir: &Path, files: &[&str]) -> ImportReport {
    let _ = fs::remove_dir_all(dir.join("results"));
    import_kv_events(&request(dir, files)).unwrap()
}

fn counts(import: &ImportReport) -> &KvBlocksReport {
    &import.metadata.kv_events.as_ref().unwrap().report
}

/// Hash, lifetime and bytes of each row.
fn rows(import: &ImportReport) -> Vec<(String, i64, u64)> {
    let mut rows = Vec::new();
    for batch in open_table(&import.run_dir, Table::KvBlockLifecycle).unwrap() {
        let batch = batch.unwrap();
        let hashes = batch.column_by_name("block_hash").unwrap().as_string::<i32>();
        let lifetimes = batch.column_by_name("lifetime_ns").unwrap().as_primitive::<Int64Type>();
        let bytes = batch.column_by_name("bytes").unwrap().as_primitive::<UInt64Type>();
        rows.extend(
            (0..batch.num_rows()).map(|row| (hashes.value(row).to_owned(), lifetimes.value(row), bytes.value(row))),
        );
    }
    rows
}

fn losses(import: &ImportReport) -> Vec<(String, u64)> {
    dwell_kv_events::losses(counts(import)).iter().map(|row| (row.kind.name().to_owned(), row.count)).collect()
}

#[test]
fn every_form_gives_the_same_lives_in_a_run_that_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let payloads: Vec<Vec<u8>> = story().iter().map(payload).collect();
    fs::write(dir.path().join("batches.jsonl"), lines(&story())).unwrap();
    fs::write(dir.path().join("batches.bin"), with_lengths(&payloads)).unwrap();
    raw_stream(&dir.path().join("kv_events.arrows"), &[0, 1, 2].map(|at| (at, 0, payloads[at as usize].clone())));
    let forms = [
        ("batches.jsonl", RecordingForm::JsonLines),
        ("batches.bin", RecordingForm::LengthPrefixed),
        ("kv_events.arrows", RecordingForm::RawStream),
    ];
    for (file, form) in forms {
        let import = import(dir.path(), &[file]);
        let read = &import.metadata.kv_events.as_ref().unwrap().files[0];
        assert_eq!((read.form.as_str(), read.batches), (form.name(), 3));
        assert_eq!(import.found["files"][0]["form"], form.name());
        let of = |hash: &str, seconds: i64| (hash.to_owned(), seconds * 1_000_000_000, 2000);
        assert_eq!(rows(&import), [of("1", 4), of("2", 0), of("3", 0)], "{file}");
        assert_eq!((import.state, losses(&import)), (RunState::Complete, vec![]), "{file}");
        assert!(verify(&import.run_dir, &Table::ALL).unwrap().is_ok(), "{file}");
        let path = import.run_dir.join("metadata.json");
        let metadata = RunMetadata::parse(&fs::read(&path).unwrap(), &path).unwrap();
        assert_eq!(metadata, import.metadata);
        let events = metadata.kv_events.as_ref().unwrap();
        assert_eq!((events.token_ids.as_str(), events.salt.as_deref()), ("hashed", Some("given")));
        assert_eq!((metadata.engine.as_str(), metadata.state.as_str()), ("imported", "complete"));
        assert_eq!((metadata.run_id.as_str(), metadata.model_id.as_str()), ("run", "model"));
        let sources = ["kv_block_lifecycle", "loss"].map(|table| metadata.tables[table].source.as_str());
        assert_eq!(sources, ["kv_events"; 2]);
        let manifest = fs::read_to_string(dir.path().join("results/manifest.csv")).unwrap();
        assert!(manifest.lines().nth(1).unwrap().starts_with("run,,model,kv_events,"), "{manifest}");
    }
}

#[test]
fn the_raw_stream_of_an_import_gives_the_same_rows_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("batches.jsonl"), lines(&story())).unwrap();
    let first = import(dir.path(), &["batches.jsonl"]);
    let before = rows(&first);
    fs::copy(first.run_dir.join("raw/kv_events.arrows"), dir.path().join("again.arrows")).unwrap();
    assert_eq!(rows(&import(dir.path(), &["again.arrows"])), before);
}

#[test]
fn missing_numbers_are_lost_batches_and_those_before_the_first_are_history() {
    let dir = tempfile::tempdir().unwrap();
    let numbered: Vec<Value> = [(4, &story()[0]), (5, &story()[1]), (9, &story()[2])]
        .map(|(seq, batch)| json!({"seq": seq, "batch": batch}))
        .to_vec();
    fs::write(dir.path().join("batches.jsonl"), lines(&numbered)).unwrap();
    let import = import(dir.path(), &["batches.jsonl"]);
    assert_eq!(losses(&import), [("lost_kv_batches".to_owned(), 3), ("unseen_kv_history".to_owned(), 4)]);
    assert_eq!(import.state, RunState::Partial);
}

#[test]
fn a_bad_batch_costs_itself() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second, third] = <[Value; 3]>::try_from(story()).unwrap();
    fs::write(dir.path().join("batches.jsonl"), format!("{first}\n[1.0, [[\"Blo\n\n{second}\n{third}\n")).unwrap();
    let mut bytes = with_lengths(&[payload(&first), b"\xc1 no batch".to_vec(), payload(&second), payload(&third)]);
    fs::write(dir.path().join("batches.bin"), &bytes).unwrap();
    bytes.extend([0, 0, 1, 0, 0x92]);
    fs::write(dir.path().join("torn.bin"), &bytes).unwrap();
    for (file, undecodable) in [("batches.jsonl", 1), ("batches.bin", 1), ("torn.bin", 2)] {
        let import = import(dir.path(), &[file]);
        assert_eq!(losses(&import), [("undecodable_records".to_owned(), undecodable)], "{file}");
        assert_eq!(rows(&import).len(), 3, "{file}");
    }
}

#[test]
fn a_raw_stream_that_was_cut_off_gives_what_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let payloads: Vec<Vec<u8>> = story().iter().map(payload).collect();
    let path = dir.path().join("kv_events.arrows");
    let mut writer = RawBatchWriter::create(&path).unwrap();
    for (sequence, payload) in payloads.iter().enumerate() {
        let batch = RawBatch { sequence: sequence as u64, payload: payload.clone(), ..RawBatch::default() };
        writer.push(&batch).unwrap();
        writer.flush().unwrap();
    }
    drop(writer);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    let import = import(dir.path(), &["kv_events.arrows"]);
    assert_eq!((losses(&import), counts(&import).batches), (vec![("undecodable_records".to_owned(), 1)], 3));
    assert_eq!((counts(&import).blocks.stored, counts(&import).blocks.removed), (3, 0));
}

#[test]
fn a_server_that_began_again_ends_the_lives_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let payloads: Vec<Vec<u8>> = story().iter().map(payload).collect();
    let batches = [(0, 0, payloads[0].clone()), (1, 0, payloads[1].clone()), (0, 1, payloads[0].clone())];
    raw_stream(&dir.path().join("kv_events.arrows"), &batches);
    let import = import(dir.path(), &["kv_events.arrows"]);
    assert_eq!((counts(&import).restarts, counts(&import).blocks.ended_with_server), (1, 3));
    assert_eq!((counts(&import).blocks.stored, counts(&import).blocks.reuses), (5, 1));
}

#[test]
fn several_files_are_one_recording() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("first.jsonl"), lines(&story()[..2])).unwrap();
    fs::write(dir.path().join("second.jsonl"), lines(&story()[2..])).unwrap();
    let import = import(dir.path(), &["first.jsonl", "second.jsonl"]);
    assert_eq!((counts(&import).blocks.removed, counts(&import).restarts, losses(&import)), (1, 0, vec![]));
}

#[test]
fn what_holds_no_batch_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in [("empty", &b""[..]), ("picture", b"\x89PNG\r\n\x1a\n"), ("text", b"[1, 2]\n{}\n")] {
        fs::write(dir.path().join(name), content).unwrap();
        let error = import_kv_events(&request(dir.path(), &[name])).unwrap_err();
        assert!(
            matches!(&error, ImportError::Refused { message, .. } if message.contains("no batch that can be decoded")),
            "{name}: {error}"
        );
        assert_eq!(error.hints().len(), 1);
        assert!(!dir.path().join("results/model").exists(), "{name}");
    }
    let error = import_kv_events(&request(dir.path(), &["absent"])).unwrap_err();
    assert!(matches!(error, ImportError::Store(_)), "{error}");
}

#[test]
fn token_ids_are_kept_only_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("batches.jsonl"), lines(&story())).unwrap();
    let ids = |keeps_token_ids: bool| {
        let _ = fs::remove_dir_all(dir.path().join("results"));
        let mut request = request(dir.path(), &["batches.jsonl"]);
        if keeps_token_ids {
            request.options = [("keep-token-ids", String::new())].into();
        }
        let import = import_kv_events(&request).unwrap();
        let batch = open_table(&import.run_dir, Table::KvBlockLifecycle).unwrap().next().unwrap().unwrap();
        let column = |name: &str| batch.column_by_name(name).unwrap().clone();
        let ids = column("token_ids").as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>();
        (ids, column("token_hash").null_count())
    };
    assert_eq!(ids(true), (["1 2", "2 3", "3 4"].map(str::to_owned).to_vec(), 3));
    assert_eq!(ids(false), (vec![], 0));
}

#[test]
fn a_run_that_exists_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("batches.jsonl"), lines(&story())).unwrap();
    let first = import(dir.path(), &["batches.jsonl"]);
    import_kv_events(&request(dir.path(), &["batches.jsonl"])).unwrap_err();
    assert!(verify(&first.run_dir, &Table::ALL).unwrap().is_ok());
    assert_eq!(first.run_dir, PathBuf::from(dir.path()).join("results/model/run"));
}
