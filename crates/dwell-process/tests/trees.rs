//! Trees of processes that take, share and give back known amounts.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod child;
#[path = "../../../tests/skip.rs"]
mod skip;

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use child::{Child, MIB, PAGE_BYTES};
use dwell_clock::monotonic_ns;
use dwell_events::schema::memory::MemoryRow;
use dwell_process::{
    Pace, ProcessError, RollupPolicy, Sampler, SamplerThread, find_processes, process_name, total_label,
};
use skip::skip;

const LABEL: &str = "tree";
/// More than the program of the child and its libraries take.
const PROGRAM_BYTES: u64 = 8 * MIB;

#[test]
#[ignore = "child process of the other tests"]
fn the_child_program() {
    child::run_if_asked();
}

/// One sample: rows of processes, and the total.
struct Tree {
    processes: Vec<MemoryRow>,
    total: MemoryRow,
}

impl Tree {
    fn of(mut rows: Vec<MemoryRow>) -> Self {
        let total = rows.pop().unwrap();
        assert_eq!((total.label.as_str(), total.pid), ("tree:total", 0));
        assert!(rows.iter().all(|row| row.label == LABEL && row.pid > 0));
        Self { processes: rows, total }
    }

    fn take(sampler: &mut Sampler) -> Self {
        let mut rows = Vec::new();
        sampler.sample_into(&mut rows);
        Self::of(rows)
    }

    fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(|row| row.pid).collect()
    }
}

fn tree_sampler(child: &Child) -> Sampler {
    let mut sampler = Sampler::empty().with_rollup_policy(RollupPolicy::always());
    sampler.watch_tree(LABEL, child.pid()).unwrap();
    sampler
}

/// One page, as kernels from 6.16 on count; before, they did not sum up their per-CPU counters.
fn tolerance_bytes() -> u64 {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    let cpus = thread::available_parallelism().unwrap().get() as u64;
    if version >= (6, 16) { PAGE_BYTES } else { PAGE_BYTES + cpus * 32 * PAGE_BYTES }
}

/// A child that has carried out every order once, so that its own code and stack are in memory already.
fn practised_child() -> Child {
    let mut child = Child::start();
    for order in ["private 1", "fork 0", "end_fork", "unmap", "file 1", "unmap", "shared 1", "unmap"] {
        child.ask(order);
    }
    child
}

/// What a step changes, in mebibytes: anonymous, of files, shared, and of the proportional total.
struct Step {
    order: &'static str,
    processes: usize,
    changes: [i64; 3],
    pss_mib: i64,
    /// Copies of the first process that it adds, with all that is anonymous.
    copies: i64,
}

/// What a copy writes becomes its own.
const STEPS: [Step; 9] = [
    Step { order: "private 64", processes: 1, changes: [64, 0, 0], pss_mib: 64, copies: 0 },
    Step { order: "file 24", processes: 1, changes: [0, 24, 0], pss_mib: 24, copies: 0 },
    Step { order: "unmap", processes: 1, changes: [0, -24, 0], pss_mib: -24, copies: 0 },
    Step { order: "shared 16", processes: 1, changes: [0, 0, 16], pss_mib: 16, copies: 0 },
    Step { order: "unmap", processes: 1, changes: [0, 0, -16], pss_mib: -16, copies: 0 },
    Step { order: "fork 0", processes: 2, changes: [0, 0, 0], pss_mib: 0, copies: 1 },
    Step { order: "end_fork", processes: 1, changes: [0, 0, 0], pss_mib: 0, copies: -1 },
    Step { order: "fork 40", processes: 2, changes: [0, 0, 0], pss_mib: 40, copies: 1 },
    Step { order: "end_fork", processes: 1, changes: [0, 0, 0], pss_mib: -40, copies: -1 },
];

#[test]
fn every_change_is_in_the_first_sample_after_it_to_the_page() {
    let mut child = practised_child();
    let (sender, samples) = mpsc::channel();
    let on_rows = move |rows: &[MemoryRow]| match sender.send(rows.to_vec()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    let pace = Pace { interval: Duration::from_millis(5), hand_over_every: Duration::ZERO };
    let sampling = SamplerThread::start(tree_sampler(&child), pace, on_rows).unwrap();
    let first_since = |since_ns: u64| {
        let mut later = samples.iter().map(Tree::of).filter(|tree| tree.processes[0].timestamp_ns >= since_ns);
        later.next().unwrap()
    };
    let mut before = first_since(monotonic_ns());
    for step in STEPS {
        child.ask(step.order);
        let after = first_since(monotonic_ns());
        check(&step, &before, &after);
        before = after;
    }
    assert_eq!(sampling.stop().gone_pids.len(), 2);
}

fn check(step: &Step, before: &Tree, after: &Tree) {
    let Step { order, processes, changes: [anon, file, shmem], pss_mib, copies } = *step;
    assert_eq!(after.processes.len(), processes, "{order}");
    let changed = |value: fn(&MemoryRow) -> Option<u64>, mib: i64, more_bytes: i64, slack_bytes: u64| {
        let changed = value(&after.total).unwrap() as i64 - value(&before.total).unwrap() as i64;
        let error = (changed - mib * MIB as i64 - more_bytes).unsigned_abs();
        assert!(error <= slack_bytes, "{order}: changed by {changed}, {error} bytes off, {slack_bytes} are allowed");
    };
    let copied = copies * before.processes[0].anon_bytes.unwrap() as i64;
    assert!(copies == 0 || copied.unsigned_abs() >= 64 * MIB);
    changed(|row| row.anon_bytes, anon, copied, tolerance_bytes());
    changed(|row| row.shmem_bytes, shmem, 0, tolerance_bytes());
    // Of its program and libraries a copy maps only what it uses.
    changed(|row| row.file_bytes, file, 0, tolerance_bytes() + if copies == 0 { 0 } else { PROGRAM_BYTES });
    // Others share them, and come and go.
    changed(|row| row.pss_bytes, pss_mib, 0, PROGRAM_BYTES);
}

#[test]
fn shared_pages_count_once_in_the_proportional_total_and_in_each_process_in_the_resident() {
    let mut child = practised_child();
    child.ask("private 64");
    (0..3).for_each(|_| drop(child.ask("fork 0")));
    let tree = Tree::take(&mut tree_sampler(&child));
    assert_eq!(tree.processes.len(), 4);
    let resident: u64 = tree.processes.iter().map(|row| row.rss_bytes).sum();
    assert_eq!(tree.total.rss_bytes, resident);
    assert!(resident >= 4 * 64 * MIB);
    let pss_bytes = tree.total.pss_bytes.unwrap();
    assert!((64 * MIB..64 * MIB + 8 * MIB).contains(&pss_bytes), "{pss_bytes}");
    assert_eq!(tree.total.uss_bytes.unwrap(), tree.processes.iter().map(|row| row.uss_bytes.unwrap()).sum::<u64>());
}

#[test]
fn descendants_that_are_there_and_that_come_later_are_followed_also_as_orphans() {
    let mut child = Child::start();
    let first: u32 = child.ask("fork 0").parse().unwrap();
    let mut sampler = tree_sampler(&child);
    assert_eq!(Tree::take(&mut sampler).pids(), [child.pid(), first]);
    let grandchild: u32 = child.ask("fork_in_fork 0").parse().unwrap();
    assert_eq!(Tree::take(&mut sampler).processes.len(), 4);
    // Its parent ends, and somebody else becomes its parent.
    child.ask("end_fork");
    let tree = Tree::take(&mut sampler);
    assert_eq!(tree.pids(), [child.pid(), first, grandchild]);
    end(grandchild);
    while sampler_has(&mut sampler, grandchild) {
        thread::yield_now();
    }
    child.tell_to_end();
    child.wait();
    let mut rows = Vec::new();
    sampler.sample_into(&mut rows);
    assert!(!sampler.are_all_gone(), "the first fork outlives its parent");
    end(first);
    while !sampler.are_all_gone() {
        sampler.sample_into(&mut rows);
        thread::yield_now();
    }
}

fn sampler_has(sampler: &mut Sampler, pid: u32) -> bool {
    Tree::take(sampler).pids().contains(&pid)
}

fn end(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn counters_of_the_total_never_go_back_when_a_process_ends() {
    let mut child = Child::start();
    let mut sampler = tree_sampler(&child);
    child.ask("fork 0");
    let with_fork = Tree::take(&mut sampler);
    child.ask("end_fork");
    let without = Tree::take(&mut sampler);
    assert_eq!(without.processes.len(), 1);
    assert!(without.total.minor_faults >= with_fork.total.minor_faults);
    assert!(without.total.cpu_ns >= with_fork.total.cpu_ns && without.total.cpu_pct.unwrap() >= 0.0);
    assert!(without.total.rss_bytes < with_fork.total.rss_bytes);
}

#[test]
fn a_root_is_added_from_another_thread_and_the_thread_waits_for_the_first() {
    let mut child = Child::start();
    let (sender, rows) = mpsc::channel();
    let on_rows = move |rows: &[MemoryRow]| {
        rows.iter().for_each(|row| drop(sender.send(row.clone())));
        ControlFlow::Continue(())
    };
    let pace = Pace { interval: Duration::from_millis(1), hand_over_every: Duration::ZERO };
    let sampling = SamplerThread::start(Sampler::empty(), pace, on_rows).unwrap();
    let handle = sampling.handle();
    let pid = child.pid();
    thread::spawn(move || handle.add_root(LABEL, pid).unwrap()).join().unwrap();
    assert_eq!(rows.recv().unwrap().pid, pid);
    assert_eq!(rows.recv().unwrap().label, total_label(LABEL));
    let no_such = sampling.handle().add_root(LABEL, 4_194_305);
    assert!(matches!(no_such, Err(ProcessError::NoSuchProcess { .. })));
    child.tell_to_end();
    while !sampling.is_finished() {
        thread::yield_now();
    }
    let too_late = sampling.handle().add_process("self", std::process::id());
    assert!(matches!(too_late, Err(ProcessError::SamplingEnded { .. })));
    assert_eq!(sampling.stop().gone_pids, [pid]);
}

#[test]
fn an_id_that_another_program_was_given_brings_neither_it_nor_its_children_into_the_tree() {
    let name = "an_id_that_another_program_was_given_brings_neither_it_nor_its_children_into_the_tree";
    let mut child = Child::start();
    let member: u32 = child.ask("fork 0").parse().unwrap();
    let mut sampler = tree_sampler(&child);
    assert_eq!(Tree::take(&mut sampler).processes.len(), 2);
    child.ask("end_fork");
    // The shell has a child of its own, so that a parent with a member's id is found too.
    let stranger = match start_with_id(member, &["sh", "-c", "sleep 1000 & wait"]) {
        Ok(stranger) => stranger,
        Err(reason) => return skip(name, &reason),
    };
    while stranger.children().is_empty() {
        thread::yield_now();
    }
    for _ in 0..3 {
        assert_eq!(Tree::take(&mut sampler).pids(), [child.pid()]);
    }
}

/// Another program; it and its children end with this value.
struct Stranger(std::process::Child);

impl Stranger {
    fn children(&self) -> Vec<u32> {
        let pid = self.0.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Starts a program whose process has this id, which must be free.
fn start_with_id(pid: u32, words: &[&str]) -> Result<Stranger, String> {
    for _ in 0..1000 {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())
            .map_err(|error| format!("the next process id cannot be chosen here: {error}"))?;
        let mut command = Command::new(words[0]);
        let process = command.args(&words[1..]).process_group(0).stdout(Stdio::null()).spawn().unwrap();
        let stranger = Stranger(process);
        if stranger.0.id() == pid {
            return Ok(stranger);
        }
    }
    Err("others took the process id every time".to_owned())
}

#[test]
fn a_group_counts_once_in_the_total_however_many_processes_are_in_it() {
    let mut child = Child::start();
    child.ask("fork 0");
    let tree = Tree::take(&mut tree_sampler(&child));
    let [first, second] = &tree.processes[..] else { panic!("two processes") };
    let Some(bytes) = first.cgroup_bytes else {
        let name = "a_group_counts_once_in_the_total_however_many_processes_are_in_it";
        return skip(name, "the tests run in the root control group");
    };
    assert!(bytes > 0);
    assert_eq!((second.cgroup_bytes, tree.total.cgroup_bytes), (Some(bytes), Some(bytes)));
}

#[test]
fn a_process_is_found_by_its_command_line_and_the_one_that_looks_is_not() {
    let mark = format!("found-{}", std::process::id());
    // It has no child, which for a moment would have its command line too.
    let mut sleeper = Command::new("sh").args(["-c", "read line", &mark]).stdin(Stdio::piped()).spawn().unwrap();
    let looks_like = |text: &str| find_processes(text).unwrap().iter().map(|process| process.pid).collect::<Vec<_>>();
    while looks_like(&mark).is_empty() {
        thread::yield_now();
    }
    assert_eq!(looks_like(&mark.to_uppercase()), [sleeper.id()]);
    let own = std::env::args().next().unwrap();
    assert!(!looks_like(&own).contains(&std::process::id()));
    let parent = std::os::unix::process::parent_id();
    assert!(!looks_like("").contains(&parent));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn a_process_that_becomes_another_program_gets_its_name() {
    let mut command = Command::new("sh");
    let mut shell =
        command.args(["-c", "read line; exec sleep 600"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pid = shell.id();
    let mut sampler = Sampler::empty();
    sampler.watch_tree("x", pid).unwrap();
    let sampling =
        SamplerThread::start(sampler, Pace::every(Duration::from_millis(1)), |_| ControlFlow::Continue(())).unwrap();
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    while process_name(pid).as_deref() != Some("sleep") {
        thread::sleep(Duration::from_millis(1));
    }
    let names = sampling.stop().names;
    shell.kill().unwrap();
    shell.wait().unwrap();
    let found: Vec<(u32, &str)> = names.iter().map(|found| (found.pid, found.name.as_str())).collect();
    assert_eq!(found, [(pid, "sleep")]);
}
