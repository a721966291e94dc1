//! The program that is watched: this test binary, started again, doing what it is told on its standard input.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
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
    /// Copies of it that live on when it ends.
    forks: Vec<i32>,
}

impl Child {
    pub fn start() -> Self {
        Self::start_command(Command::new(std::env::current_exe().unwrap()))
    }

    pub fn start_command(mut command: Command) -> Self {
        let mut process = command
            .args(["--exact", "the_child_program", "--ignored", "--nocapture", "--test-threads=1"])
            .env(IS_CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut child = Self { process, input, output, forks: Vec::new() };
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
                let answer = answer.trim_end().to_owned();
                self.forks.extend(answer.parse::<i32>().ok().filter(|_| order.starts_with("fork")));
                return answer;
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
        for &pid in &self.forks {
            // SAFETY: a plain system call. The ids were given out during this test, so nobody else has them yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

/// What the child has taken and can give back.
#[derive(Default)]
struct Held {
    vectors: Vec<Vec<u8>>,
    mappings: Vec<(usize, usize)>,
    forks: Vec<i32>,
}

/// What the child does; returns at once in any other process.
pub fn run_if_asked() {
    if std::env::var_os(IS_CHILD).is_none() {
        return;
    }
    let mut held = Held::default();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (order, amount) = line.split_once(' ').unwrap_or((&line, "0"));
        let mib = || amount.parse::<u64>().unwrap() * MIB;
        let mut answer = String::from("done");
        match order {
            "end" => std::process::exit(0),
            "anonymous" => held.vectors.push(vec![1; mib() as usize]),
            "reserve" => held.vectors.push(Vec::with_capacity(mib() as usize)),
            "file" => held.mappings.push(map_file(mib())),
            "shared" => held.mappings.push(map_memory(mib(), MapFlags::SHARED)),
            "private" => held.mappings.push(map_memory(mib(), MapFlags::PRIVATE)),
            "unmap" => unmap(held.mappings.pop().unwrap()),
            "fork" => answer = fork_child(&mut held, mib() as usize).to_string(),
            "fork_in_fork" => answer = fork_orphan(&mut held).to_string(),
            "end_fork" => end_fork(held.forks.pop().unwrap()),
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

/// Start and length of a mapping of this many bytes of a file.
fn map_file(bytes: u64) -> (usize, usize) {
    let mut file = tempfile::tempfile_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    std::io::copy(&mut std::io::repeat(7).take(bytes), &mut file).unwrap();
    file.sync_all().unwrap();
    touch(&file, bytes)
}

fn touch(file: &File, bytes: u64) -> (usize, usize) {
    let length = bytes as usize;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let start =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0).unwrap() };
    // SAFETY: the mapping is `length` bytes long and readable, and nobody writes to the unnamed file behind it.
    let mapped = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    assert!(mapped.iter().step_by(PAGE_BYTES as usize).all(|&byte| black_box(byte) == 7));
    (start as usize, length)
}

/// Start and length of written memory.
fn map_memory(bytes: u64, kind: MapFlags) -> (usize, usize) {
    let length = bytes as usize;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, access, kind).unwrap() };
    write(start as usize, length);
    (start as usize, length)
}

fn write(start: usize, length: usize) {
    // SAFETY: the mapping is at least `length` bytes long and writable, and this is the only reference to it.
    unsafe { std::slice::from_raw_parts_mut(start as *mut u8, length) }.fill(1);
}

fn unmap((start, length): (usize, usize)) {
    // SAFETY: the mapping was made here and nothing refers to it.
    unsafe { rustix::mm::munmap(start as *mut _, length).unwrap() };
}

/// A copy of this process that has written this much of the last mapping, and waits. Its id.
fn fork_child(held: &mut Held, written_bytes: usize) -> i32 {
    let (mut ready, mut done) = std::io::pipe().unwrap();
    // SAFETY: the copy writes to memory that is its own, and makes system calls alone.
    match unsafe { libc::fork() } {
        0 => {
            if let Some(&(start, _)) = held.mappings.last().filter(|_| written_bytes > 0) {
                write(start, written_bytes);
            }
            done.write_all(b"!").unwrap();
            wait_for_death()
        }
        pid => {
            held.forks.push(pid);
            drop(done);
            ready.read_exact(&mut [0]).unwrap();
            pid
        }
    }
}

/// A grandchild; its parent waits to be ended and is the last of the forks. The grandchild's id.
fn fork_orphan(held: &mut Held) -> i32 {
    let (mut ids, mut done) = std::io::pipe().unwrap();
    // SAFETY: as above.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: as above.
            let pid = unsafe { libc::fork() };
            if pid > 0 {
                done.write_all(&pid.to_le_bytes()).unwrap();
            }
            wait_for_death()
        }
        pid => {
            held.forks.push(pid);
            let mut id = [0; 4];
            ids.read_exact(&mut id).unwrap();
            i32::from_le_bytes(id)
        }
    }
}

fn wait_for_death() -> ! {
    loop {
        // SAFETY: waits for a signal and touches nothing.
        unsafe { libc::pause() };
    }
}

fn end_fork(pid: i32) {
    // SAFETY: plain system calls; the process is a child of this one that nobody has waited for.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid);
    }
}

/// What this process may see of another: resident bytes, whether bytes of I/O, whether a share is known.
fn sample_of(pid: u32) -> String {
    let mut rows = Vec::new();
    let mut sampler = dwell_process::Sampler::new(&[("other", pid)]).unwrap();
    sampler.sample_into(&mut rows);
    format!("{} {} {}", rows[0].rss_bytes > 0, rows[0].read_bytes.is_some(), rows[0].pss_bytes.is_some())
}
