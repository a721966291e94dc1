//! Writes that the kernel notes by page: a userfaultfd with asynchronous write protection.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

use crate::{PagesError, inject};

#[repr(C)]
struct UffdApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdRegister {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

const UFFDIO_API: Opcode = opcode::read_write::<UffdApi>(0xAA, 0x3F);
const UFFDIO_REGISTER: Opcode = opcode::read_write::<UffdRegister>(0xAA, 0x00);
const UFFD_API_VERSION: u64 = 0xAA;
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 1 << 1;
/// `UFFD_USER_MODE_ONLY`: what users without privilege may have. In asynchronous mode writes of the kernel are noted all the same.
const USER_MODE_ONLY: u32 = 1;

/// The flags that the descriptor is made with.
pub(crate) fn flags() -> UserfaultfdFlags {
    UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY)
}

/// A userfault descriptor of a process that lets the kernel note writes by itself.
#[derive(Debug)]
pub struct WriteNotes {
    uffd: OwnedFd,
}

impl WriteNotes {
    /// For memory of this process.
    pub fn of_this_process() -> Result<Self, PagesError> {
        // SAFETY: memory is registered with it in asynchronous mode alone, in which no access waits for us.
        let uffd = unsafe { userfaultfd(flags()) }.map_err(PagesError::of("userfaultfd"))?;
        Self::enable(uffd)
    }

    /// For memory of another process, which is made to call `userfaultfd` once.
    pub fn of_process(pid: u32) -> Result<Self, PagesError> {
        Self::enable(inject::userfaultfd_of(pid)?)
    }

    /// Refused by kernels before 6.7.
    fn enable(uffd: OwnedFd) -> Result<Self, PagesError> {
        let mut api = UffdApi { api: UFFD_API_VERSION, features: WP_UNPOPULATED | WP_ASYNC, ioctls: 0 };
        // SAFETY: the operation reads and writes this structure.
        unsafe { ioctl(&uffd, Updater::<UFFDIO_API, _>::new(&mut api)) }
            .map_err(PagesError::of("ioctl(UFFDIO_API) with WP_ASYNC"))?;
        Ok(Self { uffd })
    }

    /// Has writes to this memory noted. It must be mapped as a whole.
    pub fn register(&self, range: &Range<u64>) -> io::Result<()> {
        let mut register =
            UffdRegister { start: range.start, len: range.end - range.start, mode: REGISTER_MODE_WP, ioctls: 0 };
        // SAFETY: the operation reads and writes this structure. What it changes of the process's memory, asynchronous write
        // protection, no access can tell.
        unsafe { ioctl(&self.uffd, Updater::<UFFDIO_REGISTER, _>::new(&mut register)) }?;
        Ok(())
    }
}
