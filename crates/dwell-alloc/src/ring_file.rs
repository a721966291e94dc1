//! The file of this process's ring.

use std::ffi::CStr;
use std::io::{Cursor, Write};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dwell_ring::NOTICE_ENDING;
use dwell_ring::allocations::{AllocationRing, Header, Moment, TickSource, bytes_of_ring, chunks_in};

use crate::environment::{self, MOST_PATH_BYTES};

const PATH_BYTES: usize = MOST_PATH_BYTES + 100;

/// The last ring that this process or an ancestor has made: whose, and when.
static LAST_PID: AtomicU32 = AtomicU32::new(0);
static LAST_MADE_NS: AtomicU64 = AtomicU64::new(0);
/// When this process was forked, by the counter; 0 if that is not known.
static FORKED_TICKS: AtomicU64 = AtomicU64::new(0);
/// When this process, or the one that it was forked from, last began to fork.
static FORK_BEGUN_TICKS: AtomicU64 = AtomicU64::new(0);

/// Makes the ring and maps it; gives its address and its number of chunks. Called by one thread of a process.
pub(crate) fn make() -> Option<(*mut u8, usize)> {
    // SAFETY: a system call without arguments. The C library's function may know the number of the parent.
    let pid = unsafe { libc::syscall(libc::SYS_getpid) } as u32;
    let chunks = chunks_in(environment::ring_bytes());
    let made = Moment::now(TickSource::detect());
    let mut unfinished = [0; PATH_BYTES];
    let mut finished = [0; PATH_BYTES];
    let is_made = path(&mut unfinished, pid, made.ns, "ring.partial")
        .zip(path(&mut finished, pid, made.ns, "ring"))
        .and_then(|(unfinished, finished)| Some((map(unfinished, bytes_of_ring(chunks))?, unfinished, finished)));
    let Some((base, unfinished, finished)) = is_made else {
        leave_notice(pid, made.ns);
        return None;
    };
    // SAFETY: a fresh mapping of this size with zeros in it.
    let ring = unsafe { AllocationRing::at(base, chunks) };
    ring.initialise(|header| describe(header, pid, made));
    // SAFETY: two paths that end with a zero.
    if unsafe { libc::rename(unfinished.as_ptr(), finished.as_ptr()) } != 0 {
        return None;
    }
    LAST_PID.store(pid, Ordering::Relaxed);
    LAST_MADE_NS.store(made.ns, Ordering::Relaxed);
    Some((base, chunks))
}

fn describe(header: &mut Header, pid: u32, made: Moment) {
    header.pid = pid;
    header.tick_source = TickSource::detect() as u32;
    header.made = made;
    // What a process knows of a last ring when it makes its first is its parent's.
    header.parent_pid = LAST_PID.load(Ordering::Relaxed);
    header.parent_made_ns = LAST_MADE_NS.load(Ordering::Relaxed);
    header.forked_ticks = match FORKED_TICKS.swap(0, Ordering::Relaxed) {
        0 => made.ticks,
        ticks => ticks,
    };
    header.pid_namespace = pid_namespace();
    let most = header.program.len() - 1;
    // SAFETY: the kernel writes at most so many bytes.
    unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), header.program.as_mut_ptr().cast(), most) };
}

fn pid_namespace() -> u64 {
    // SAFETY: zeros are a valid value, which the kernel overwrites.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        let code = libc::stat(c"/proc/self/ns/pid".as_ptr(), &raw mut status);
        if code == 0 { status.st_ino } else { 0 }
    }
}

/// The path of this process's ring, with a zero at its end, without allocating.
fn path<'a>(buffer: &'a mut [u8; PATH_BYTES], pid: u32, made_ns: u64, ending: &str) -> Option<&'a CStr> {
    let mut text = Cursor::new(&mut buffer[..]);
    text.write_all(environment::folder()).ok()?;
    write!(text, "/{pid}-{made_ns}.{ending}\0").ok()?;
    CStr::from_bytes_until_nul(buffer).ok()
}

/// Makes the file, with all its bytes on the disk, and maps it.
fn map(path: &CStr, bytes: usize) -> Option<*mut u8> {
    if is_beyond_file_limit(bytes) {
        return None;
    }
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: plain system calls; the mapping by number, because the function would come back here. The file is closed at once,
    // so that a program that closes all its files does not lose the ring.
    unsafe {
        let file = libc::open(path.as_ptr(), flags, 0o600);
        if file < 0 {
            return None;
        }
        let code = libc::posix_fallocate(file, 0, bytes as libc::off_t);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let base = match code {
            0 => crate::system_calls::map(null_mut(), bytes, protection, libc::MAP_SHARED, file, 0),
            _ => -1,
        };
        libc::close(file);
        if base == -1 {
            libc::unlink(path.as_ptr());
            return None;
        }
        Some(base as *mut u8)
    }
}

/// Whether this process may not have a file of so many bytes. The kernel ends a process that tries to make one.
fn is_beyond_file_limit(bytes: usize) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a system call that writes the limit.
    let code = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    code == 0 && limit.rlim_cur != libc::RLIM_INFINITY && limit.rlim_cur < bytes as libc::rlim_t
}

/// Tells the observer that this process has no ring. An empty file takes no space on a full disk.
fn leave_notice(pid: u32, made_ns: u64) {
    let mut buffer = [0; PATH_BYTES];
    let Some(path) = path(&mut buffer, pid, made_ns, NOTICE_ENDING) else { return };
    // SAFETY: a path that ends with a zero. If this fails too, nobody can be told.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC, 0o600);
        if file >= 0 {
            libc::close(file);
        }
    }
}

extern "C" fn before_fork() {
    FORK_BEGUN_TICKS.store(TickSource::detect().before(), Ordering::Relaxed);
}

extern "C" fn in_forked_child() {
    FORKED_TICKS.store(FORK_BEGUN_TICKS.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Notes when the process forks. The loader calls it when it has loaded this library.
extern "C" fn prepare_for_forks() {
    if crate::recording::clock().is_some() {
        // SAFETY: the functions read the counter and store to atomics, which may be done around a fork.
        unsafe { libc::pthread_atfork(Some(before_fork), None, Some(in_forked_child)) };
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = prepare_for_forks;
