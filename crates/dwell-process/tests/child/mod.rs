//! The program that is watched: this test binary, started again, doing what it is told on its standard input.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use rustix::mm::{MapFlags, ProtFlags};
use rustix::time::{ClockId, clock_gettime};

pub const MIB: u64 = 1 << 20;
pub const PAGE_BYTES: u64 = 4096;
/// Threads that the threaded orders start.
pub const THREADS: usize = 3;

const IS_CHILD: &str = "DWELL_PROCESS_TEST_CHILD";
const ANSWER: &str = "answer: ";

/// The child, seen from the test.
pub struct Child {
    process: std::process::Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Child {
    pub fn start() -> Self {
        Self::start_command(Command::new(std::env::current_exe().unwrap()))
    }

    pub fn start_command(mut command: Command) -> Self {
        let mut process = command
            .args(["--exact", "the_child_program", "--nocapture", "--test-threads=1"])
            .env(IS_CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut child = Self { process, input, output };
        child.ask("nothing");
        child
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Has an order carried out and returns the answer.
    pub fn ask(&mut self, order: &str) -> String {
        writeln!(self.input, "{order}").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the child ended over {order:?}");
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return answer.trim_end().to_owned();
            }
        }
    }

    /// Tells the child to end, without waiting for it.
    #[allow(dead_code, reason = "not every test file ends its child early")]
    pub fn tell_to_end(&mut self) {
        writeln!(self.input, "end").unwrap();
    }

    /// Waits for the child to end.
    #[allow(dead_code, reason = "not every test file ends its child early")]
    pub fn wait(&mut self) {
        self.process.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the child does; returns at once in any other process.
pub fn run_if_asked() {
    if std::env::var_os(IS_CHILD).is_none() {
        return;
    }
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (order, amount) = line.split_once(' ').unwrap_or((&line, "0"));
        let mib = || amount.parse::<u64>().unwrap() * MIB;
        let mut answer = String::from("done");
        match order {
            "end" => std::process::exit(0),
            "anonymous" => kept.push(vec![1; mib() as usize]),
            "reserve" => kept.push(Vec::with_capacity(mib() as usize)),
            "file" => map_file(mib()),
            "shared" => map_shared(mib()),
            "write" => write_file(mib()),
            "spin" => spin(amount.parse().unwrap()),
            "spin_in_threads" => spinning(amount).into_iter().for_each(|thread| thread.join().unwrap()),
            "spin_in_kept_threads" => spin_and_keep(amount),
            "sample" => answer = sample_of(amount.parse().unwrap()),
            _ => {}
        }
        if order.starts_with("spin") {
            answer = cpu_ns(ClockId::ProcessCPUTime).to_string();
        }
        println!("{ANSWER}{answer}");
    }
}

fn cpu_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Uses this much CPU time, however long that takes.
fn spin(millis: u64) {
    let end_ns = cpu_ns(ClockId::ThreadCPUTime) + millis * 1_000_000;
    while cpu_ns(ClockId::ThreadCPUTime) < end_ns {
        black_box(end_ns);
    }
}

fn spinning(millis: &str) -> Vec<thread::JoinHandle<()>> {
    let millis = millis.parse().unwrap();
    (0..THREADS).map(|_| thread::spawn(move || spin(millis))).collect()
}

/// The threads live on when this returns, and do nothing.
fn spin_and_keep(millis: &str) {
    let millis = millis.parse().unwrap();
    let (done, all_done) = std::sync::mpsc::channel();
    for _ in 0..THREADS {
        let done = done.clone();
        thread::spawn(move || {
            spin(millis);
            done.send(()).unwrap();
            loop {
                thread::park();
            }
        });
    }
    (0..THREADS).for_each(|_| all_done.recv().unwrap());
}

fn write_file(bytes: u64) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![7; bytes as usize]).unwrap();
    file.sync_all().unwrap();
}

fn map_file(bytes: u64) {
    let mut file = tempfile::tempfile_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    file.write_all(&vec![7; bytes as usize]).unwrap();
    file.sync_all().unwrap();
    touch(&file, bytes);
}

fn touch(file: &File, bytes: u64) {
    let length = bytes as usize;
    // SAFETY: a new mapping at an address that the kernel chooses; it is never unmapped.
    let start =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0).unwrap() };
    // SAFETY: the mapping is `length` bytes long and readable, and nobody writes to the unnamed file behind it.
    let mapped = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    assert!(mapped.iter().step_by(PAGE_BYTES as usize).all(|&byte| black_box(byte) == 7));
}

fn map_shared(bytes: u64) {
    let length = bytes as usize;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses; it is never unmapped.
    let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, access, MapFlags::SHARED).unwrap() };
    // SAFETY: the mapping is `length` bytes long and writable, and this is the only reference to it.
    unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), length) }.fill(1);
}

/// What this process may see of another: resident bytes, whether bytes of I/O, whether a share is known.
fn sample_of(pid: u32) -> String {
    let mut rows = Vec::new();
    let mut sampler = dwell_process::Sampler::new(&[("other", pid)]).unwrap();
    sampler.sample_into(&mut rows);
    format!("{} {} {}", rows[0].rss_bytes > 0, rows[0].read_bytes.is_some(), rows[0].pss_bytes.is_some())
}
