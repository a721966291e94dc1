//! `dwell verify` and `dwell recover` on a whole results directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use dwell_store::{ManifestRow, ResultsManifest};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Run, Workplace, dwell, text_of, wait_for_end_of};
use crate::live_run::LiveRun;
use crate::models::{slow_model, small_model};
use crate::outcome::{assert_no_panic, assert_partial, state_of};

fn results(work: &Workplace) -> PathBuf {
    work.path().join("results")
}

/// A run of the small model that has come to its end.
fn finished(work: &Workplace, run_id: &str) -> Run {
    let mut command = dwell();
    command.arg("run").arg("--model").arg(small_model()).arg("--output").arg(results(work));
    let output = command.args(["--prompt", "hello", "--max-tokens", "2", "--run-id", run_id]).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    Run { dir: results(work).join("faults-small").join(run_id) }
}

/// A run of the slow model that goes on for longer than any test takes.
fn live(work: &Workplace, run_id: &str) -> LiveRun {
    let said = work.path().join(run_id);
    fs::create_dir(&said).unwrap();
    let mut command = dwell();
    command.arg("run").arg("--model").arg(slow_model()).arg("--output").arg(results(work));
    command.args(["--prompt", "hello", "--ignore-end", "--threads", "1", "--context-length", "8192"]);
    command.args(["--max-tokens", "8000", "--run-id", run_id]);
    let run = Run { dir: results(work).join("faults-slow").join(run_id) };
    let live = LiveRun::start_command(command, &said, run);
    live.wait_for_computations(5);
    live
}

fn killed(work: &Workplace, run_id: &str) -> Run {
    let live = live(work, run_id);
    let worker_pid = live.worker_pid();
    live.signal_observer(Signal::KILL);
    let (run, _) = live.wait();
    wait_for_end_of(worker_pid);
    run
}

/// The command was done with this exit code and, among others, these lines.
fn assert_says(output: &Output, code: i32, lines: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{}", text_of(output));
    assert_no_panic(output);
    let stdout = String::from_utf8_lossy(&output.stdout);
    for line in lines {
        assert!(stdout.lines().any(|found| found.starts_with(line)), "needed the line {line:?}: {}", text_of(output));
    }
}

fn command(verb: &str, path: &Path, arguments: &[&str]) -> Output {
    dwell().arg(verb).arg(path).args(arguments).output().unwrap()
}

fn rows(work: &Workplace) -> Vec<ManifestRow> {
    ResultsManifest::open(&results(work)).rows().unwrap()
}

#[test]
fn a_tree_is_verified_run_by_run_and_against_its_manifest() {
    let work = Workplace::new();
    finished(&work, "one");
    let two = finished(&work, "two");
    let whole = command("verify", &results(&work), &[]);
    assert_says(&whole, 0, &["ok         faults-small/one: ", "2 runs: 2 ok; manifest.csv agrees, 2 rows"]);
    assert_says(
        &command("verify", &results(&work).join("faults-small"), &[]),
        0,
        &["ok         two: ", "2 runs: 2 ok; "],
    );
    fs::write(two.dir.join("metrics.csv"), "changed").unwrap();
    fs::remove_file(two.dir.join("memory.csv")).unwrap();
    killed(&work, "killed");
    fs::create_dir(results(&work).join("other")).unwrap();
    fs::rename(results(&work).join("faults-small/one"), results(&work).join("other/one")).unwrap();
    let damaged = command("verify", &results(&work), &[]);
    let lines = [
        "ok         other/one: ",
        "damaged    faults-small/two: changed metrics.csv; missing memory.csv",
        "unfinished faults-slow/killed: recording",
        "no folder  faults-small/one: ",
        "3 runs: 1 ok, 1 damaged, 1 unfinished; manifest.csv does not agree",
    ];
    assert_says(&damaged, 1, &lines);
    assert!(text_of(&damaged).contains("hint: finish what was killed with `dwell recover '"), "{}", text_of(&damaged));
}

#[test]
fn every_killed_run_of_a_tree_is_recovered_and_the_others_are_let_be() {
    let work = Workplace::new();
    finished(&work, "finished");
    let lost = killed(&work, "lost");
    fs::remove_file(lost.dir.join("raw/run.json")).unwrap();
    let killed = [killed(&work, "killed-1"), killed(&work, "killed-2")];
    let at_work = live(&work, "running");
    let output = command("recover", &results(&work), &[]);
    let lines = [
        "partial   faults-slow/killed-1: ",
        "partial   faults-slow/killed-2: ",
        "failed    faults-slow/lost: recovering found no raw/run.json",
        &format!("at work   faults-slow/running: process {} has not ended", at_work.pid()),
        "2 partial, 1 failed, 1 still at work, 1 finished before",
    ];
    assert_says(&output, 1, &lines);
    killed.iter().for_each(|run| assert_partial(run, &["observer_died"]));
    assert_eq!(state_of(&at_work.run), "recording");
    let states: Vec<(String, String)> = rows(&work).into_iter().map(|row| (row.run_id, row.state)).collect();
    let expected = [("finished", "complete"), ("killed-1", "partial"), ("killed-2", "partial")];
    assert_eq!(states, expected.map(|(run, state)| (run.to_owned(), state.to_owned())));
}

#[test]
fn a_tree_without_killed_runs_has_nothing_to_recover() {
    let work = Workplace::new();
    finished(&work, "one");
    assert_says(&command("recover", &results(&work), &[]), 0, &["nothing to recover: 1 finished before"]);
    let output = command("recover", &results(&work), &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["finished"], report["runs"].as_array().unwrap().len()), (&Value::from(1), 0));
}
