//! What `/proc` tells of processes, where no program may be loaded: time off the processor and on the run queue, faults, and
//! the bytes of system calls of processes of the same user.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use dwell_host::Root;
use dwell_observe::{ProcessUse, RunQueue};
use dwell_process::process_tree;

use crate::error::KernelError;
use crate::members::cgroup_folder;
use crate::programs::{Chosen, Group};

/// Counters of one process at one moment.
#[derive(Clone, Debug, Default)]
struct Reading {
    start_ticks: u64,
    name: String,
    minor_faults: u64,
    major_faults: u64,
    /// Of processes that belong to somebody else there is none.
    moved: Option<Moved>,
    threads: HashMap<u32, Schedule>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    calls: u64,
    read_bytes: u64,
    written_bytes: u64,
}

/// `/proc/PID/task/TID/schedstat`.
#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    run_ns: u64,
    ready_ns: u64,
    slices: u64,
}

/// Follows processes by reading `/proc` at each interval. What begins and ends within an interval is not seen.
pub(crate) struct ProcessDeltas {
    root: Root,
    chosen: Chosen,
    groups: Vec<Group>,
    earlier: HashMap<u32, Reading>,
    earlier_ns: u64,
}

impl ProcessDeltas {
    /// Takes the first reading.
    pub(crate) fn begin(root: Root, chosen: Chosen, groups: Vec<Group>, at_ns: u64) -> Result<Self, KernelError> {
        let mut deltas = Self { root, chosen, groups, earlier: HashMap::new(), earlier_ns: at_ns };
        let pids = deltas.pids();
        match deltas.chosen {
            Chosen::Process(pid) if pids.is_empty() => return Err(KernelError::NoSuchProcess { pid }),
            Chosen::Cgroup(_) => drop(crate::members::members(&deltas.chosen)?),
            _ => {}
        }
        deltas.earlier = pids.into_iter().filter_map(|pid| Some((pid, deltas.reading(pid)?))).collect();
        Ok(deltas)
    }

    /// What the processes did since the last reading.
    pub(crate) fn take(&mut self, at_ns: u64) -> Vec<ProcessUse> {
        let span_ns = at_ns.saturating_sub(self.earlier_ns);
        let pids = self.pids();
        let readings: HashMap<u32, Reading> =
            pids.into_iter().filter_map(|pid| Some((pid, self.reading(pid)?))).collect();
        let mut processes = BTreeMap::new();
        for (&pid, now) in &readings {
            let earlier = self.earlier.get(&pid).filter(|earlier| earlier.start_ticks == now.start_ticks);
            processes.insert(pid, self.since(pid, now, earlier, span_ns));
        }
        (self.earlier, self.earlier_ns) = (readings, at_ns);
        processes.into_values().collect()
    }

    fn has(&self, group: Group) -> bool {
        self.groups.contains(&group)
    }

    fn since(&self, pid: u32, now: &Reading, earlier: Option<&Reading>, span_ns: u64) -> ProcessUse {
        let none = Reading::default();
        let before = earlier.unwrap_or(&none);
        let mut process =
            ProcessUse { pid, name: now.name.clone(), threads: now.threads.len() as u32, ..ProcessUse::default() };
        if self.has(Group::Sched) {
            let ran = now.threads.iter().map(|(tid, thread)| {
                let before = before.threads.get(tid).copied().unwrap_or_default();
                // A thread that is new since the last reading has no begin.
                let run_ns = thread.run_ns.saturating_sub(before.run_ns);
                let off_ns = if earlier.is_some() { span_ns.saturating_sub(run_ns) } else { 0 };
                (off_ns, thread.ready_ns.saturating_sub(before.ready_ns), thread.slices.saturating_sub(before.slices))
            });
            let (off_ns, ready_ns, slices) =
                ran.fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
            process.off_cpu_ns = Some(off_ns);
            process.run_queue_ns = Some(ready_ns);
            process.switches = Some(slices);
        }
        if self.has(Group::Mem) {
            let minor = now.minor_faults.saturating_sub(before.minor_faults);
            let major = now.major_faults.saturating_sub(before.major_faults);
            process.page_faults = Some(minor + major);
            process.major_faults = Some(major);
        }
        if let Some(moved) = now.moved {
            let before = before.moved.unwrap_or_default();
            process.calls = Some(moved.calls.saturating_sub(before.calls));
            process.read_bytes = Some(moved.read_bytes.saturating_sub(before.read_bytes));
            process.written_bytes = Some(moved.written_bytes.saturating_sub(before.written_bytes));
        }
        process
    }

    fn pids(&self) -> Vec<u32> {
        match &self.chosen {
            Chosen::Process(pid) => process_tree(*pid).iter().map(|line| line.pid).collect(),
            Chosen::Cgroup(path) => pids_in_cgroup(&cgroup_folder(path)),
            Chosen::All | Chosen::Name(_) => numbers_in(&self.root.path("proc")),
        }
    }

    /// The counters of a process; none if it is gone, a thread of the kernel, or not chosen.
    fn reading(&self, pid: u32) -> Option<Reading> {
        let folder = self.root.path(&format!("proc/{pid}"));
        let mut reading = parse_stat(&fs::read_to_string(folder.join("stat")).ok()?)?;
        if matches!(&self.chosen, Chosen::Name(name) if !reading.name.eq(name)) {
            return None;
        }
        if self.has(Group::Sched) {
            let tasks = folder.join("task");
            let thread = |tid: u32| {
                let text = fs::read_to_string(tasks.join(tid.to_string()).join("schedstat")).ok()?;
                Some((tid, parse_schedule(&text)?))
            };
            reading.threads = numbers_in(&tasks).into_iter().filter_map(thread).collect();
        }
        if self.has(Group::Syscalls) {
            reading.moved = fs::read_to_string(folder.join("io")).ok().and_then(|text| parse_io(&text));
        }
        Some(reading)
    }
}

/// Sum of the waits of all processes; how they are spread is not known.
pub(crate) fn run_queue_of(processes: &[ProcessUse]) -> RunQueue {
    let sum = |value: fn(&ProcessUse) -> Option<u64>| processes.iter().filter_map(value).sum();
    RunQueue {
        count: sum(|process| process.switches),
        wait_ns: sum(|process| process.run_queue_ns),
        buckets: Vec::new(),
    }
}

fn numbers_in(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

fn pids_in_cgroup(folder: &Path) -> Vec<u32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let Ok(entries) = fs::read_dir(folder) else { return pids };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        pids.extend(pids_in_cgroup(&entry.path()));
    }
    pids
}

/// Flag of a thread of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

fn parse_stat(text: &str) -> Option<Reading> {
    // The name may hold blanks and brackets.
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    if number(9)? & KERNEL_THREAD != 0 {
        return None;
    }
    Some(Reading {
        name,
        minor_faults: number(10)?,
        major_faults: number(12)?,
        start_ticks: number(22)?,
        ..Reading::default()
    })
}

fn parse_schedule(text: &str) -> Option<Schedule> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    Some(Schedule { run_ns: numbers.next()??, ready_ns: numbers.next()??, slices: numbers.next()?? })
}

fn parse_io(text: &str) -> Option<Moved> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
    Some(Moved {
        calls: value("syscr:")? + value("syscw:")?,
        read_bytes: value("rchar:")?,
        written_bytes: value("wchar:")?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn a_name_with_brackets_and_a_thread_of_the_kernel_are_told_apart() {
        let stat = |name: &str, flags: u64| {
            let rest = "S 1 1 1 0 -1 FLAGS 70 0 8 0 5 6 0 0 20 0 1 0 99 1000 10".replace("FLAGS", &flags.to_string());
            parse_stat(&format!("7 ({name}) {rest}"))
        };
        let reading = stat("a) (b", 0).unwrap();
        assert_eq!((reading.name.as_str(), reading.minor_faults, reading.major_faults), ("a) (b", 70, 8));
        assert_eq!(reading.start_ticks, 99);
        assert!(stat("kworker", KERNEL_THREAD).is_none() && parse_stat("7 (").is_none());
    }

    #[test]
    fn own_faults_are_counted() {
        let own = std::process::id();
        let mut deltas = ProcessDeltas::begin(Root::default(), Chosen::Process(own), Group::ALL.to_vec(), 0).unwrap();
        const PAGES: usize = 2000;
        let memory = std::hint::black_box(vec![1_u8; PAGES * 4096]);
        let processes = deltas.take(1_000_000_000);
        drop(memory);
        let process = processes.iter().find(|process| process.pid == own).unwrap();
        assert!(process.page_faults.unwrap() >= PAGES as u64 / 600, "{process:?}");
        assert!(process.off_cpu_ns.is_some() && process.calls.unwrap() > 0);
    }
}
