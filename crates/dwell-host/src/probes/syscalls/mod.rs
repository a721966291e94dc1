//! The system calls that the probes make, each behind a function that cannot be misused.

mod bpf;
mod pages;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

pub(super) use bpf::{bpf_attach, bpf_create_map, bpf_load_program};
pub(super) use pages::{Pages, page_bytes};

/// The descriptor that a system call returned, or why it returned none.
fn owned_fd(result: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(result) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
