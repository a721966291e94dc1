//! Writes that the kernel notes by page: userfaultfd, and the scan of `/proc/self/pagemap`.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

use super::pages::Pages;

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

#[repr(C)]
struct PagemapScan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Pages next to each other that a scan found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(in crate::probes) struct PageRegion {
    pub(in crate::probes) start: u64,
    pub(in crate::probes) end: u64,
    categories: u64,
}

const UFFDIO_API: Opcode = opcode::read_write::<UffdApi>(0xAA, 0x3F);
const UFFDIO_REGISTER: Opcode = opcode::read_write::<UffdRegister>(0xAA, 0x00);
const PAGEMAP_SCAN: Opcode = opcode::read_write::<PagemapScan>(b'f', 16);
const UFFD_API_VERSION: u64 = 0xAA;
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 1 << 1;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const SCAN_WP_MATCHING: u64 = 1 << 0;
const SCAN_CHECK_WPASYNC: u64 = 1 << 1;

/// A userfault descriptor that lets the kernel note writes by itself.
pub(in crate::probes) fn uffd_open() -> io::Result<OwnedFd> {
    const USER_MODE_ONLY: u32 = 1;
    let flags =
        UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
    // SAFETY: only memory of our own is registered with it, in a mode in which no access waits for us.
    Ok(unsafe { userfaultfd(flags) }?)
}

/// Asks for asynchronous write protection; refused by kernels before 6.7.
pub(in crate::probes) fn uffd_enable_write_notes(uffd: &OwnedFd) -> io::Result<()> {
    let mut api = UffdApi { api: UFFD_API_VERSION, features: WP_UNPOPULATED | WP_ASYNC, ioctls: 0 };
    // SAFETY: the operation reads and writes this structure.
    unsafe { ioctl(uffd, Updater::<UFFDIO_API, _>::new(&mut api)) }?;
    Ok(())
}

/// Has writes to these pages noted.
pub(in crate::probes) fn uffd_register(uffd: &OwnedFd, pages: &Pages) -> io::Result<()> {
    let mut register =
        UffdRegister { start: pages.address(), len: pages.bytes() as u64, mode: REGISTER_MODE_WP, ioctls: 0 };
    // SAFETY: the operation reads and writes this structure, and concerns memory of a probe alone.
    unsafe { ioctl(uffd, Updater::<UFFDIO_REGISTER, _>::new(&mut register)) }?;
    Ok(())
}

/// Pages that were written since the last call, by `/proc/self/pagemap`.
pub(in crate::probes) fn pagemap_take_written(pagemap: &File, pages: &Pages) -> io::Result<Vec<PageRegion>> {
    let mut regions = [PageRegion::default(); 16];
    let mut scan = PagemapScan {
        size: size_of::<PagemapScan>() as u64,
        flags: SCAN_WP_MATCHING | SCAN_CHECK_WPASYNC,
        start: pages.address(),
        end: pages.address() + pages.bytes() as u64,
        walk_end: 0,
        regions: regions.as_mut_ptr() as u64,
        regions_len: regions.len() as u64,
        max_pages: 0,
        category_inverted: 0,
        category_mask: PAGE_IS_WRITTEN,
        category_anyof_mask: 0,
        return_mask: PAGE_IS_WRITTEN,
    };
    // SAFETY: the operation reads and writes this structure and writes at most `regions_len` regions. The number that it
    // returns is the count of them, which rustix's patterns do not give, so it is called directly.
    let result = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as libc::c_ulong, ptr::from_mut(&mut scan)) };
    let count = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
    Ok(regions[..count.min(regions.len())].to_vec())
}
