//! Memory that probes try things on.

use std::io;
use std::mem::size_of;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

/// Memory of our own, mapped for a probe and given back with it.
pub(in crate::probes) struct Pages {
    address: NonNull<u8>,
    bytes: usize,
}

impl Pages {
    /// Fresh memory that was never touched, in a mapping of its own.
    pub(in crate::probes) fn new(count: usize) -> io::Result<Self> {
        let bytes = count * page_bytes();
        // SAFETY: the kernel chooses the place, so nothing of ours is mapped over.
        let address =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)? };
        let pages = Self::from_raw(address.cast(), bytes)?;
        // The kernel joins neighbours that are alike, and counts accesses per mapping.
        // SAFETY: it concerns this memory alone, and only whether a core dump would hold it.
        unsafe { madvise(address, bytes, Advice::LinuxDontDump)? };
        Ok(pages)
    }

    fn from_raw(address: *mut u8, bytes: usize) -> io::Result<Self> {
        let address = NonNull::new(address).ok_or_else(|| io::Error::other("memory was mapped at address 0"))?;
        Ok(Self { address, bytes })
    }

    pub(in crate::probes) fn address(&self) -> u64 {
        self.address.as_ptr() as u64
    }

    pub(in crate::probes) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes to one page.
    pub(in crate::probes) fn touch(&mut self, page: usize) {
        let offset = page * page_bytes();
        assert!(offset < self.bytes, "page {page} is beyond the mapping");
        // SAFETY: the offset is inside the mapping, which is ours alone; volatile, so that the write takes place.
        unsafe { self.address.add(offset).write_volatile(1) };
    }

    /// Writes to all pages.
    pub(in crate::probes) fn touch_all(&mut self) {
        (0..self.bytes / page_bytes()).for_each(|page| self.touch(page));
    }

    /// Has the processor look these pages up anew: what it remembers of them, it does not mark as accessed again.
    pub(in crate::probes) fn forget_translations(&mut self) -> io::Result<()> {
        for protection in [MprotectFlags::empty(), MprotectFlags::READ | MprotectFlags::WRITE] {
            // SAFETY: it concerns this memory alone, which nobody accesses meanwhile and which ends as it began.
            unsafe { mprotect(self.address.as_ptr().cast(), self.bytes, protection)? };
        }
        Ok(())
    }

    /// Loads each word of all pages.
    pub(in crate::probes) fn read_all(&self) {
        for offset in (0..self.bytes).step_by(size_of::<u64>()) {
            // SAFETY: the offset is inside the mapping and aligned, as the mapping is; volatile, so that it takes place.
            unsafe { self.address.add(offset).cast::<u64>().read_volatile() };
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nobody else knows of it. Failing leaves it mapped, which does no harm.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

pub(in crate::probes) fn page_bytes() -> usize {
    rustix::param::page_size()
}
