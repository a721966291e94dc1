//! The observer stops taking records: the worker waits for it, and nothing is lost.

use dwell_gguf::MakeSpec;
use dwell_ring::{Consumer, file_name};
use rustix::process::Signal;

use crate::common::{Workplace, wait_for};
use crate::live_run::{LiveRun, assert_has_all_computed};
use crate::outcome::assert_sealed;

/// Less room than this is none: a step needs more.
const NO_ROOM_BYTES: usize = 8192;

#[test]
fn a_full_ring_makes_the_worker_wait_and_loses_nothing() {
    let work = Workplace::new();
    // Many small layers: much to record in little time.
    let model = work.model(MakeSpec {
        layers: 32,
        embedding: 32,
        heads: 2,
        kv_heads: 1,
        feed_forward: 32,
        ..MakeSpec::default()
    });
    let arguments = ["--prompt", "hello", "--ignore-end", "--context-shift", "--max-tokens", "1000000"];
    let live = LiveRun::start_command(work.run_command(&model, &arguments), work.path(), work.opened_run(&model));
    live.wait_for_computations(5);
    let ring_path = live.run.dir.join("raw").join(file_name(live.worker_pid()));
    live.signal_observer(Signal::STOP);
    let ring = Consumer::open(&ring_path).unwrap();
    let is_full = || ring.capacity_bytes() - ring.waiting_bytes() < NO_ROOM_BYTES;
    wait_for("a full ring", || is_full().then_some(()));
    live.signal_observer(Signal::CONT);
    wait_for("room in the ring", || (!is_full()).then_some(()));
    live.signal_observer(Signal::INT);
    let (run, output) = live.wait();
    assert_eq!(output.status.code(), Some(1), "it was interrupted");
    assert!(run.metadata()["observer_effect"]["worker_blocked_ns"].as_u64().unwrap() > 0);
    let losses = run.losses();
    assert!(losses.iter().all(|(kind, _)| kind != "undecodable_records"), "{losses:?}");
    assert_has_all_computed(&run);
    assert_sealed(&run);
}
