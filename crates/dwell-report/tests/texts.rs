//! What `dwell verify` and `dwell tensors` say of runs and streams of known content.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/small_trace.rs"]
mod small_trace;

use std::fs;
use std::path::{Path, PathBuf};

use dwell_events::schema::Table;
use dwell_report::text::{
    CaptureOutcome, CaptureSummary, ConvertedStream, StreamInfo, tensors_diff_text, tensors_recovered_text,
    tensors_stats_text, tensors_verify_text, verify_text, verify_tree_text,
};
use dwell_store::{ManifestRow, ResultsManifest, RunDir, RunState, verify, verify_tree, write_manifest};
use dwell_tensors::{DType, StreamOptions, TensorFile, TensorHead, TensorStream, diff, recover, stats};
use small_trace::SmallTrace;

/// A sealed run with a small trace, which `manifest.csv` names.
fn sealed_run(results: &Path, run_id: &str) -> RunDir {
    let run = RunDir::create(results, "tiny", run_id).unwrap();
    SmallTrace::new().store("set", 0x1000).load("get", 0x1000).write(run.path());
    fs::write(run.metadata_json(), "{}").unwrap();
    write_manifest(&run).unwrap();
    run.set_state(RunState::Complete).unwrap();
    let (run_id, model_id, path) = (run_id.to_owned(), "tiny".to_owned(), format!("tiny/{run_id}"));
    ResultsManifest::open(results).record(&ManifestRow { run_id, model_id, path, ..ManifestRow::default() }).unwrap();
    run
}

#[test]
fn a_whole_run_is_said_to_be_whole() {
    let place = tempfile::tempdir().unwrap();
    let report = verify(sealed_run(place.path(), "run").path(), &Table::ALL).unwrap();
    assert!(report.is_ok());
    assert_eq!(verify_text(&report), "2 files are as the manifest says\n");
}

#[test]
fn a_table_that_is_cut_is_changed_and_unfit() {
    let place = tempfile::tempdir().unwrap();
    let run = sealed_run(place.path(), "run");
    let path = run.path().join("trace.parquet");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    let report = verify(run.path(), &Table::ALL).unwrap();
    let text = verify_text(&report);
    assert!(!report.is_ok());
    assert!(text.starts_with("changed   trace.parquet\nunfit     trace: "), "{text}");
}

#[test]
fn missing_and_further_files_are_named_and_only_the_missing_do_harm() {
    let place = tempfile::tempdir().unwrap();
    let run = sealed_run(place.path(), "run");
    fs::write(run.path().join("notes.txt"), "mine").unwrap();
    let report = verify(run.path(), &Table::ALL).unwrap();
    assert!(report.is_ok());
    assert_eq!(verify_text(&report), "unlisted  notes.txt\n2 files are as the manifest says\n");
    fs::remove_file(run.metadata_json()).unwrap();
    let report = verify(run.path(), &Table::ALL).unwrap();
    assert!(!report.is_ok());
    let expected = "missing   metadata.json\nunlisted  notes.txt\n1 file is as the manifest says\n";
    assert_eq!(verify_text(&report), expected);
}

#[test]
fn a_tree_is_told_run_by_run_and_against_its_manifest() {
    let place = tempfile::tempdir().unwrap();
    sealed_run(place.path(), "one");
    let two = sealed_run(place.path(), "two");
    let text = || verify_tree_text(&verify_tree(place.path(), &Table::ALL, &|_, _| {}).unwrap());
    let whole =
        "ok         tiny/one: 2 files\nok         tiny/two: 2 files\n2 runs: 2 ok; manifest.csv agrees, 2 rows\n";
    assert_eq!(text(), whole);
    fs::write(two.metadata_json(), "changed").unwrap();
    RunDir::create(place.path(), "tiny", "killed").unwrap();
    fs::create_dir(place.path().join("other")).unwrap();
    fs::rename(place.path().join("tiny/one"), place.path().join("other/one")).unwrap();
    let text = text();
    for line in [
        "ok         other/one: 2 files",
        "damaged    tiny/two: changed metadata.json",
        "unfinished tiny/killed: recording",
        "no folder  tiny/one: manifest.csv has a row for it",
        "3 runs: 1 ok, 1 damaged, 1 unfinished; manifest.csv does not agree",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in {text}");
    }
}

#[test]
fn the_report_of_a_tree_can_be_read_by_programs() {
    let place = tempfile::tempdir().unwrap();
    fs::remove_file(sealed_run(place.path(), "one").metadata_json()).unwrap();
    let report = serde_json::to_value(verify_tree(place.path(), &Table::ALL, &|_, _| {}).unwrap()).unwrap();
    assert_eq!((&report["runs"][0]["path"], &report["runs"][0]["status"]), (&"tiny/one".into(), &"damaged".into()));
    assert_eq!(report["runs"][0]["report"]["missing"][0], "metadata.json");
    assert_eq!(report["manifest"]["rows"], 1);
}

/// Two names, three steps, one token after each; the first tensor of each step is lossless float32, the other bytes.
fn stream(place: &Path, name: &str, shift: f32) -> PathBuf {
    let path = place.join(name);
    let stream = TensorStream::create(&path, StreamOptions::default()).unwrap();
    for step in 0..3_u64 {
        let values = (0..512).map(|number| number as f32 * 0.25 + shift * step as f32);
        let floats: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        stream.submit(head("l_out-0", step, DType::F32, &[2, 256]), &floats).unwrap();
        stream.submit(head("mask", step, DType::U8, &[3]), &[1, 0, 1]).unwrap();
        stream.record_token(step as i64 + 7, &format!(" t{step}")).unwrap();
        stream.flush().unwrap();
    }
    stream.finish().unwrap();
    path
}

fn head(name: &str, step: u64, dtype: DType, shape: &[u64]) -> TensorHead {
    let shape = shape.to_vec();
    TensorHead { name: name.to_owned(), layer: None, step, token_index: Some(step), timestamp_ns: 1, dtype, shape }
}

#[test]
fn a_finished_stream_is_described_counted_and_found_sound() {
    let place = tempfile::tempdir().unwrap();
    let file = TensorFile::open(&stream(place.path(), "gen.tensors", 1.0)).unwrap();
    let figures = stats(&file);
    let info = StreamInfo::new(&file, &figures);
    let json = serde_json::to_value(&info).unwrap();
    assert_eq!((&json["packets"], &json["names"], &json["tokens"]), (&6.into(), &2.into(), &3.into()));
    assert_eq!((&json["is_finished"], &json["last_step"]), (&true.into(), &2.into()));
    let text = info.text();
    assert!(text.contains("\ntensors    6 of 2 names\n") && text.contains("\nsteps      0 to 2\n"), "{text}");
    let json = serde_json::to_value(&figures).unwrap();
    assert_eq!(json["names"][0]["name"], "l_out-0");
    assert_eq!((&json["names"][0]["packets"], &json["names"][0]["raw_bytes"]), (&3.into(), &6144.into()));
    assert_eq!((&json["total"]["packets"], &json["total"]["mse"]), (&6.into(), &serde_json::Value::Null));
    let table = tensors_stats_text(&figures);
    assert!(table.contains("\nmask") && table.lines().count() == 4, "{table}");
    let verified = dwell_tensors::verify(file.path()).unwrap();
    let text = tensors_verify_text(&verified);
    assert!(verified.is_sound() && text.starts_with("6 of 6 tensors are whole, "), "{text}");
    assert!(text.ends_with(" 0 dropped, finished\n"), "{text}");
}

#[test]
fn a_lossy_stream_says_what_was_lost_and_where() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("lossy.tensors");
    let codec = "bounded:abs:0.25".parse().unwrap();
    let stream = TensorStream::create(&path, StreamOptions { codec, ..StreamOptions::default() }).unwrap();
    for (step, scale) in [1.0_f32, 0.01].into_iter().enumerate() {
        let values = (0..4096).map(|number| (number as f32 * 0.7).sin() * scale);
        let floats: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        stream.submit(head("l_out-0", step as u64, DType::F32, &[16, 256]), &floats).unwrap();
    }
    let summary = stream.finish().unwrap();
    let file = TensorFile::open(&path).unwrap();
    assert_eq!(summary.stored, file.stored());
    let figures = stats(&file);
    let loss = figures.codec_loss.as_ref().unwrap();
    // Everything below a half of 0.5 becomes 0: nothing is left of the vectors of the second step.
    let min_cosine = loss.min_cosine.as_ref().unwrap();
    assert_eq!(
        (min_cosine.value, min_cosine.name.as_str(), min_cosine.step, min_cosine.packet),
        (0.0, "l_out-0", 1, 1)
    );
    let max_error = loss.max_error.as_ref().unwrap();
    assert!(max_error.step == 0 && max_error.value <= 0.25 && max_error.value > 0.24, "{max_error:?}");
    let said = format!(
        "bounded:abs:2.5e-1: {}× smaller; largest error {:.2e} in l_out-0 of step 0; worst vector's cosine 0.00000 in \
         l_out-0 of step 1\n",
        dwell_report::text::ratio(summary.stored.ratio().unwrap()),
        max_error.value,
    );
    assert!(StreamInfo::new(&file, &figures).text().contains(&format!("\nloss       {said}")));
    let text = tensors_stats_text(&figures);
    assert!(text.ends_with(&format!("\nlossy: {said}")) && text.contains("0.00000"), "{text}");
    let converted = ConvertedStream::whole(&path, 2).stored_as(file.stored());
    assert_eq!(converted.text(), format!("2 tensors\nlossy: {said}{}\n", path.display()));
    assert_eq!(serde_json::to_value(&figures).unwrap()["codec_loss"]["min_cosine"]["step"], 1);

    let counts = dwell_capture::CaptureCounts::default();
    let outcome = CaptureOutcome {
        tensors: &[("l_out-0".to_owned(), None)],
        counts: &counts,
        resumed_packets: 0,
        duration_ns: 1,
        is_finished: true,
        is_interrupted: false,
        generation: None,
        has_last_position_only: false,
    };
    let text = CaptureSummary::new(&outcome, &file).text();
    assert!(text.contains(&format!("\nlost      no packets; precision, by the codec\nprecision {said}")), "{text}");
    let lossless = TensorFile::open(&self::stream(place.path(), "gen.tensors", 1.0)).unwrap();
    let text = CaptureSummary::new(&outcome, &lossless).text();
    assert!(text.contains("\nlost      nothing\n") && !text.contains("precision"), "{text}");
    // A small file is larger than its tensors: their head and index are in it too.
    let size = dwell_report::text::bytes(lossless.file_bytes());
    assert!(text.contains(&format!(" of tensors in a file of {size} with its index")), "{text}");
}

#[test]
fn a_damaged_tensor_is_named() {
    let place = tempfile::tempdir().unwrap();
    let path = stream(place.path(), "gen.tensors", 1.0);
    let entry = TensorFile::open(&path).unwrap().packets()[2];
    let mut bytes = fs::read(&path).unwrap();
    bytes[entry.payload_offset as usize] ^= 4;
    fs::write(&path, bytes).unwrap();
    let report = dwell_tensors::verify(&path).unwrap();
    let text = tensors_verify_text(&report);
    assert!(!report.is_sound() && text.starts_with("damaged   packet 2 l_out-0: "), "{text}");
    assert!(text.contains("\n5 of 6 tensors are whole"), "{text}");
}

#[test]
fn a_cut_stream_says_so_until_it_is_ended() {
    let place = tempfile::tempdir().unwrap();
    let path = stream(place.path(), "gen.tensors", 1.0);
    let last = *TensorFile::open(&path).unwrap().batches().last().unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..(last.offset + last.bytes - 1) as usize]).unwrap();
    let file = TensorFile::open(&path).unwrap();
    let text = StreamInfo::new(&file, &stats(&file)).text();
    assert!(text.contains("\nend        none: "), "{text}");
    assert!(tensors_verify_text(&dwell_tensors::verify(&path).unwrap()).ends_with("not finished\n"));
    drop(file);
    let text = tensors_recovered_text(&recover(&path).unwrap());
    assert!(text.starts_with("4 tensors and 2 tokens in 2 batches\nwas       "), "{text}");
    assert!(text.contains("\ncut off   "), "{text}");
    assert!(tensors_recovered_text(&recover(&path).unwrap()).starts_with("nothing to do: 4 tensors"));
}

#[test]
fn streams_that_differ_are_told_tensor_by_tensor() {
    let place = tempfile::tempdir().unwrap();
    let open = |name, shift| TensorFile::open(&stream(place.path(), name, shift)).unwrap();
    let (one, same, other) = (open("one.tensors", 1.0), open("same.tensors", 1.0), open("other.tensors", 2.0));
    let equal = diff(&one, &same, 0.0).unwrap();
    assert!(equal.is_same() && tensors_diff_text(&equal).starts_with("6 tensors compared: 6 equal, "));
    let report = diff(&one, &other, 0.0).unwrap();
    assert_eq!((report.equal, report.max_abs_diff), (4, 2.0));
    let text = tensors_diff_text(&report);
    assert!(text.starts_with("different  l_out-0 step 1 token 1: by 1.00e0 at most, MSE 1.00e0\n"), "{text}");
    assert!(text.contains("different  l_out-0 step 2 token 2: by 2.00e0 at most"), "{text}");
}
