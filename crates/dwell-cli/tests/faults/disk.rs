//! A disk that is full.

use std::fs;
use std::path::Path;
use std::process::Command;

use dwell_events::schema::Table;
use dwell_store::RawReader;
use dwell_tensors::TensorFile;

use crate::common::{Run, SmallDisk, Workplace, dwell, skip, text_of, wait_for_end_of};
use crate::live_run::{LiveRun, assert_has_all_computed, computed_positions};
use crate::models::{slow_model, small_model};
use crate::outcome::{assert_partial, assert_refused, assert_sealed, has_loss, recover, recover_partial, state_of};

fn assert_streams_are_readable(run: &Run) {
    for stream in ["engine", "tensor_ops", "process"] {
        let reader = RawReader::open(&run.dir.join(format!("raw/{stream}.arrows"))).unwrap();
        reader.for_each(|batch| drop(batch.unwrap()));
    }
}

#[test]
fn a_disk_without_room_for_the_ring_is_refused_before_anything_starts() {
    let Some(disk) = SmallDisk::mount("6m") else {
        return skip("a_disk_without_room_for_the_ring_is_refused_before_anything_starts", "mounting needs root");
    };
    let mut command = dwell();
    command.arg("run").arg("--model").arg(small_model()).arg("--output").arg(disk.path());
    let output = command.args(["--prompt", "hello", "--max-tokens", "2"]).output().unwrap();
    let hint = format!("free space: df -h '{}'", disk.path().display());
    assert_refused(&output, "recording could not begin: the disk has", &[&hint, "or write elsewhere: -o DIR"]);
    assert!(!text_of(&output).contains("dwell recover"), "there is nothing to recover: {}", text_of(&output));
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
}

#[test]
fn a_disk_that_fills_up_while_recording_loses_nothing_that_was_computed() {
    let Some(disk) = SmallDisk::mount("11m") else {
        let name = "a_disk_that_fills_up_while_recording_loses_nothing_that_was_computed";
        return skip(name, "mounting a tmpfs needs root");
    };
    let work = Workplace::new();
    let live = LiveRun::start_in(disk.path(), &work, 8000, &[]);
    let worker_pid = live.worker_pid();
    let (run, output) = live.wait();
    let hint = format!("dwell recover '{}'", run.dir.display());
    assert_refused(&output, "recording stopped: writing a raw batch found no space left", &["df -h", &hint]);
    wait_for_end_of(worker_pid);
    assert_eq!(state_of(&run), "recording");
    assert_streams_are_readable(&run);
    let before = computed_positions(&run).len();
    assert!(before > 0);

    assert_refused(&recover(&run), "found no space left", &["df -h"]);
    disk.remount("size=400m");
    recover_partial(&run);
    assert_partial(&run, &["observer_died"]);
    assert!(!has_loss(&run, "undecodable_records"), "the ring had what the disk could not take: {:?}", run.losses());
    assert!(computed_positions(&run).len() > before);
    assert_has_all_computed(&run);
}

#[test]
fn a_disk_that_fills_up_while_a_command_is_traced_leaves_what_was_recorded_of_it() {
    let Some(disk) = SmallDisk::mount("24m") else {
        let name = "a_disk_that_fills_up_while_a_command_is_traced_leaves_what_was_recorded_of_it";
        return skip(name, "mounting a tmpfs needs root");
    };
    let ballast = disk.path().join("ballast");
    // It computes nothing.
    let script = format!("sleep 1; cat /dev/zero > '{}'; exec sleep 60", ballast.display());
    let mut command = dwell();
    command.args(["trace", "--collect", "process", "--sample-interval-ms", "5", "--baseline-secs", "0"]);
    command.args(["--run-id", "full", "--model-id", "sh", "-o"]).arg(disk.path()).args(["--", "sh", "-c", &script]);
    let output = command.output().unwrap();
    let run = Run { dir: disk.path().join("sh/full") };
    let hint = format!("dwell recover '{}'", run.dir.display());
    assert_refused(&output, "recording stopped: writing a raw batch found no space left", &["df -h", &hint]);
    fs::remove_file(&ballast).unwrap();
    recover_partial(&run);
    assert!(!run.batches(Table::Memory).is_empty());
}

#[test]
fn a_disk_that_fills_up_while_tables_are_built_leaves_the_streams_to_build_them_from() {
    let Some(disk) = SmallDisk::mount("100m") else {
        let name = "a_disk_that_fills_up_while_tables_are_built_leaves_the_streams_to_build_them_from";
        return skip(name, "mounting a tmpfs needs root");
    };
    let work = Workplace::new();
    let live = LiveRun::start_in(disk.path(), &work, 300, &[]);
    let (run, output) = live.wait();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    // Back to the moment at which building began.
    for entry in fs::read_dir(&run.dir).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        fs::remove_file(entry.path()).unwrap();
    }
    let marker = run.dir.join("raw/STATE");
    let text = fs::read_to_string(&marker).unwrap().replace("\"complete\"", "\"building\"");
    fs::write(&marker, text).unwrap();

    let ballast = disk.fill_but(64 << 10);
    let output = recover(&run);
    assert_refused(&output, "building the tables stopped: writing a table found no space left", &["dwell recover"]);
    assert_streams_are_readable(&run);
    let names = fs::read_dir(&run.dir).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
    let unfinished: Vec<String> = names.filter(|name| name.ends_with(".partial")).collect();
    assert!(unfinished.is_empty(), "half a table only takes space: {unfinished:?}");

    fs::remove_file(ballast).unwrap();
    let output = recover(&run);
    assert_eq!(output.status.code(), Some(0), "all was recorded: {}", text_of(&output));
    assert_eq!(state_of(&run), "complete");
    assert_sealed(&run);
    assert_has_all_computed(&run);
}

/// `dwell capture` of everything that the slow model computes for 60 tokens, with checkpoints.
fn capture(path: &Path, arguments: &[&str]) -> Command {
    let mut command = dwell();
    command.arg("capture").arg("--model").arg(slow_model()).arg("-o").arg(path);
    command.args(["--prompt", "hello", "--ignore-end", "--threads", "1", "--max-tokens", "60"]);
    command.args(["--tensors", "*", "--codec", "none", "--checkpoint-every", "5"]).args(arguments);
    command
}

#[test]
fn a_disk_that_fills_up_during_a_capture_leaves_a_stream_that_goes_on_where_it_was() {
    let Some(disk) = SmallDisk::mount("4m") else {
        let name = "a_disk_that_fills_up_during_a_capture_leaves_a_stream_that_goes_on_where_it_was";
        return skip(name, "mounting a tmpfs needs root");
    };
    let (work, path) = (Workplace::new(), disk.path().join("a.tensors"));
    let output = capture(&path, &[]).output().unwrap();
    let recover = format!("dwell tensors recover '{}'", path.display());
    let error = "the capture stopped: writing a tensor stream found no space left";
    assert_refused(&output, error, &["df -h", &recover, "or resume: "]);
    let cut = TensorFile::open(&path).unwrap();
    let kept = format!("{} tensors and {} tokens are safe", cut.packets().len(), cut.tokens().len());
    assert!(!cut.packets().is_empty() && text_of(&output).contains(&kept), "{}", text_of(&output));

    disk.remount("size=400m");
    let output = capture(&path, &["--resume"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    let whole = work.path().join("whole.tensors");
    assert_eq!(capture(&whole, &[]).output().unwrap().status.code(), Some(0));
    let differs = dwell().args(["tensors", "diff"]).args([&whole, &path]).output().unwrap();
    assert_eq!(differs.status.code(), Some(0), "{}", text_of(&differs));
    assert_eq!(TensorFile::open(&path).unwrap().tokens().len(), 60);
}

#[test]
fn a_capture_that_finds_no_room_for_anything_says_that_all_is_lost() {
    let Some(disk) = SmallDisk::mount("8k") else {
        let name = "a_capture_that_finds_no_room_for_anything_says_that_all_is_lost";
        return skip(name, "mounting a tmpfs needs root");
    };
    let path = disk.path().join("a.tensors");
    let mut command = dwell();
    command.arg("capture").arg("--model").arg(small_model()).arg("-o").arg(&path).args(["--prompt", "hello"]);
    let output = command.args(["--tensors", "*", "--codec", "none"]).output().unwrap();
    assert_refused(&output, "the capture stopped: writing a tensor stream found no space left", &["df -h"]);
    let said = text_of(&output);
    assert!(said.contains("all that was computed is lost") && !said.contains("recover"), "{said}");
    assert!(!path.exists());
}
