//! The observer dies while it records, and `dwell recover` finishes its run.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use dwell_store::RawReader;
use rustix::process::Signal;

use crate::common::{Run, Workplace, dwell, send, text_of, wait_for, wait_for_end_of};
use crate::live_run::{HeldManifest, LiveRun, assert_has_all_computed, computed_positions};
use crate::outcome::{assert_partial, assert_refused, assert_sealed, has_loss, recover, recover_partial, state_of};

/// A run whose observer was killed after some computations; with how many of them were in the raw stream by then.
fn killed_run(work: &Workplace) -> (Run, usize) {
    let live = LiveRun::start(work, &[]);
    // More than one batch, so that cutting the last one leaves something.
    wait_for("some batches", || (batch_count(&live.run) >= 3).then_some(()));
    let before = live.wait_for_computations(20);
    let worker_pid = live.worker_pid();
    live.signal_observer(Signal::KILL);
    let (run, _) = live.wait();
    wait_for_end_of(worker_pid);
    (run, before)
}

fn batch_count(run: &Run) -> usize {
    RawReader::open(&tensor_ops(run)).map_or(0, |reader| reader.flatten().count())
}

fn raw_file_with_ending(run: &Run, ending: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(run.dir.join("raw")).unwrap().flatten();
    entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(ending))
}

fn tensor_ops(run: &Run) -> PathBuf {
    run.dir.join("raw/tensor_ops.arrows")
}

fn cut_to(path: &Path, length_bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length_bytes).unwrap();
}

#[test]
fn a_killed_observer_takes_its_worker_along_and_its_run_is_recovered_whole() {
    let work = Workplace::new();
    let (run, before) = killed_run(&work);
    assert_eq!(state_of(&run), "recording");
    assert!(!run.dir.join("manifest.json").exists());
    recover_partial(&run);
    assert_partial(&run, &["observer_died"]);
    assert!(!has_loss(&run, "undecodable_records"), "{:?}", run.losses());
    assert!(computed_positions(&run).len() >= before);
    assert_has_all_computed(&run);
    assert!(raw_file_with_ending(&run, ".ring").is_none(), "the ring is emptied and not needed any more");
    assert_refused(
        &recover(&run),
        "this run is built already",
        &["dwell verify", "/manifest.json' && dwell recover '"],
    );
    assert_sealed(&run);
}

#[test]
fn a_run_that_is_still_recorded_is_not_recovered() {
    let work = Workplace::new();
    let live = LiveRun::start(&work, &[]);
    live.wait_for_computations(1);
    let output = recover(&live.run);
    assert_refused(&output, &format!("process {} is still at work on this run", live.pid()), &["wait for it to end"]);
    // It is not disturbed by that.
    let now = computed_positions(&live.run).len();
    live.wait_for_computations(now + 1);
}

#[test]
fn a_stream_that_is_cut_in_a_batch_and_has_no_ring_is_recovered_up_to_the_cut() {
    let work = Workplace::new();
    let (run, _) = killed_run(&work);
    let stream = tensor_ops(&run);
    cut_to(&stream, fs::metadata(&stream).unwrap().len() - 100);
    fs::remove_file(raw_file_with_ending(&run, ".ring").unwrap()).unwrap();
    let left = computed_positions(&run).len();
    assert!(left > 0);
    recover_partial(&run);
    assert_partial(&run, &["observer_died", "undecodable_records"]);
    assert_has_all_computed(&run);
}

#[test]
fn records_that_are_neither_in_the_stream_nor_in_the_ring_are_counted_as_lost() {
    let work = Workplace::new();
    let (run, _) = killed_run(&work);
    let stream = tensor_ops(&run);
    cut_to(&stream, fs::metadata(&stream).unwrap().len() - 100);
    recover_partial(&run);
    assert_partial(&run, &["observer_died", "undecodable_records"]);
}

#[test]
fn a_stream_without_its_header_is_begun_again_with_what_the_ring_holds() {
    let work = Workplace::new();
    let (run, _) = killed_run(&work);
    cut_to(&tensor_ops(&run), 10);
    recover_partial(&run);
    assert_partial(&run, &["observer_died", "undecodable_records"]);
}

#[test]
fn a_ring_that_cannot_be_read_is_counted_and_set_aside() {
    let work = Workplace::new();
    let (run, before) = killed_run(&work);
    let ring = raw_file_with_ending(&run, ".ring").unwrap();
    fs::write(&ring, vec![0; fs::metadata(&ring).unwrap().len() as usize]).unwrap();
    recover_partial(&run);
    assert_partial(&run, &["observer_died", "undecodable_records"]);
    assert!(computed_positions(&run).len() >= before);
    assert!(raw_file_with_ending(&run, ".damaged_ring").is_some());
}

#[test]
fn a_recovery_that_is_killed_while_it_builds_is_started_again() {
    let work = Workplace::new();
    let (run, _) = killed_run(&work);
    let manifest = HeldManifest::of(&run);
    let mut first = dwell().arg("recover").arg(&run.dir).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the tables", || run.dir.join("manifest.json").exists().then_some(()));
    let meanwhile = recover(&run);
    assert_refused(&meanwhile, &format!("process {} is still at work on this run", first.id()), &["wait for it"]);
    send(first.id(), Signal::KILL);
    first.wait().unwrap();
    assert_eq!(state_of(&run), "building");
    drop(manifest);
    recover_partial(&run);
    assert_partial(&run, &["observer_died"]);
    assert_has_all_computed(&run);
}

#[test]
fn a_folder_that_is_no_run_is_not_recovered() {
    let work = Workplace::new();
    let recover_path = |path: &Path| dwell().arg("recover").arg(path).output().unwrap();
    assert_refused(&recover_path(work.path()), "no run here", &["name a run"]);
    assert_refused(&recover_path(&work.path().join("missing")), "found no such file or directory", &[]);
    let file = work.path().join("file");
    fs::write(&file, "text").unwrap();
    assert_refused(&recover_path(&file), "no run here", &[]);
}

#[test]
fn a_run_that_was_killed_before_it_recorded_is_told_from_one_that_can_be_finished() {
    let work = Workplace::new();
    let (run, _) = killed_run(&work);
    fs::remove_file(run.dir.join("raw/run.json")).unwrap();
    assert_refused(&recover(&run), "recovering found no raw/run.json", &["run it again"]);
}

#[test]
fn a_stream_of_something_else_is_refused() {
    let work = Workplace::new();
    let (run, _) = killed_run(&work);
    fs::copy(run.dir.join("raw/process.arrows"), tensor_ops(&run)).unwrap();
    let output = recover(&run);
    assert_refused(&output, "its columns are not those of records", &[]);
    assert!(!text_of(&output).contains("dwell recover"), "that would fail again: {}", text_of(&output));
}
