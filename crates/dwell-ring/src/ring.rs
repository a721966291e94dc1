//! A file-backed ring of bytes between one recorded process and the observer.
//!
//! ```text
//! offset  0  magic "DWELLRNG" · version u32 · producer pid u32 · capacity u64 · observer pid u32 · mapped at u64
//!        64  head u64: bytes ever written        (stored by the producer)
//!       128  tail u64: bytes ever taken out      (stored by the observer)
//!       192  graphs begun u64 · graphs ended u64 (stored by the producer around each computation)
//!       256  closed u32 · blocked ns u64
//!      4096  data, `capacity` bytes
//! ```
//!
//! It is a file rather than anonymous memory so that a program started by another program can find it by name, and
//! so that what was written is still there after the producer or the observer was killed. The file is allocated in
//! full when it is made: a disk that fills up later cannot turn a store into SIGBUS.
//!
//! The producer never wakes the observer; the observer looks at regular times. A wake-up per token would take a core
//! away from the computation for longer than the recording itself.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use dwell_clock::monotonic_ns;

const MAGIC: [u8; 8] = *b"DWELLRNG";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 4096;

/// Bytes of a ring. One step of a 30-layer model is about 4 KiB and a new graph about 170 KiB, so this holds
/// seconds of recording if the observer is slow, and is little memory.
pub const DEFAULT_CAPACITY_BYTES: usize = 8 << 20;

/// Bytes of a ring for the engine's events alone, which are a few hundred bytes for each token.
pub const EVENTS_CAPACITY_BYTES: usize = 1 << 20;

/// How long a blocked producer sleeps before it looks again.
const BLOCKED_SLEEP: Duration = Duration::from_micros(200);

#[repr(C, align(64))]
struct CacheLine<T>(T);

#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: u32,
    producer_pid: u32,
    capacity_bytes: u64,
    observer_pid: u32,
    reserved: u32,
    mapped_at: u64,
    head: CacheLine<[AtomicU64; 8]>,
    tail: CacheLine<[AtomicU64; 8]>,
    graphs: CacheLine<[AtomicU64; 8]>,
    closed: CacheLine<Closing>,
}

#[repr(C)]
struct Closing {
    closed: AtomicU32,
    reserved: u32,
    blocked_ns: AtomicU64,
}

/// Why a ring cannot be used.
#[derive(Debug)]
pub enum RingError {
    /// The file could not be made, opened or mapped.
    Io(io::Error),
    /// The file is not a ring of this version.
    NotARing,
}

impl From<io::Error> for RingError {
    fn from(error: io::Error) -> Self {
        RingError::Io(error)
    }
}

impl std::fmt::Display for RingError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RingError::Io(error) => write!(formatter, "{error}"),
            RingError::NotARing => write!(formatter, "not a ring of version {VERSION}"),
        }
    }
}

impl std::error::Error for RingError {}

/// The mapping both sides work on.
struct Mapping {
    base: NonNull<u8>,
    capacity_bytes: usize,
}

// SAFETY: the mapping is shared memory that is only touched through atomics and through the byte ranges that head and
// tail hand to exactly one side at a time.
unsafe impl Send for Mapping {}

impl Mapping {
    fn of(file: &File, capacity_bytes: usize) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping of a file that was allocated to this length.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                HEADER_BYTES + capacity_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { base, capacity_bytes })
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header; it is page-aligned and lives as long as `self`. The plain fields
        // are written once, before the file gets its final name.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    fn data(&self) -> *mut u8 {
        // SAFETY: the data follows the header inside the mapping.
        unsafe { self.base.as_ptr().add(HEADER_BYTES) }
    }

    fn head(&self) -> &AtomicU64 {
        &self.header().head.0[0]
    }

    fn tail(&self) -> &AtomicU64 {
        &self.header().tail.0[0]
    }

    /// The one or two pieces of the data area that `length` bytes from stream position `position` lie in.
    fn pieces(&self, position: u64, length: usize) -> [(usize, usize); 2] {
        let offset = (position % self.capacity_bytes as u64) as usize;
        let first = length.min(self.capacity_bytes - offset);
        [(offset, first), (0, length - first)]
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` is our mapping of this length and nobody else unmaps it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), HEADER_BYTES + self.capacity_bytes) };
    }
}

/// File name of the ring of a process.
pub fn file_name(pid: u32) -> String {
    format!("{pid}.ring")
}

/// Ending of the empty file that a process leaves in the place of a ring that it could not make.
pub const NOTICE_ENDING: &str = "unrecorded";

/// Tells the observer that this process has no ring. An empty file takes no space on a full disk.
pub fn leave_notice(folder: &Path) -> io::Result<()> {
    File::create(folder.join(file_name(std::process::id())).with_extension(NOTICE_ENDING)).map(|_| ())
}

/// Whether this process may not have a file of so many bytes. The kernel ends a process that tries to make one.
fn is_beyond_file_limit(bytes: usize) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a system call that writes the limit.
    let code = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    code == 0 && limit.rlim_cur != libc::RLIM_INFINITY && limit.rlim_cur < bytes as libc::rlim_t
}

/// The writing side, in the recorded process.
pub struct Producer {
    mapping: Mapping,
    observer_pid: u32,
}

impl Producer {
    /// Makes the ring of this process in `folder`.
    pub fn create(folder: &Path, observer_pid: u32, capacity_bytes: usize) -> Result<Self, RingError> {
        if is_beyond_file_limit(HEADER_BYTES + capacity_bytes) {
            return Err(io::Error::from_raw_os_error(libc::EFBIG).into());
        }
        let path = folder.join(file_name(std::process::id()));
        let unfinished = path.with_extension("ring.partial");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&unfinished)?;
        let length = (HEADER_BYTES + capacity_bytes) as libc::off_t;
        // SAFETY: a plain system call on an open file.
        let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
        if code != 0 {
            let _ = fs::remove_file(&unfinished);
            return Err(io::Error::from_raw_os_error(code).into());
        }
        let mapping = Mapping::of(&file, capacity_bytes)?;
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            producer_pid: std::process::id(),
            capacity_bytes: capacity_bytes as u64,
            observer_pid,
            reserved: 0,
            mapped_at: mapping.base.as_ptr() as u64,
            head: CacheLine(Default::default()),
            tail: CacheLine(Default::default()),
            graphs: CacheLine(Default::default()),
            closed: CacheLine(Closing { closed: AtomicU32::new(0), reserved: 0, blocked_ns: AtomicU64::new(0) }),
        };
        // SAFETY: the mapping is larger than a header, aligned to a page, and not yet known to anybody else. Writing all
        // of it takes the page faults now rather than between two tokens.
        unsafe {
            std::ptr::write_bytes(mapping.data(), 0, capacity_bytes);
            mapping.base.cast::<Header>().write(header);
        }
        fs::rename(&unfinished, &path)?;
        Ok(Self { mapping, observer_pid })
    }

    /// Says that a graph is about to be computed. It is a plain store, visible to an instruction-level tracer. After each
    /// operation of the graph something is stored at `node_marks_address`.
    pub fn mark_graph_begun(&self, node_marks_address: u64) {
        self.mapping.header().graphs.0[2].store(node_marks_address, Ordering::Relaxed);
        self.mapping.header().graphs.0[0].fetch_add(1, Ordering::Relaxed);
    }

    /// Says that a graph was computed.
    pub fn mark_graph_ended(&self) {
        self.mapping.header().graphs.0[1].fetch_add(1, Ordering::Relaxed);
    }

    /// Appends these bytes; blocks while there is no room. False if the observer is gone and they were not written.
    pub fn write(&mut self, parts: &[&[u8]]) -> bool {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        if total <= self.mapping.capacity_bytes {
            // The usual case: the record becomes visible as a whole.
            if !self.wait_for_room(total) {
                return false;
            }
            let mut position = self.mapping.head().load(Ordering::Relaxed);
            for part in parts {
                self.copy_in(position, part);
                position += part.len() as u64;
            }
            self.mapping.head().store(position, Ordering::Release);
            return true;
        }
        parts.iter().all(|part| self.write_in_pieces(part))
    }

    fn write_in_pieces(&mut self, bytes: &[u8]) -> bool {
        bytes.chunks((self.mapping.capacity_bytes / 4).max(1)).all(|piece| {
            if !self.wait_for_room(piece.len()) {
                return false;
            }
            let position = self.mapping.head().load(Ordering::Relaxed);
            self.copy_in(position, piece);
            self.mapping.head().store(position + piece.len() as u64, Ordering::Release);
            true
        })
    }

    fn copy_in(&mut self, position: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (offset, length) in self.mapping.pieces(position, bytes.len()) {
            // SAFETY: the piece lies inside the data area, and `wait_for_room` made sure that the observer has taken
            // out what was there before.
            unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), self.mapping.data().add(offset), length) };
            rest = &rest[length..];
        }
    }

    fn wait_for_room(&self, needed: usize) -> bool {
        let has_room = || {
            let head = self.mapping.head().load(Ordering::Relaxed);
            let tail = self.mapping.tail().load(Ordering::Acquire);
            self.mapping.capacity_bytes as u64 - (head - tail) >= needed as u64
        };
        if has_room() {
            return true;
        }
        let blocked_since_ns = monotonic_ns();
        while !has_room() {
            if !process_exists(self.observer_pid) {
                return false;
            }
            std::thread::sleep(BLOCKED_SLEEP);
        }
        let blocked_ns = monotonic_ns() - blocked_since_ns;
        self.mapping.header().closed.0.blocked_ns.fetch_add(blocked_ns, Ordering::Relaxed);
        true
    }

    /// Says that nothing more will come.
    pub fn close(&mut self) {
        self.mapping.header().closed.0.closed.store(1, Ordering::Release);
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether a process with this id exists, be it ours or not.
pub fn process_exists(pid: u32) -> bool {
    // SAFETY: signal 0 only asks.
    let answer = unsafe { libc::kill(pid as libc::pid_t, 0) };
    answer == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// The reading side, in the observer.
pub struct Consumer {
    mapping: Mapping,
    path: PathBuf,
}

impl Consumer {
    /// Opens a ring that a process has made.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let length = file.metadata()?.len() as usize;
        if length <= HEADER_BYTES {
            return Err(RingError::NotARing);
        }
        let mapping = Mapping::of(&file, length - HEADER_BYTES)?;
        let header = mapping.header();
        let is_ring = header.magic == MAGIC && header.version == VERSION;
        let has_sane_counters = || {
            let (head, tail) = (mapping.head().load(Ordering::Acquire), mapping.tail().load(Ordering::Acquire));
            head.checked_sub(tail).is_some_and(|used| used <= mapping.capacity_bytes as u64)
        };
        if !is_ring || header.capacity_bytes != mapping.capacity_bytes as u64 || !has_sane_counters() {
            return Err(RingError::NotARing);
        }
        Ok(Self { mapping, path: path.to_owned() })
    }

    /// The ring's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Process that writes.
    pub fn producer_pid(&self) -> u32 {
        self.mapping.header().producer_pid
    }

    /// Where the producer stores the counts of graphs begun and, 8 bytes on, ended, in its own address space.
    pub fn graph_counters_address(&self) -> u64 {
        self.mapping.header().mapped_at + std::mem::offset_of!(Header, graphs) as u64
    }

    /// Where the producer stores something after each operation, in its own address space; 0 before the first graph.
    pub fn node_marks_address(&self) -> u64 {
        self.mapping.header().graphs.0[2].load(Ordering::Relaxed)
    }

    /// Bytes that wait to be taken out.
    pub fn waiting_bytes(&self) -> usize {
        let head = self.mapping.head().load(Ordering::Acquire);
        (head - self.mapping.tail().load(Ordering::Relaxed)) as usize
    }

    /// Copies what waits, after the first `skip_bytes` of it, to the end of `into`. It stays in the ring until
    /// [`Consumer::take_out`].
    pub fn peek(&self, skip_bytes: usize, into: &mut Vec<u8>) {
        let length = self.waiting_bytes().saturating_sub(skip_bytes);
        let position = self.mapping.tail().load(Ordering::Relaxed) + skip_bytes as u64;
        for (offset, length) in self.mapping.pieces(position, length) {
            // SAFETY: the piece lies inside the data area; the producer does not touch it until it is taken out.
            into.extend_from_slice(unsafe { std::slice::from_raw_parts(self.mapping.data().add(offset), length) });
        }
    }

    /// Gives the first `bytes` waiting bytes back to the producer.
    pub fn take_out(&mut self, bytes: usize) {
        self.mapping.tail().fetch_add(bytes as u64, Ordering::Release);
    }

    /// Whether the producer said that nothing more will come.
    pub fn is_closed(&self) -> bool {
        self.mapping.header().closed.0.closed.load(Ordering::Acquire) != 0
    }

    /// Bytes that the ring holds at most.
    pub fn capacity_bytes(&self) -> usize {
        self.mapping.capacity_bytes
    }

    /// Time that the producer has waited for room.
    pub fn blocked_ns(&self) -> u64 {
        self.mapping.header().closed.0.blocked_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("dwell-ring-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn pair(name: &str, capacity_bytes: usize) -> (Producer, Consumer, PathBuf) {
        let folder = folder(name);
        let producer = Producer::create(&folder, std::process::id(), capacity_bytes).unwrap();
        let consumer = Consumer::open(&folder.join(file_name(std::process::id()))).unwrap();
        (producer, consumer, folder)
    }

    #[test]
    fn bytes_come_out_as_they_went_in_across_the_seam() {
        let (mut producer, mut consumer, folder) = pair("seam", 100);
        let mut expected = Vec::new();
        let mut received = Vec::new();
        for round in 0..50u8 {
            let record = vec![round; 7 + usize::from(round) % 30];
            assert!(producer.write(&[&record[..3], &record[3..]]));
            expected.extend_from_slice(&record);
            let before = received.len();
            consumer.peek(0, &mut received);
            consumer.take_out(received.len() - before);
        }
        assert_eq!(received, expected);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_full_ring_blocks_the_producer_until_the_observer_takes_bytes_out() {
        let (mut producer, mut consumer, folder) = pair("full", 64);
        let bytes: Vec<u8> = (0..=255).collect();
        let sent = bytes.clone();
        let writer = std::thread::spawn(move || producer.write(&[&sent]));
        let mut received = Vec::new();
        while received.len() < bytes.len() {
            let before = received.len();
            consumer.peek(0, &mut received);
            consumer.take_out(received.len() - before);
        }
        assert!(writer.join().unwrap());
        assert_eq!(received, bytes);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_blocked_producer_gives_up_when_the_observer_is_gone() {
        let folder = folder("gone");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let observer_pid = child.id();
        child.wait().unwrap();
        let mut producer = Producer::create(&folder, observer_pid, 16).unwrap();
        assert!(producer.write(&[&[1; 16]]));
        assert!(!producer.write(&[&[2; 1]]));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_is_no_ring_is_refused() {
        let folder = folder("other");
        let path = folder.join("7.ring");
        fs::write(&path, vec![0u8; 8192]).unwrap();
        assert!(matches!(Consumer::open(&path), Err(RingError::NotARing)));
        fs::write(&path, b"short").unwrap();
        assert!(matches!(Consumer::open(&path), Err(RingError::NotARing)));
        fs::remove_dir_all(folder).unwrap();
    }
}
