//! One event, behind functions that cannot be misused.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::attributes::Attributes;

const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const SET_OUTPUT: libc::c_ulong = 0x2405;

/// What an event watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// A thread; none for this one.
    pub thread: Option<u32>,
    /// A processor; none for all.
    pub cpu: Option<u32>,
}

impl Watched {
    /// This thread, on all processors.
    pub const OWN_THREAD: Self = Self { thread: None, cpu: None };
}

/// What an event has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Events, including those of processes and threads that inherited the counter.
    pub events: u64,
    /// Records for which the ring had no room; 0 if the kernel does not count them.
    pub lost: u64,
}

/// An open event. Closed when it is dropped, with what inherited it.
#[derive(Debug)]
pub struct Event {
    file: File,
    counts_lost: bool,
}

impl Event {
    /// Opens an event, in the group of another one if there is one.
    pub fn open(attributes: &Attributes, watched: Watched, leader: Option<&Self>) -> io::Result<Self> {
        let bytes = attributes.to_bytes();
        let thread = watched.thread.map_or(Ok(0), i32::try_from).map_err(io::Error::other)?;
        let cpu = watched.cpu.map_or(Ok(-1), i32::try_from).map_err(io::Error::other)?;
        let group = leader.map_or(-1, |leader| leader.file.as_raw_fd());
        // SAFETY: the kernel reads as many bytes of the attributes as they say, which is their size; the other arguments are
        // numbers.
        let result =
            unsafe { libc::syscall(libc::SYS_perf_event_open, bytes.as_ptr(), thread, cpu, group, CLOSE_ON_EXEC) };
        let fd = i32::try_from(result).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { file: fd.into(), counts_lost: attributes.counts_lost })
    }

    /// Begins to count.
    pub fn enable(&self) -> io::Result<()> {
        self.control(ENABLE, 0)
    }

    /// Stops counting, also in processes and threads that inherited the counter.
    pub fn disable(&self) -> io::Result<()> {
        self.control(DISABLE, 0)
    }

    /// Puts its records into the ring of another event of the same processor.
    pub fn redirect_to(&self, ring_owner: &Self) -> io::Result<()> {
        self.control(SET_OUTPUT, ring_owner.file.as_raw_fd().into())
    }

    /// Number that its samples state.
    pub fn id(&self) -> io::Result<u64> {
        // `_IOR('$', 7, u64 *)`.
        const ID: libc::c_ulong = 0x8008_2407;
        let mut id = 0_u64;
        // SAFETY: the kernel writes one number of 64 bits to where the pointer points.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), ID as _, &raw mut id) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
    }

    /// What was counted until now.
    pub fn counted(&self) -> io::Result<Counted> {
        let mut words = [0; 16];
        let words = if self.counts_lost { &mut words[..] } else { &mut words[..8] };
        (&self.file).read_exact(words)?;
        let number =
            |at: usize| words.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |it| u64::from_ne_bytes(*it));
        Ok(Counted { events: number(0), lost: number(8) })
    }

    fn control(&self, request: libc::c_ulong, argument: libc::c_long) -> io::Result<()> {
        // SAFETY: these requests take a number, not a pointer.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, argument) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
