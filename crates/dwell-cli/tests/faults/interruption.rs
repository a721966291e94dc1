//! Ctrl-C and its relatives.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use dwell_events::engine::EngineEvent;
use dwell_records::{Kind, split_frame};
use dwell_ring::Consumer;
use rustix::process::Signal;

use crate::common::{Run, Workplace, send, text_of, wait_for, wait_for_end_of};
use crate::live_run::{HeldManifest, LiveRun, assert_has_all_computed, computed_positions};
use crate::outcome::{
    assert_no_panic, assert_nothing_is_left, assert_partial, assert_refused, has_loss, recover_partial, state_of,
};

/// Interrupts a run at work and checks that it ends in order.
fn assert_ends_in_order(interrupt: impl Fn(&LiveRun)) {
    let work = Workplace::new();
    let live = LiveRun::start(&work, &[]);
    let before = live.wait_for_computations(20);
    interrupt(&live);
    let (run, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert_no_panic(&output);
    assert_partial(&run, &["interrupted"]);
    assert!(!has_loss(&run, "worker_died"), "the worker ended by itself: {:?}", run.losses());
    assert_eq!(run.metadata()["stops"][0]["reason"], "interrupted");
    assert!(run.metadata()["generation"]["generated_tokens"].as_u64().unwrap() > 0);
    assert!(computed_positions(&run).len() >= before);
    assert_has_all_computed(&run);
}

#[test]
fn ctrl_c_in_a_terminal_ends_the_run_in_order() {
    assert_ends_in_order(|live| live.signal_group(Signal::INT));
}

#[test]
fn an_interruption_of_the_observer_alone_reaches_the_worker() {
    assert_ends_in_order(|live| live.signal_observer(Signal::INT));
}

#[test]
fn a_request_to_terminate_ends_the_run_in_order() {
    assert_ends_in_order(|live| live.signal_observer(Signal::TERM));
}

#[test]
fn an_interruption_of_the_worker_alone_is_marked_too() {
    assert_ends_in_order(|live| send(live.worker_pid(), Signal::INT));
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_the_run_is_recovered() {
    let work = Workplace::new();
    let live = LiveRun::start(&work, &[]);
    live.wait_for_computations(20);
    let worker_pid = live.worker_pid();
    // A worker that stands still cannot end in order.
    send(worker_pid, Signal::STOP);
    live.signal_group(Signal::INT);
    wait_for("the answer to the first", || {
        let said = fs::read_to_string(work.path().join("stderr")).unwrap();
        said.contains("interrupted: ").then_some(())
    });
    live.signal_group(Signal::INT);
    let (run, output) = live.wait();
    assert_refused(&output, "ended by the user", &[&format!("dwell recover '{}'", run.dir.display())]);
    wait_for_end_of(worker_pid);
    assert_eq!(state_of(&run), "recording");
    recover_partial(&run);
    assert_partial(&run, &["observer_died"]);
    assert_has_all_computed(&run);
}

#[test]
fn a_worker_that_does_not_stop_is_ended_and_its_run_kept() {
    let work = Workplace::new();
    let live = LiveRun::start(&work, &[]);
    live.wait_for_computations(20);
    let worker_pid = live.worker_pid();
    send(worker_pid, Signal::STOP);
    live.signal_observer(Signal::INT);
    let (run, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    wait_for_end_of(worker_pid);
    assert_partial(&run, &["interrupted", "worker_died"]);
    assert!(run.metadata()["failure"].as_str().unwrap().contains("had not stopped"));
    assert_has_all_computed(&run);
}

#[test]
fn ctrl_c_while_tables_are_built_ends_at_once_and_the_run_is_recovered_without_loss() {
    let work = Workplace::new();
    let live = LiveRun::start_in(&work.path().join("results"), &work, 100, &[]);
    live.wait_for_computations(1);
    let manifest = HeldManifest::of(&live.run);
    wait_for("the tables", || live.run.dir.join("manifest.json").exists().then_some(()));
    assert_eq!(state_of(&live.run), "building");
    live.signal_group(Signal::INT);
    let (run, output) = live.wait();
    assert_refused(&output, "ended by the user", &["dwell recover"]);
    drop(manifest);
    let output = crate::outcome::recover(&run);
    assert_eq!(output.status.code(), Some(0), "all was recorded: {}", text_of(&output));
    assert_eq!(run.metadata()["state"], "complete");
    assert_has_all_computed(&run);
}

/// Events that wait in the ring of a worker, if it has made one.
fn waiting_events(run: &Run, worker_pid: u32) -> Option<Vec<EngineEvent>> {
    let ring = Consumer::open(&run.dir.join(format!("raw/{worker_pid}.ring"))).ok()?;
    let (mut bytes, mut events) = (Vec::new(), Vec::new());
    ring.peek(0, &mut bytes);
    let mut rest = &bytes[..];
    while let Ok(Some((frame, after))) = split_frame(rest) {
        if frame.kind == Kind::Engine as u16 {
            events.push(serde_json::from_slice(frame.payload).unwrap());
        }
        rest = after;
    }
    Some(events)
}

/// A run whose worker was stopped while it loads the model; `None` if it was faster than the test.
fn stopped_while_loading(work: &Workplace) -> Option<LiveRun> {
    // Copying the weights takes longer than mapping them.
    let live = LiveRun::start(work, &["--mmap", "off"]);
    let worker_pid = live.worker_pid();
    wait_for("the ring", || waiting_events(&live.run, worker_pid).map(|_| ()));
    send(worker_pid, Signal::STOP);
    let is_loaded = |event: &EngineEvent| matches!(event, EngineEvent::Loaded { .. });
    let events = waiting_events(&live.run, worker_pid).unwrap();
    (!events.is_empty() && !events.iter().any(is_loaded)).then_some(live)
}

#[test]
fn ctrl_c_while_the_model_loads_leaves_nothing() {
    let (work, live) = wait_for("a run that is caught while it loads", || {
        let work = Workplace::new();
        stopped_while_loading(&work).map(|live| (work, live))
    });
    let worker_pid = live.worker_pid();
    live.signal_group(Signal::INT);
    send(worker_pid, Signal::CONT);
    let (_, output) = live.wait();
    assert_refused(&output, "the run was interrupted before anything was computed", &[]);
    wait_for_end_of(worker_pid);
    assert_nothing_is_left(&work);
}

#[test]
fn ctrl_c_before_the_worker_has_begun_leaves_nothing() {
    let work = Workplace::new();
    let wrapper = work.path().join("never-begins");
    // It keeps its arguments, by which it is known for the worker, and has no child that would outlive it.
    fs::write(&wrapper, "#!/bin/sh\nmkfifo \"$0.pipe\" && read -r line <\"$0.pipe\"\n").unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let model = crate::models::small_model();
    let mut command = work.run_command(&model, &["--prompt", "hello"]);
    command.env("DWELL_WORKER_WRAPPER", &wrapper);
    let live = LiveRun::start_command(command, work.path(), work.opened_run(&model));
    let worker_pid = live.worker_pid();
    live.signal_observer(Signal::INT);
    let (_, output) = live.wait();
    assert_refused(&output, "the run was interrupted before anything was computed", &[]);
    wait_for_end_of(worker_pid);
    assert_nothing_is_left(&work);
}

#[test]
fn a_second_signal_before_anything_is_recorded_leaves_nothing() {
    let work = Workplace::new();
    let live = LiveRun::start(&work, &["--baseline-secs", "60"]);
    wait_for("the run directory", || live.run.dir.join("raw/STATE").exists().then_some(()));
    // Two kinds: the kernel would make one of two that are equal.
    live.signal_observer(Signal::INT);
    live.signal_observer(Signal::TERM);
    let (_, output) = live.wait();
    assert_refused(&output, "before anything was", &[]);
    assert!(!text_of(&output).contains("dwell recover"), "{}", text_of(&output));
    assert!(!work.path().join("results").exists(), "the folder was made for the run");
}
