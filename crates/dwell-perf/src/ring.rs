//! The ring that the kernel puts records into.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::event::Event;

/// Where the positions are in the first page (`perf_event_mmap_page`).
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

/// The ring of an event: one page about it, and a power of two of pages with records.
#[derive(Debug)]
pub struct Ring {
    address: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and the kernel does not care which thread reads it.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event. The number of pages must be a power of two.
    pub fn new(event: &Event, data_pages: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let data_bytes = data_pages * page_bytes;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing of ours is mapped over.
        let address =
            unsafe { mmap(ptr::null_mut(), page_bytes + data_bytes, protection, MapFlags::SHARED, event.as_fd(), 0)? };
        let address = NonNull::new(address.cast()).ok_or_else(|| io::Error::other("a ring was mapped at address 0"))?;
        Ok(Self { address, page_bytes, data_bytes })
    }

    /// Takes all records out, in order, to the end of `into`. They are whole: the kernel moves its position record by record.
    pub fn drain(&mut self, into: &mut Vec<u8>) {
        // What the kernel wrote before it moved its position is to be seen after it.
        let head = self.position(HEAD_AT).load(Ordering::Acquire);
        let tail = self.position(TAIL_AT).load(Ordering::Relaxed);
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.data_bytes);
        let begin = tail as usize & (self.data_bytes - 1);
        let first = length.min(self.data_bytes - begin);
        self.copy(begin, first, into);
        self.copy(0, length - first, into);
        // The kernel may write over it from now on.
        self.position(TAIL_AT).store(head, Ordering::Release);
    }

    /// Bytes of records that it holds.
    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: inside the first page and aligned; the kernel changes it too, so it is an atomic.
        unsafe { self.address.add(at).cast::<AtomicU64>().as_ref() }
    }

    fn copy(&self, begin: usize, length: usize, into: &mut Vec<u8>) {
        assert!(begin + length <= self.data_bytes, "{length} bytes at {begin} are beyond the ring");
        // SAFETY: inside the mapping, and between tail and head, where the kernel does not write before the tail is moved.
        let bytes = unsafe { std::slice::from_raw_parts(self.address.add(self.page_bytes + begin).as_ptr(), length) };
        into.extend_from_slice(bytes);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nobody else knows of it. Failing leaves it mapped, which does no harm.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.page_bytes + self.data_bytes) };
    }
}
