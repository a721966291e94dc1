//! CPU time of a process, finer than the 10 ms ticks of `stat`.
//!
//! `stat` has the time of all threads, those that ended included, in ticks. The `schedstat` of a thread has that
//! thread's time in nanoseconds and vanishes with it. Together: the sum over the threads, kept within what `stat`
//! allows, since threads come and go unseen.

use std::io;

use super::parse;
use super::proc_dir::ProcDir;
use super::proc_file::ProcFile;

/// With more threads than this, of all processes together, their files cost more than the precision is worth: 0.6 µs
/// each, and a descriptor.
const MOST_THREADS: usize = 256;

/// `stat` rounds user and system time down to a tick each, so the truth is less than this above it.
const FLOOR_ERROR_NS: u64 = 2 * parse::NS_PER_TICK;

/// The CPU time of one process.
pub(crate) struct CpuTime {
    threads: Vec<ThreadTime>,
    /// Time of threads that ended, and of those that were never seen.
    retired_ns: u64,
    last_ns: u64,
    has_schedstat: bool,
    knows_all_threads: bool,
}

struct ThreadTime {
    tid: u32,
    file: ProcFile,
    run_ns: u64,
}

impl CpuTime {
    pub(crate) fn new() -> Self {
        Self { threads: Vec::new(), retired_ns: 0, last_ns: 0, has_schedstat: true, knows_all_threads: false }
    }

    /// Whether no thread has run since the time was last asked for. If not all threads are known, that is not known.
    pub(crate) fn is_idle(&self, buffer: &mut Vec<u8>) -> bool {
        let is_same = |thread: &ThreadTime| thread.read(buffer) == Some(thread.run_ns);
        self.knows_all_threads && self.threads.iter().all(is_same)
    }

    /// The time now, given what `stat` says; `processes` are sampled. Never less than the time before.
    pub(crate) fn total_ns(
        &mut self,
        dir: &ProcDir,
        stat: &parse::Stat,
        processes: usize,
        buffer: &mut Vec<u8>,
    ) -> u64 {
        let (floor_ns, thread_count) = (stat.cpu_floor_ns, stat.threads);
        let is_worth_it = self.has_schedstat && thread_count as usize * processes.max(2) <= MOST_THREADS;
        let total_ns = if is_worth_it { self.sum_ns(dir, floor_ns, thread_count, buffer) } else { floor_ns };
        self.knows_all_threads = is_worth_it && self.has_schedstat && self.threads.len() == thread_count as usize;
        self.last_ns = self.last_ns.max(total_ns);
        self.last_ns
    }

    fn sum_ns(&mut self, dir: &ProcDir, floor_ns: u64, thread_count: u32, buffer: &mut Vec<u8>) -> u64 {
        self.read_threads(buffer);
        // A thread that was replaced by another was found out by its unreadable file.
        if self.threads.len() != thread_count as usize {
            self.has_schedstat = self.find_new_threads(dir, buffer).is_ok();
        }
        let live_ns: u64 = self.threads.iter().map(|thread| thread.run_ns).sum();
        let total_ns = (live_ns + self.retired_ns).clamp(floor_ns, floor_ns + FLOOR_ERROR_NS);
        self.retired_ns = total_ns.saturating_sub(live_ns);
        total_ns
    }

    fn read_threads(&mut self, buffer: &mut Vec<u8>) {
        let mut ended_ns = 0;
        self.threads.retain_mut(|thread| match thread.read(buffer) {
            Some(run_ns) => {
                thread.run_ns = run_ns;
                true
            }
            None => {
                ended_ns += thread.run_ns;
                false
            }
        });
        self.retired_ns += ended_ns;
    }

    fn find_new_threads(&mut self, dir: &ProcDir, buffer: &mut Vec<u8>) -> io::Result<()> {
        for tid in dir.threads()? {
            if self.threads.iter().any(|thread| thread.tid == tid) {
                continue;
            }
            match dir.file(&format!("task/{tid}/schedstat")) {
                Ok(file) => {
                    let mut thread = ThreadTime { tid, file, run_ns: 0 };
                    thread.run_ns = thread.read(buffer).unwrap_or(0);
                    self.threads.push(thread);
                }
                // The thread is gone again; a kernel without the file is told from that by the directory.
                Err(_) if !dir.has(&format!("task/{tid}")) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl ThreadTime {
    fn read(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        parse::run_ns(self.file.read(buffer).ok()?)
    }
}
