//! What the programs count, against what was done and what the kernel itself counts.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use aya::programs::loaded_programs;
use dwell_kernel::{Chosen, Group, KernelError, KernelTrace, Observer, ObserverOptions, TraceOptions};
use dwell_observe::{Line, ProcessUse, SourceKind};
use skip::skip;

const BLOCK_BYTES: usize = 4096;
/// Long enough for any machine that does other work too.
const PATIENCE: Duration = Duration::from_secs(120);

fn options(groups: &[Group], chosen: Chosen) -> ObserverOptions {
    ObserverOptions { groups: groups.to_vec(), chosen, labels: BTreeMap::new(), uses_programs: true }
}

/// An observer with programs, or a note that this user may not have one.
fn observer(test: &str, groups: &[Group], chosen: Chosen) -> Option<Observer> {
    let observer = Observer::begin(options(groups, chosen)).unwrap();
    match observer.refusal() {
        None => Some(observer),
        Some(reason) => {
            skip(test, &reason.to_string());
            None
        }
    }
}

fn own() -> Chosen {
    Chosen::Process(std::process::id())
}

/// What a process did over all lines.
fn uses(lines: &[Line], pid: u32) -> impl Iterator<Item = &ProcessUse> {
    lines
        .iter()
        .flat_map(|line| line.processes.as_deref().unwrap_or_default())
        .filter(move |process| process.pid == pid)
}

fn assert_within(found: f64, expected: f64, share: f64, what: &str) {
    assert!((found - expected).abs() <= expected * share, "{what}: {found}, expected {expected}");
}

/// Reads and writes blocks of a file at random places, past the page cache.
fn random_io(file: &File, requests: usize) {
    let blocks = file.metadata().unwrap().len() / BLOCK_BYTES as u64;
    let mut memory = vec![0_u8; 2 * BLOCK_BYTES];
    let begin = memory.as_ptr().align_offset(BLOCK_BYTES);
    let buffer = &mut memory[begin..begin + BLOCK_BYTES];
    let mut random = 12345_u64;
    for number in 0..requests {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let at = (random >> 33) % blocks * BLOCK_BYTES as u64;
        match number % 4 {
            0 => file.write_all_at(buffer, at).unwrap(),
            _ => file.read_exact_at(buffer, at).unwrap(),
        }
    }
}

#[test]
fn block_requests_and_bytes_are_those_of_diskstats_and_none_stays_in_flight() {
    const TEST: &str = "block_requests_and_bytes_are_those_of_diskstats_and_none_stays_in_flight";
    const REQUESTS: usize = 8000;
    const FILE_BYTES: usize = 32 << 20;
    let Some(mut observer) = observer(TEST, &[Group::Disk], Chosen::All) else { return };
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = place.path().join("data");
    fs::write(&path, vec![7; FILE_BYTES]).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let opened = OpenOptions::new().read(true).write(true).custom_flags(direct).open(&path);
    let Ok(file) = opened else { return skip(TEST, "this file system has no direct access") };
    observer.read().unwrap();
    let before = observer.read().unwrap();
    random_io(&file, REQUESTS);
    file.sync_all().unwrap();
    let line = observer.read().unwrap();
    let traced = line.latency_histogram.unwrap();
    let kernel = line.disks.unwrap();
    let reads = |device: u32| {
        let device = traced.iter().find(|traced| traced.device_id == device)?;
        let sum = |name: &str| device.operations.iter().find(|operation| operation.operation == name).cloned();
        Some((sum("read").unwrap_or_default(), sum("write").unwrap_or_default()))
    };
    let Some(disk) = kernel.iter().filter(|disk| reads(disk.device_id).is_some()).max_by_key(|disk| disk.reads) else {
        return skip(TEST, "the file lies on no disk of this machine");
    };
    let (read, written) = reads(disk.device_id).unwrap();
    assert!(disk.reads >= REQUESTS as u64 * 3 / 4, "{disk:?}");
    assert_within(read.requests as f64, disk.reads as f64, 0.01, "reads");
    assert_within(read.bytes as f64, disk.read_bytes as f64, 0.01, "bytes read");
    let writes = disk.writes - disk.flushes.min(disk.writes);
    assert_within(written.requests as f64, writes as f64, 0.01, "writes");
    assert_within(written.bytes as f64, disk.written_bytes as f64, 0.01, "bytes written");
    let in_slots: u64 = read.buckets.iter().map(|bucket| bucket.count).sum();
    assert_within(in_slots as f64, read.requests as f64, 0.01, "latencies");
    let is_none = |line: &Line| {
        line.inflight.iter().flatten().all(|device| device.device_id != disk.device_id || device.count == 0)
    };
    let until = Instant::now() + PATIENCE;
    // Others may use the disk: there is a moment at which nobody does.
    while !is_none(&observer.read().unwrap()) {
        assert!(Instant::now() < until, "requests stay in flight");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(before.inflight.is_some());
}

#[test]
fn a_sleeper_is_off_the_processor_for_as_long_as_it_sleeps() {
    const TEST: &str = "a_sleeper_is_off_the_processor_for_as_long_as_it_sleeps";
    let Some(mut observer) = observer(TEST, &[Group::Sched], own()) else { return };
    let mut child = Command::new("sleep").arg("2").spawn().unwrap();
    let mut lines = Vec::new();
    // Several intervals, so that the sleep is charged to each of them.
    while child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(300));
        lines.push(observer.read().unwrap());
    }
    lines.push(observer.read().unwrap());
    let slept = |process: &ProcessUse| process.off_cpu_ns.unwrap().saturating_sub(process.run_queue_ns.unwrap());
    let slept_s = uses(&lines, child.id()).map(slept).sum::<u64>() as f64 / 1e9;
    assert_within(slept_s, 2.0, 0.01, "time asleep");
    // No interval has more than it is long.
    for line in &lines[1..] {
        let most_ns = (line.interval_s * 1e9) as u64 + 1_000_000;
        let own = line.processes.iter().flatten().find(|process| process.pid == child.id());
        assert!(own.is_none_or(|process| process.off_cpu_ns.unwrap() <= most_ns), "{own:?}");
    }
}

const SLEEPERS: usize = 60;
const NAP: Duration = Duration::from_millis(50);

#[test]
#[ignore = "child process of no_interval_of_a_sleeper_goes_by_without_its_sleep"]
fn naps() {
    loop {
        thread::sleep(NAP);
    }
}

/// A kernel that runs no program at some switches makes a return from sleep go by unseen, now and then.
#[test]
fn no_interval_of_a_sleeper_goes_by_without_its_sleep() {
    const TEST: &str = "no_interval_of_a_sleeper_goes_by_without_its_sleep";
    let Some(mut observer) = observer(TEST, &[Group::Sched], own()) else { return };
    let nap = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--test-threads", "1", "naps"]).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    let mut sleepers: Vec<Child> = (0..SLEEPERS).map(|_| nap()).collect();
    // Their beginning computes.
    thread::sleep(Duration::from_secs(1));
    observer.read().unwrap();
    let lines: Vec<Line> = (0..20)
        .map(|_| {
            thread::sleep(Duration::from_millis(150));
            observer.read().unwrap()
        })
        .collect();
    for child in &mut sleepers {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for (line, child) in lines.iter().flat_map(|line| sleepers.iter().map(move |child| (line, child))) {
        let process = uses(std::slice::from_ref(line), child.id()).next().unwrap();
        // The test and the thread that waits for it.
        let asleep_ns = f64::from(process.threads) * line.interval_s * 1e9;
        assert!(process.threads > 1 && process.off_cpu_ns.unwrap() as f64 > 0.95 * asleep_ns, "{line:?} {process:?}");
    }
}

const PAGES_TO_TOUCH: &str = "DWELL_TEST_PAGES";

#[test]
#[ignore = "child process of faults_of_touched_pages_are_counted"]
fn touches_pages() {
    let pages: usize = std::env::var(PAGES_TO_TOUCH).unwrap().parse().unwrap();
    // Larger than any block that is given out again, so it is fresh memory in both cases.
    let mut memory = Vec::<u8>::with_capacity(100_000 * BLOCK_BYTES);
    for page in 0..pages {
        memory.spare_capacity_mut()[page * BLOCK_BYTES].write(1);
    }
    std::hint::black_box(&memory);
}

#[test]
fn faults_of_touched_pages_are_counted() {
    const TEST: &str = "faults_of_touched_pages_are_counted";
    const PAGES: usize = 50_000;
    /// Pages of tables, stacks and libraries, which differ from one run of a program to the next.
    const NOISE: f64 = 60.0;
    let huge = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if huge.contains("[always]") {
        return skip(TEST, "the kernel gives huge pages, which one fault touches");
    }
    let Some(mut observer) = observer(TEST, &[Group::Mem], own()) else { return };
    let mut faults = |pages: usize| {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "touches_pages"])
            .env(PAGES_TO_TOUCH, pages.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        assert!(child.wait().unwrap().success());
        let line = observer.read().unwrap();
        uses(&[line], child.id()).map(|process| (process.page_faults.unwrap(), process.write_faults.unwrap())).next()
    };
    let (none, all) = (faults(0).unwrap(), faults(PAGES).unwrap());
    let difference = |all: u64, none: u64| (all as f64 - none as f64 - PAGES as f64).abs();
    assert!(difference(all.0, none.0) <= NOISE, "{all:?} {none:?}");
    assert!(difference(all.1, none.1) <= NOISE, "{all:?} {none:?}");
}

#[test]
fn bytes_and_calls_of_a_copy_are_exact() {
    const TEST: &str = "bytes_and_calls_of_a_copy_are_exact";
    let Some(mut observer) = observer(TEST, &[Group::Syscalls], own()) else { return };
    let mut child = Command::new("dd")
        .args(["if=/dev/zero", "of=/dev/null", "bs=4096", "count=1000", "status=none"])
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
    let line = observer.read().unwrap();
    let calls = line.syscalls.clone().unwrap();
    let write = calls.iter().find(|call| call.syscall == "write").unwrap();
    assert!(write.count >= 1000 && write.buckets.iter().map(|bucket| bucket.count).sum::<u64>() == write.count);
    let lines = [line];
    let process = uses(&lines, child.id()).next().unwrap();
    assert_eq!((process.name.as_str(), process.written_bytes), ("dd", Some(1000 * 4096)));
    assert!(process.read_bytes.unwrap() >= 1000 * 4096);
}

#[test]
fn bytes_sent_by_tcp_are_charged_to_who_sends_and_receives_them() {
    const TEST: &str = "bytes_sent_by_tcp_are_charged_to_who_sends_and_receives_them";
    const BYTES: usize = 3 << 20;
    let Some(mut observer) = observer(TEST, &[Group::Net], own()) else { return };
    if observer.sources()["net"].source != SourceKind::Ebpf {
        return skip(TEST, "this kernel has no tracepoints of what sockets send");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let sending = thread::spawn(move || sender.write_all(&vec![1; BYTES]).unwrap());
    let mut received = Vec::new();
    receiver.read_to_end(&mut received).unwrap();
    sending.join().unwrap();
    let lines = [observer.read().unwrap()];
    let process = uses(&lines, std::process::id()).next().unwrap();
    let found = (process.tcp_sent_bytes, process.tcp_received_bytes);
    assert_eq!(found, (Some(BYTES as u64), Some(received.len() as u64)));
}

#[test]
fn pressure_is_the_kernels_own() {
    let mut observer = Observer::begin(options(&[Group::Psi], Chosen::All)).unwrap();
    let total = || {
        let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
        text.lines().next()?.split("total=").nth(1)?.trim().parse::<u64>().ok()
    };
    let Some(before) = total() else {
        return skip("pressure_is_the_kernels_own", "the kernel has no pressure stall information");
    };
    let line = observer.read().unwrap();
    let found = line.pressure.unwrap()["cpu"]["some"];
    assert!((before..=total().unwrap()).contains(&found.total), "{found:?}");
    assert!(found.stalled_us.is_some());
}

#[test]
#[ignore = "child process of nothing_stays_attached_after_a_kill"]
fn attaches_and_waits() {
    let trace = KernelTrace::attach(&TraceOptions::default()).unwrap();
    println!("attached {}", trace.began_ns());
    let _ = std::io::stdin().read(&mut [0]);
}

/// Programs in the kernel by their number: those that a process of dwell loaded have the names of tracepoints.
fn program_ids() -> Vec<u32> {
    let named = |name: &str| ["sched_switch", "block_rq_issue", "sys_enter"].contains(&name);
    let programs = loaded_programs().filter_map(Result::ok);
    programs.filter(|program| program.name_as_str().is_some_and(named)).map(|program| program.id()).collect()
}

/// A process that has attached the programs.
fn attached_child() -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "attaches_and_waits"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("attached")), "the child could not attach");
    child
}

#[test]
fn nothing_stays_attached_after_a_kill() {
    const TEST: &str = "nothing_stays_attached_after_a_kill";
    if let Err(error) = KernelTrace::attach(&TraceOptions::default()) {
        return skip(TEST, &error.to_string());
    }
    let before = program_ids();
    let mut child = attached_child();
    let attached: Vec<u32> = program_ids().into_iter().filter(|id| !before.contains(id)).collect();
    assert!(attached.len() >= 3, "{attached:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let until = Instant::now() + PATIENCE;
    // The kernel frees programs a little after the process.
    while program_ids().iter().any(|id| attached.contains(id)) {
        assert!(Instant::now() < until, "programs stay in the kernel");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_kernel_that_does_not_tell_its_types_is_an_error_that_says_so() {
    let place = tempfile::tempdir().unwrap();
    let types = place.path().join("vmlinux");
    let attach = || KernelTrace::attach(&TraceOptions { types: types.clone(), ..TraceOptions::default() });
    assert!(matches!(attach(), Err(KernelError::NoTypes { .. })));
    fs::write(&types, "no types").unwrap();
    assert!(matches!(attach(), Err(KernelError::NoTypes { .. })));
}

#[test]
fn without_programs_the_kernels_counters_are_read_and_said_to_be() {
    let groups = Group::ALL;
    let mut observer = Observer::begin(ObserverOptions { uses_programs: false, ..options(&groups, own()) }).unwrap();
    let mut child = Command::new("sleep").arg("1").spawn().unwrap();
    child.wait().unwrap();
    let line = observer.read().unwrap();
    for group in ["disk", "mem", "sched", "syscalls", "net"] {
        let source = &line.sources[group];
        assert!(source.source == SourceKind::Procfs && source.reason.is_some(), "{group} {source:?}");
    }
    assert_eq!(line.sources["sync"].source, SourceKind::Unavailable);
    assert!(line.latency_histogram.is_none() && line.sync.is_none() && line.syscalls.is_none());
    assert!(line.disks.is_some() && line.inflight.is_some() && line.tcp.is_some());
    let own_ns = line.off_cpu_ns.unwrap()[&std::process::id()];
    assert!(own_ns > 900_000_000, "the thread that waited was off the processor: {own_ns}");
}

#[test]
fn the_committed_object_is_what_its_source_compiles_to() {
    const TEST: &str = "the_committed_object_is_what_its_source_compiles_to";
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !is_there("clang-14") || !is_there("llvm-strip-14") {
        return skip(TEST, "there is no clang-14 and llvm-strip-14; `apt-get install clang-14 llvm-14` gets them");
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("observe.bpf.o");
    let built = Command::new(format!("{root}/scripts/build-bpf.sh")).arg(&output).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let committed = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/observe.bpf.o")).unwrap();
    assert!(fs::read(&output).unwrap() == committed, "run scripts/build-bpf.sh and commit the object");
}
