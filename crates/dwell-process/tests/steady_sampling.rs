//! The sampling thread. Nothing here depends on how fast the machine is.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod child;

use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use child::Child;
use dwell_events::schema::memory::MemoryRow;
use dwell_process::{Pace, ProcessError, Sampler, SamplerThread};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
#[ignore = "child process of the other tests"]
fn the_child_program() {
    child::run_if_asked();
}

fn own_sampler() -> Sampler {
    Sampler::new(&[("self", std::process::id())]).unwrap()
}

fn quick() -> Pace {
    Pace { interval: Duration::from_millis(1), hand_over_every: Duration::ZERO }
}

fn channel() -> (impl FnMut(&[MemoryRow]) -> ControlFlow<()> + Send + 'static, mpsc::Receiver<MemoryRow>) {
    let (sender, receiver) = mpsc::channel();
    let on_rows = move |rows: &[MemoryRow]| {
        rows.iter().for_each(|row| sender.send(row.clone()).unwrap());
        ControlFlow::Continue(())
    };
    (on_rows, receiver)
}

#[test]
fn every_sample_is_handed_over_in_order_of_time() {
    let (on_rows, received) = channel();
    let sampling = SamplerThread::start(own_sampler(), quick(), on_rows).unwrap();
    let mut rows: Vec<MemoryRow> = (0..20).map(|_| received.recv().unwrap()).collect();
    let summary = sampling.stop();
    rows.extend(received);
    assert_eq!(rows.len() as u64, summary.samples);
    assert!(rows.is_sorted_by(|a, b| a.timestamp_ns < b.timestamp_ns));
    assert!(rows.is_sorted_by(|a, b| a.cpu_ns <= b.cpu_ns));
    assert!(summary.own_cpu_ns > 0 && summary.gone_pids.is_empty());
}

#[test]
fn stopping_takes_a_last_sample_and_does_not_wait_for_the_interval() {
    let (on_rows, received) = channel();
    let sampling = SamplerThread::start(own_sampler(), Pace::every(HOUR), on_rows).unwrap();
    let summary = sampling.stop();
    assert!((1..=2).contains(&summary.samples), "{summary:?}");
    assert_eq!(received.iter().count() as u64, summary.samples);
    assert_eq!(summary.missed, 0);
}

#[test]
fn rows_are_kept_back_until_it_is_time_to_hand_them_over() {
    let (on_rows, received) = channel();
    let pace = Pace { interval: Duration::from_millis(1), hand_over_every: HOUR };
    let sampling = SamplerThread::start(own_sampler(), pace, on_rows).unwrap();
    thread::sleep(Duration::from_millis(20));
    assert!(received.try_recv().is_err());
    assert_eq!(sampling.stop().samples, received.iter().count() as u64);
}

#[test]
fn sampling_ends_by_itself_when_every_process_has() {
    let mut child = Child::start();
    let pid = child.pid();
    let (on_rows, received) = channel();
    let sampler = Sampler::new(&[("child", pid)]).unwrap();
    let sampling = SamplerThread::start(sampler, quick(), on_rows).unwrap();
    received.recv().unwrap();
    child.tell_to_end();
    while received.recv().is_ok() {}
    let summary = sampling.stop();
    assert_eq!(summary.gone_pids, [pid]);
}

#[test]
fn a_receiver_that_breaks_ends_the_sampling() {
    let mut calls = 0;
    let on_rows = move |_: &[MemoryRow]| {
        calls += 1;
        if calls == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let sampling = SamplerThread::start(own_sampler(), quick(), on_rows).unwrap();
    while !sampling.is_finished() {
        thread::yield_now();
    }
    assert_eq!(sampling.stop().samples, 3);
}

#[test]
fn deadlines_that_a_slow_receiver_made_pass_are_counted_as_missed() {
    let (sender, received) = mpsc::channel();
    let on_rows = move |_: &[MemoryRow]| {
        thread::sleep(Duration::from_millis(20));
        sender.send(()).unwrap();
        ControlFlow::Continue(())
    };
    let sampling = SamplerThread::start(own_sampler(), quick(), on_rows).unwrap();
    (0..3).for_each(|_| received.recv().unwrap());
    let summary = sampling.stop();
    assert!(summary.missed >= 2 * 19, "{summary:?}");
}

#[test]
fn an_interval_of_zero_is_refused() {
    let outcome = SamplerThread::start(own_sampler(), Pace::every(Duration::ZERO), |_| ControlFlow::Continue(()));
    assert!(matches!(outcome, Err(ProcessError::ZeroInterval)));
}
