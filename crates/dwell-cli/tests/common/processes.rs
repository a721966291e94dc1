//! Processes that the tests catch at work.

use std::fs;

use super::wait_for;

/// The hidden commands that run a model.
const WORKER_COMMANDS: [&[u8]; 2] = [b"worker", b"capture-worker"];

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
