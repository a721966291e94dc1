//! What is allocated, call by call.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::AllocatorCall;

/// Allocations that are followed at a time, in about half a gigabyte. Further ones are counted, and from then on nothing is
/// said about what is allocated.
const MAX_LIVE: usize = 16 << 20;
/// Mapped ranges that are followed; a process has at most 65,530 by the kernel's default.
const MAX_RANGES: usize = 1 << 20;

/// Memory of one process that was allocated and not freed.
///
/// memray misses the end of some allocations, since it does not record itself. If another one is made at the same address,
/// the earlier one is taken as freed then; `memray stats` goes on counting it.
#[derive(Debug, Default)]
pub struct Heap {
    live: FxHashMap<u64, u64>,
    /// Ends of mapped ranges by their beginnings; they do not overlap.
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
    peak_bytes: u64,
    not_followed: u64,
}

impl Heap {
    /// Takes the next call; the bytes that it freed, none if nothing was known to be there.
    pub fn take(&mut self, call: &AllocatorCall) -> Option<u64> {
        let size_bytes = call.size_bytes.unwrap_or(0);
        let freed = match (call.allocator.is_free(), call.allocator.is_ranged()) {
            (true, false) => self.live.remove(&call.address),
            (false, false) => self.allocate(call.address, size_bytes),
            (true, true) => self.unmap(call.address, size_bytes),
            (false, true) => self.map(call.address, size_bytes),
        };
        self.bytes = self.bytes.saturating_sub(freed.unwrap_or(0));
        if !call.allocator.is_free() {
            self.bytes = self.bytes.saturating_add(size_bytes);
        }
        self.peak_bytes = self.peak_bytes.max(self.bytes);
        freed
    }

    /// Bytes that are allocated now; none if not all allocations could be followed.
    pub fn bytes(&self) -> Option<u64> {
        (self.not_followed == 0).then_some(self.bytes)
    }

    /// The most that were, in the same way.
    pub fn peak_bytes(&self) -> Option<u64> {
        (self.not_followed == 0).then_some(self.peak_bytes)
    }

    /// Allocations that were not followed because there were too many.
    pub fn not_followed(&self) -> u64 {
        self.not_followed
    }

    fn allocate(&mut self, address: u64, size_bytes: u64) -> Option<u64> {
        let earlier = self.live.remove(&address);
        match self.live.len() < MAX_LIVE {
            true => drop(self.live.insert(address, size_bytes)),
            false => self.not_followed += 1,
        }
        earlier
    }

    /// A mapping takes the place of others that are there.
    fn map(&mut self, address: u64, size_bytes: u64) -> Option<u64> {
        let earlier = self.unmap(address, size_bytes);
        let end = address.saturating_add(size_bytes);
        match self.ranges.len() < MAX_RANGES {
            _ if end == address => {}
            true => drop(self.ranges.insert(address, end)),
            false => self.not_followed += 1,
        }
        earlier
    }

    fn unmap(&mut self, address: u64, size_bytes: u64) -> Option<u64> {
        let end = address.saturating_add(size_bytes);
        let mut freed = 0;
        // The range that begins before, which may reach into this one or beyond it.
        let before = self.ranges.range(..address).next_back().map(|(start, end)| (*start, *end));
        if let Some((start, before_end)) = before.filter(|(_, before_end)| *before_end > address) {
            self.ranges.insert(start, address);
            freed += before_end.min(end) - address;
            self.keep_rest(before_end, end);
        }
        while let Some((start, within_end)) = self.ranges.range(address..end).next().map(|(start, end)| (*start, *end))
        {
            self.ranges.remove(&start);
            freed += within_end.min(end) - start;
            self.keep_rest(within_end, end);
        }
        Some(freed).filter(|freed| *freed > 0)
    }

    /// What of a range is behind the part that was unmapped.
    fn keep_rest(&mut self, range_end: u64, unmapped_end: u64) {
        if range_end > unmapped_end {
            self.ranges.insert(unmapped_end, range_end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Allocator;
    use super::*;

    fn call(allocator: Allocator, address: u64, size_bytes: u64) -> AllocatorCall {
        let size_bytes = (!allocator.frees_one()).then_some(size_bytes);
        AllocatorCall { thread_id: 1, allocator, address, size_bytes, stack: None, native_stack: None }
    }

    fn freed(heap: &mut Heap, allocator: Allocator, address: u64, size_bytes: u64) -> Option<u64> {
        heap.take(&call(allocator, address, size_bytes))
    }

    #[test]
    fn bytes_are_those_of_what_was_not_freed() {
        let mut heap = Heap::default();
        assert_eq!(freed(&mut heap, Allocator::Malloc, 0x10, 100), None);
        assert_eq!(freed(&mut heap, Allocator::Calloc, 0x20, 50), None);
        assert_eq!(freed(&mut heap, Allocator::Free, 0x10, 0), Some(100));
        assert_eq!(freed(&mut heap, Allocator::Free, 0x10, 0), None, "it is free already");
        assert_eq!((heap.bytes(), heap.peak_bytes()), (Some(50), Some(150)));
        // The end of the one before was not seen.
        assert_eq!(freed(&mut heap, Allocator::Realloc, 0x20, 10), Some(50));
        assert_eq!((heap.bytes(), heap.peak_bytes()), (Some(10), Some(150)));
    }

    #[test]
    fn a_part_of_a_mapping_can_be_unmapped_and_several_at_once() {
        let mut heap = Heap::default();
        freed(&mut heap, Allocator::Mmap, 0x1000, 0x4000);
        assert_eq!(freed(&mut heap, Allocator::Munmap, 0x2000, 0x1000), Some(0x1000), "the middle");
        assert_eq!(freed(&mut heap, Allocator::Munmap, 0x2000, 0x1000), None);
        freed(&mut heap, Allocator::Mmap, 0x8000, 0x1000);
        assert_eq!(freed(&mut heap, Allocator::Munmap, 0x1800, 0x10000), Some(0x800 + 0x2000 + 0x1000));
        assert_eq!(heap.bytes(), Some(0x800));
        assert_eq!(freed(&mut heap, Allocator::Mmap, 0x1400, 0x800), Some(0x400), "one over the other");
        assert_eq!(freed(&mut heap, Allocator::Munmap, 0, u64::MAX), Some(0x400 + 0x800));
        assert_eq!(heap.bytes(), Some(0));
    }
}
