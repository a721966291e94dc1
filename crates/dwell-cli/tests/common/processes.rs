//! Processes that the tests catch at work.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long something that must come is waited for before the test fails.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// The hidden commands that run a model.
const WORKER_COMMANDS: [&[u8]; 2] = [b"worker", b"capture-worker"];

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

/// The worker of an observer, if it runs already. An observer may have other children for a moment.
pub fn worker_of(observer: u32) -> Option<u32> {
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (parent_and_state(pid)?.0 == observer && is_worker(pid)).then_some(pid)
    })
}

fn is_worker(pid: u32) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|&byte| byte == 0).skip(1).any(|word| WORKER_COMMANDS.contains(&word))
}

/// Parent and state letter of a process.
fn parent_and_state(pid: u32) -> Option<(u32, char)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold spaces and parentheses.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}

/// Waits until a process has ended; it may stay as a zombie where nobody waits for orphans.
pub fn wait_for_end_of(pid: u32) {
    wait_for("the end of a process", || parent_and_state(pid).is_none_or(|(_, state)| state == 'Z').then_some(()));
}
