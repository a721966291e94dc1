//! The worker dies while it generates.

use rustix::process::Signal;

use crate::common::{Workplace, send, text_of};
use crate::live_run::{LiveRun, assert_has_all_computed, computed_positions};
use crate::models::small_model;
use crate::outcome::{assert_no_panic, assert_partial};

#[test]
fn what_a_killed_worker_computed_becomes_a_partial_run() {
    let work = Workplace::new();
    let live = LiveRun::start(&work, &[]);
    let before = live.wait_for_computations(20);
    send(live.worker_pid(), Signal::KILL);
    let (run, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_no_panic(&output);
    assert!(String::from_utf8_lossy(&output.stdout).contains("worker ended by signal 9 (SIGKILL)"));
    assert_partial(&run, &["worker_died"]);
    assert!(computed_positions(&run).len() >= before);
    assert_has_all_computed(&run);
}

#[test]
fn what_a_killed_worker_did_untraced_is_kept_too() {
    let work = Workplace::new();
    let live = LiveRun::start(&work, &["--collect", "process"]);
    let before = live.wait_for_computations(20);
    send(live.worker_pid(), Signal::KILL);
    let (run, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_partial(&run, &["worker_died"]);
    let tokens: usize = run.batches(dwell_events::schema::Table::Tokens).iter().map(|batch| batch.num_rows()).sum();
    assert!(tokens >= before, "{tokens} tokens, {before} were computed before the kill");
}

#[test]
fn an_engine_that_fails_after_computing_leaves_a_partial_run_and_says_what_to_do() {
    let work = Workplace::new();
    let actions = work.path().join("actions.json");
    let long = "word ".repeat(300);
    let list = serde_json::json!([
        {"do": "prompt", "text": "hello", "sequences": [0]},
        {"do": "generate", "max_tokens": 3, "sequences": [0]},
        {"do": "prompt", "text": long, "sequences": [0]},
    ]);
    std::fs::write(&actions, list.to_string()).unwrap();
    let model = small_model();
    let output = work.run_command(&model, &["--actions", actions.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("positions are needed"), "{}", text_of(&output));
    let hint = "hint: use a larger --context-length or a shorter prompt";
    assert!(String::from_utf8_lossy(&output.stderr).lines().any(|line| line == hint), "{}", text_of(&output));
    let run = work.opened_run(&model);
    assert_partial(&run, &["worker_died"]);
    assert_has_all_computed(&run);
}
