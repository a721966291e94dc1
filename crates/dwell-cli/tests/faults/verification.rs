//! `dwell verify` on runs that are not what they were.

use std::fs;
use std::process::Output;

use crate::common::{Run, Workplace, dwell, text_of};
use crate::models::small_model;
use crate::outcome::{assert_refused, assert_sealed, recover};

fn finished_run(work: &Workplace) -> Run {
    work.run(&small_model(), &["--prompt", "hello", "--max-tokens", "2"])
}

fn verify(run: &Run) -> Output {
    dwell().arg("verify").arg(&run.dir).output().unwrap()
}

/// The check was done, with this exit code and this line.
fn assert_found(output: &Output, code: i32, line: &str) {
    assert_eq!(output.status.code(), Some(code), "{}", text_of(output));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.lines().any(|found| found == line), "needed the line {line:?}: {}", text_of(output));
}

#[test]
fn a_changed_byte_is_found() {
    let work = Workplace::new();
    let run = finished_run(&work);
    let path = run.dir.join("raw/tensor_ops.arrows");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_found(&verify(&run), 1, "changed   raw/tensor_ops.arrows");
}

#[test]
fn a_run_that_lost_a_table_has_no_figures_until_it_is_mended() {
    let work = Workplace::new();
    let run = finished_run(&work);
    fs::remove_file(run.dir.join("kv_block_lifecycle.parquet")).unwrap();
    for command in ["analyse", "show", "report", "compare"] {
        let output = dwell().arg(command).arg(&run.dir).current_dir(work.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}: {}", text_of(&output));
        let said = text_of(&output);
        assert!(said.contains("manifest.json are missing (kv_block_lifecycle.parquet)"), "{command}: {said}");
        assert!(said.contains("`dwell verify '"), "{command}: {said}");
    }
    assert_found(&verify(&run), 1, "missing   kv_block_lifecycle.parquet");
}

#[test]
fn a_table_of_one_collector_is_opened_like_the_others() {
    let work = Workplace::new();
    let run = finished_run(&work);
    let path = run.dir.join("pressure.parquet");
    fs::copy(run.dir.join("tokens.parquet"), &path).unwrap();
    let output = verify(&run);
    assert_found(&output, 1, "changed   pressure.parquet");
    let unfit = "unfit     pressure: columns that are missing or of another type: timestamp_ns, cpu_some_pct";
    assert!(text_of(&output).contains(unfit), "{}", text_of(&output));
    let tree = dwell().args(["verify", "--json"]).arg(work.path().join("results")).output().unwrap();
    assert!(text_of(&tree).contains(r#""table": "pressure""#), "{}", text_of(&tree));
}

#[test]
fn an_extra_file_is_named_and_does_no_harm() {
    let work = Workplace::new();
    let run = finished_run(&work);
    fs::write(run.dir.join("notes.txt"), "mine").unwrap();
    assert_found(&verify(&run), 0, "unlisted  notes.txt");
}

#[test]
fn a_run_without_its_manifest_cannot_be_checked_until_recovery_wrote_it_again() {
    let work = Workplace::new();
    let run = finished_run(&work);
    fs::remove_file(run.dir.join("manifest.json")).unwrap();
    assert_refused(&verify(&run), "reading a manifest found no such file", &["dwell recover"]);
    let output = recover(&run);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert_sealed(&run);
}

#[test]
fn a_folder_that_is_no_run_is_refused() {
    let work = Workplace::new();
    let run = Run { dir: work.path().to_owned() };
    assert_refused(&verify(&run), "no run here", &["name a run"]);
}
