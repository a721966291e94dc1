//! Perf events and the rings that the kernel puts their samples into.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use super::owned_fd;
use super::pages::{Pages, page_bytes};

/// The first version of `perf_event_attr`, which every kernel takes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(in crate::probes) struct PerfAttributes {
    pub(in crate::probes) kind: u32,
    size: u32,
    pub(in crate::probes) config: u64,
    pub(in crate::probes) sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    pub(in crate::probes) config1: u64,
}

/// Samples carry the address that was accessed, and nothing else.
const PERF_SAMPLE_ADDR: u64 = 1 << 3;
const PERF_RECORD_SAMPLE: u32 = 9;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// Least skid that allows an address: `precise_ip` 2, bits 15 and 16.
const PRECISE: u64 = 2 << 15;

impl PerfAttributes {
    /// An event of this process's own code.
    pub(in crate::probes) fn new(kind: u32, config: u64) -> Self {
        let flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        Self { kind, size: size_of::<Self>() as u32, config, flags, ..Self::default() }
    }

    /// A sample with its address, every so many events.
    pub(in crate::probes) fn sampled(mut self, period: u64) -> Self {
        self.sample_period = period;
        self.sample_type = PERF_SAMPLE_ADDR;
        self
    }

    pub(in crate::probes) fn precise(mut self) -> Self {
        self.flags |= PRECISE;
        self
    }

    /// With what the kernel does for this process, for hardware that cannot tell it apart.
    pub(in crate::probes) fn with_kernel(mut self) -> Self {
        self.flags &= !(EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR);
        self
    }
}

/// A counting event of this thread.
pub(in crate::probes) struct PerfEvent {
    file: File,
}

impl PerfEvent {
    /// Opens an event on this thread, on any processor; it counts at once.
    pub(in crate::probes) fn open(attributes: &PerfAttributes, leader: Option<&PerfEvent>) -> io::Result<Self> {
        let group = leader.map_or(-1, |leader| leader.file.as_raw_fd());
        // SAFETY: the kernel reads `size` bytes of the attributes, which is their size; the other arguments are numbers.
        let result =
            unsafe { libc::syscall(libc::SYS_perf_event_open, ptr::from_ref(attributes), 0, -1, group, CLOSE_ON_EXEC) };
        Ok(Self { file: owned_fd(result)?.into() })
    }

    /// Events until now.
    pub(in crate::probes) fn count(&self) -> io::Result<u64> {
        let mut word = [0; 8];
        io::Read::read_exact(&mut &self.file, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// A ring for the samples.
    pub(in crate::probes) fn ring(&self, data_pages: usize) -> io::Result<PerfRing> {
        Ok(PerfRing { pages: Pages::of_event(self.file.as_fd(), data_pages)? })
    }
}

/// Where the kernel puts samples.
pub(in crate::probes) struct PerfRing {
    pages: Pages,
}

impl PerfRing {
    /// Place of the kernel's write position in the first page.
    const HEAD_OFFSET: usize = 1024;

    /// Addresses of the samples, as far as the ring holds them.
    pub(in crate::probes) fn addresses(&self) -> Vec<u64> {
        let head = self.pages.shared_word(Self::HEAD_OFFSET);
        // What the kernel wrote before it moved its position is to be seen after it.
        fence(Ordering::Acquire);
        let data_bytes = self.pages.bytes() - page_bytes();
        // Nothing was consumed, so the kernel stops writing when the ring is full.
        let end = usize::try_from(head).unwrap_or(data_bytes).min(data_bytes);
        let mut addresses = Vec::new();
        let mut offset = 0;
        while offset + 16 <= end {
            // type u32, misc u16, size u16, in this order in memory.
            let header = self.pages.shared_word(page_bytes() + offset).to_ne_bytes();
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if kind == PERF_RECORD_SAMPLE {
                addresses.push(self.pages.shared_word(page_bytes() + offset + 8));
            }
            if size < 8 || !size.is_multiple_of(8) {
                break;
            }
            offset += size;
        }
        addresses
    }
}
