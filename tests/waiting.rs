//! Waiting for what other processes do. The tests of several crates take this file in.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long something that must come is waited for before the test fails.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Waits until something is there.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < LONGEST_WAIT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).unwrap()
}

pub fn send(pid: u32, signal: Signal) {
    kill_process(pid_of(pid), signal).unwrap();
}
