//! The processes of one trial: all that inherited its mark in their environment, whoever their parent is by now.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Variable that marks the processes of a trial.
pub(crate) const MARK: &str = "DWELL_SOAK_TRIAL";

/// Between two looks at the processes.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Hidden commands of dwell: the processes that a command starts for itself.
const HIDDEN_COMMANDS: [&str; 5] = ["worker", "capture-worker", "planned-run", "guard", "server-worker"];

/// A process of a trial.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// What it does: the command of dwell, or the name of another program.
    pub(crate) role: String,
}

impl Process {
    /// Whether it is dwell itself, not a server or a program that it watches.
    pub(crate) fn is_of_dwell(&self) -> bool {
        fs::read_link(format!("/proc/{}/exe", self.pid)).is_ok_and(|path| path.ends_with("dwell"))
    }
}

/// The most memory that a process has had.
pub(crate) fn peak_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// All living processes with this mark; one that has ended and was not waited for is none.
pub(crate) fn marked(mark: &str) -> Vec<Process> {
    let wanted = format!("{MARK}={mark}");
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| has_variable(pid, wanted.as_bytes())).map(|pid| Process { pid, role: role(pid) }).collect()
}

fn has_variable(pid: u32, wanted: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| all.split(|&byte| byte == 0).any(|one| one == wanted))
}

fn role(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    let program = words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let hidden = words.iter().skip(1).take(2).find(|word| HIDDEN_COMMANDS.contains(&word.as_ref()));
    match (program, hidden) {
        ("dwell", Some(hidden)) => hidden.clone().into_owned(),
        ("dwell", None) => {
            words.iter().skip(1).find(|word| !word.starts_with('-')).map_or_else(String::new, |word| word.to_string())
        }
        _ => program.to_owned(),
    }
}

/// Sends a signal. A process that has ended meanwhile needs none.
pub(crate) fn signal(pid: u32, signal: Signal) -> bool {
    Pid::from_raw(pid.cast_signed()).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// Waits until no process of a trial is left; those that are after this long.
pub(crate) fn left_after(mark: &str, longest: Duration) -> Vec<Process> {
    let deadline = Instant::now() + longest;
    loop {
        let left = marked(mark);
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Ends what is left of a trial.
pub(crate) fn end_all(mark: &str) {
    for process in marked(mark) {
        signal(process.pid, Signal::KILL);
    }
}
