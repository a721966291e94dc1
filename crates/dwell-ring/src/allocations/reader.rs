//! The observer's side of a ring of allocations.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::layout::{AllocationRing, EVENTS_PER_CHUNK, MAGIC, VERSION, bytes_of_ring};
use super::{AllocationCall, Moment, TickSource};
use crate::RingError;

/// How often, in looks, it is found out whether threads with half-filled chunks live on.
const LOOKS_PER_SEARCH: u64 = 20;

/// An event with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadEvent {
    /// Number of the event in its ring: unique, and ascending in each thread.
    pub sequence: u64,
    /// When, by CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The thread that called.
    pub thread: u32,
    /// What it called.
    pub call: AllocationCall,
    /// First byte.
    pub address: u64,
    /// Bytes; 0 for calls that are not given any.
    pub size_bytes: u64,
}

impl ReadEvent {
    /// What events of several threads are sorted by. Events of one thread can have the same time; two threads that have the same
    /// memory one after the other cannot.
    pub fn order(&self) -> (u64, u64) {
        (self.time_ns, self.sequence)
    }
}

/// Whose ring it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedProcess {
    /// Process.
    pub pid: u32,
    /// When its recording began; with `pid`, the name of the ring.
    pub made_ns: u64,
    /// The recorded process that it was forked from.
    pub parent: Option<ForkedFrom>,
    /// Path of its program.
    pub program: String,
}

/// The recorded process that another one was forked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkedFrom {
    /// Process.
    pub pid: u32,
    /// When its recording began.
    pub made_ns: u64,
    /// When it forked.
    pub forked_ns: u64,
}

/// A chunk that a thread fills.
struct KnownChunk {
    index: u32,
    /// 0 until the thread has entered itself.
    sequence: u64,
    thread: u32,
    /// Events that were read.
    read: u32,
    /// Time of the last of them: a processor may read its counter for the next call before it does for this one.
    last_ns: u64,
    /// Whether nothing will be added.
    is_final: bool,
}

/// Reads one ring.
pub struct AllocationReader {
    ring: AllocationRing,
    map_bytes: usize,
    path: PathBuf,
    process: RecordedProcess,
    /// Whether the process ids of the ring are those of this process.
    has_own_pids: bool,
    /// Positions of the queue whose chunks are known.
    seen: u64,
    chunks: Vec<KnownChunk>,
    looks: u64,
    /// The line that ticks lie on goes through the last moment but one and the last.
    moments: [Moment; 2],
}

// SAFETY: the mapping belongs to this value alone in this process; what other processes change is atomic.
unsafe impl Send for AllocationReader {}

impl AllocationReader {
    /// Opens a ring that a process has made.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let map_bytes = file.metadata()?.len() as usize;
        if map_bytes < bytes_of_ring(1) {
            return Err(RingError::NotARing);
        }
        let base = map(&file, map_bytes)?;
        // SAFETY: a header fits; how many chunks there are is checked before any is touched.
        let header = unsafe { AllocationRing::at(base, 1) };
        let header = header.header();
        let chunks = header.chunks as usize;
        if header.magic != MAGIC || header.version != VERSION || chunks == 0 || bytes_of_ring(chunks) != map_bytes {
            unmap(base, map_bytes);
            return Err(RingError::NotARing);
        }
        // SAFETY: the file has the size of a ring of so many chunks, and stays mapped as long as this value lives.
        let ring = unsafe { AllocationRing::at(base, chunks) };
        let has_own_pids = header.pid_namespace != 0 && own_pid_namespace() == Some(header.pid_namespace);
        let moments = first_line(&ring);
        let process = process_of(&ring, moments);
        let path = path.to_owned();
        Ok(Self { ring, map_bytes, path, process, has_own_pids, seen: 0, chunks: Vec::new(), looks: 0, moments })
    }

    /// The ring's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose ring it is.
    pub fn process(&self) -> &RecordedProcess {
        &self.process
    }

    /// What its events are stamped with.
    pub fn tick_source(&self) -> TickSource {
        self.ring.tick_source()
    }

    /// Events for which there was no chunk, and those that came when none could be written.
    pub fn lost(&self) -> (u64, u64) {
        self.ring.lost()
    }

    /// Whether the process has ended. If its process ids are of another namespace, that cannot be known.
    pub fn has_ended(&self) -> bool {
        // What has ended and was not waited for yet has no memory.
        let has_memory = || {
            fs::read(format!("/proc/{}/maps", self.process.pid))
                .map_or_else(|error| error.kind() == io::ErrorKind::PermissionDenied, |maps| !maps.is_empty())
        };
        self.has_own_pids && !has_memory()
    }

    /// Reads what has come since the last call, up to a moment: what a thread did before that and what others did because of it
    /// are then all read. What was read stays in the ring until [`AllocationReader::release`].
    pub fn read(&mut self, until: Option<Moment>, into: &mut Vec<ReadEvent>) {
        let now = until.unwrap_or_else(|| Moment::now(self.tick_source()));
        if self.moments[1].ns < now.ns {
            self.moments = line_through(self.moments, now);
        }
        self.find_new_chunks();
        self.find_ended_threads();
        let until_ticks = until.map_or(u64::MAX, |moment| moment.ticks);
        let [first, last] = self.moments;
        for known in &mut self.chunks {
            let Some(chunk) = self.ring.chunk(known.index) else { continue };
            known.is_final |= chunk.is_closed.load(Ordering::Acquire) == 1;
            let published = chunk.published.load(Ordering::Acquire).min(EVENTS_PER_CHUNK as u32);
            while known.read < published && known.sequence != 0 {
                let event = chunk.event(known.read as usize);
                if event.ticks > until_ticks {
                    break;
                }
                let first_sequence = known.sequence.wrapping_mul(EVENTS_PER_CHUNK as u64);
                let sequence = first_sequence.wrapping_add(known.read.into());
                known.read += 1;
                let Some(call) = AllocationCall::from_number(event.call) else { continue };
                known.last_ns = first.ns_of(last, event.ticks).max(known.last_ns);
                into.push(ReadEvent {
                    sequence,
                    time_ns: known.last_ns,
                    thread: known.thread,
                    call,
                    address: event.address,
                    size_bytes: event.size_bytes,
                });
            }
            known.is_final &= known.read == published;
        }
    }

    /// Gives what was read back to the process: it was written down.
    pub fn release(&mut self) {
        let ring = self.ring;
        self.chunks.retain(|known| {
            if let Some(chunk) = ring.chunk(known.index) {
                chunk.written.store(known.read, Ordering::Release);
            }
            if known.is_final {
                ring.give_back(known.index);
            }
            !known.is_final
        });
        ring.note_moment(self.moments[1]);
    }

    fn find_new_chunks(&mut self) {
        let taken = self.ring.taken();
        // A damaged counter must not make this run for years.
        let most = self.ring.header().chunks.into();
        for position in self.seen..taken.min(self.seen.saturating_add(most)) {
            let index = self.ring.taken_as(position);
            self.chunks.push(KnownChunk { index, sequence: 0, thread: 0, read: 0, last_ns: 0, is_final: false });
        }
        self.seen = taken;
        for known in self.chunks.iter_mut().filter(|known| known.sequence == 0) {
            let Some(chunk) = self.ring.chunk(known.index) else { continue };
            known.sequence = chunk.sequence.load(Ordering::Acquire);
            known.thread = chunk.thread.load(Ordering::Relaxed);
            known.read = chunk.written.load(Ordering::Relaxed);
        }
    }

    /// A thread that has ended has left a chunk half filled. So has one whose number another thread has now.
    fn find_ended_threads(&mut self) {
        self.looks += 1;
        let is_scarce = self.ring.freed().saturating_sub(self.ring.taken()) < u64::from(self.ring.header().chunks / 4);
        if !self.has_own_pids || !(is_scarce || self.looks.is_multiple_of(LOOKS_PER_SEARCH)) {
            return;
        }
        let mut newest: HashMap<u32, u64> = HashMap::new();
        for known in self.chunks.iter().filter(|known| known.sequence != 0) {
            let sequence = newest.entry(known.thread).or_default();
            *sequence = known.sequence.max(*sequence);
        }
        let pid = self.process.pid;
        let ended = |thread: u32| fs::symlink_metadata(format!("/proc/{pid}/task/{thread}")).is_err();
        for known in self.chunks.iter_mut().filter(|known| known.sequence != 0) {
            known.is_final |= newest[&known.thread] > known.sequence || ended(known.thread);
        }
    }
}

impl Drop for AllocationReader {
    fn drop(&mut self) {
        let header: *const _ = self.ring.header();
        unmap(header.cast::<u8>().cast_mut(), self.map_bytes);
    }
}

fn map(file: &File, bytes: usize) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh shared mapping of a file of this length.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base.cast()) }
}

fn unmap(base: *mut u8, bytes: usize) {
    // SAFETY: the mapping of `map`, which nobody uses any more.
    unsafe { libc::munmap(base.cast(), bytes) };
}

/// The number of the namespace that this process's ids are of.
fn own_pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|metadata| metadata.ino())
}

/// A line that ticks lie on: from when the ring was made to now. If the machine was started anew meanwhile, to the moment that
/// the observer has noted last.
fn first_line(ring: &AllocationRing) -> [Moment; 2] {
    let (made, now) = (ring.header().made, Moment::now(ring.tick_source()));
    let is_of_this_boot = now.ticks >= made.ticks && now.ns >= made.ns;
    [made, if is_of_this_boot { now } else { ring.noted_moment() }]
}

/// The line through two moments, far enough from each other that what reading them takes does not matter.
fn line_through(moments: [Moment; 2], now: Moment) -> [Moment; 2] {
    const APART_NS: u64 = 10_000_000;
    match now.ns - moments[1].ns >= APART_NS {
        true => [moments[1], now],
        false => [moments[0], now],
    }
}

fn process_of(ring: &AllocationRing, [made, now]: [Moment; 2]) -> RecordedProcess {
    let header = ring.header();
    let program = header.program.split(|byte| *byte == 0).next().unwrap_or_default();
    RecordedProcess {
        pid: header.pid,
        made_ns: made.ns,
        parent: (header.parent_pid != 0).then(|| ForkedFrom {
            pid: header.parent_pid,
            made_ns: header.parent_made_ns,
            forked_ns: made.ns_of(now, header.forked_ticks),
        }),
        program: String::from_utf8_lossy(program).into_owned(),
    }
}
