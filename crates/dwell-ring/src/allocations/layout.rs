//! What lies where in the file, and the side of it that writes.
//!
//! ```text
//! offset     0  header: who, when, how many chunks; counters, each in a cache line of its own
//!         4096  queue of free chunks: u32 for each chunk
//!   whole page  chunks of 4096 bytes: 64 of them about the chunk, then 126 events of 32 bytes
//! ```
//!
//! The file is allocated in full when it is made: a disk that fills up later cannot turn a store into SIGBUS.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{Moment, TickSource};

/// Environment variable with the folder in which processes make their rings of allocations.
pub const ALLOCATION_DIR_VARIABLE: &str = "DWELL_ALLOC_DIR";

/// Environment variable with the bytes of such a ring, if not [`DEFAULT_ALLOCATION_RING_BYTES`].
pub const ALLOCATION_RING_BYTES_VARIABLE: &str = "DWELL_ALLOC_RING_BYTES";

/// Bytes of a ring: a million events, more than four busy threads make between two looks of the observer.
pub const DEFAULT_ALLOCATION_RING_BYTES: usize = 32 << 20;

/// Version of the layout.
pub const VERSION: u32 = 1;

pub(super) const MAGIC: [u8; 8] = *b"DWELLALC";
const PAGE_BYTES: usize = 4096;
/// Events that a chunk has room for.
pub const EVENTS_PER_CHUNK: usize = (PAGE_BYTES - 64) / size_of::<RawEvent>();
/// Longest path of a program that is kept.
const PROGRAM_BYTES: usize = 1024;

#[repr(C, align(64))]
struct CacheLine<T>(T);

/// Begin of a ring. All but the counters is written before the ring gets its final name.
#[repr(C)]
pub struct Header {
    pub(super) magic: [u8; 8],
    pub(super) version: u32,
    /// Chunks of the ring.
    pub chunks: u32,
    /// Process that writes.
    pub pid: u32,
    /// [`TickSource`].
    pub tick_source: u32,
    /// When the ring was made.
    pub made: Moment,
    /// The process that this one has its memory from, and the number of its ring (`made.ns`); 0 if there is none that is recorded.
    pub parent_pid: u32,
    pub(super) reserved: u32,
    /// When the ring of that process was made.
    pub parent_made_ns: u64,
    /// When it forked, by the counter.
    pub forked_ticks: u64,
    /// Number of the namespace that `pid` and the threads are of; 0 if it is not known.
    pub pid_namespace: u64,
    /// The program, up to the first zero.
    pub program: [u8; PROGRAM_BYTES],
    counters: [CacheLine<AtomicU64>; 6],
}

/// Chunks that were ever taken out of the queue of free ones: stored by the process.
const TAKEN: usize = 0;
/// Chunks that were ever put into it: stored by the observer.
const FREED: usize = 1;
/// Events for which there was no chunk.
const OVERFLOWED: usize = 2;
/// Events that came while the thread was writing another one, in a signal handler, and those before there was a ring.
const UNTIMELY: usize = 3;
/// The last moment that the observer has noted: ticks and nanoseconds.
const NOTED_TICKS: usize = 4;
const NOTED_NS: usize = 5;

/// One event as it lies in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RawEvent {
    /// When, by the counter.
    pub ticks: u64,
    /// First byte.
    pub address: u64,
    /// Bytes; 0 for calls that are not given any.
    pub size_bytes: u64,
    /// [`AllocationCall`](super::AllocationCall).
    pub call: u32,
    /// Always 0.
    pub reserved: u32,
}

/// Events of one thread.
#[repr(C, align(4096))]
pub struct Chunk {
    /// How many were taken out of the queue up to this one; 0 until the thread has entered itself.
    pub(super) sequence: AtomicU64,
    pub(super) thread: AtomicU32,
    /// Events that are whole.
    pub(super) published: AtomicU32,
    /// Whether the thread has gone on to another chunk.
    pub(super) is_closed: AtomicU32,
    /// Events that the observer has written down.
    pub(super) written: AtomicU32,
    reserved: [u64; 5],
    events: [std::cell::UnsafeCell<RawEvent>; EVENTS_PER_CHUNK],
}

impl Chunk {
    /// Adds an event at the end and says how many there are now. Only the thread that took the chunk may do that, and `used` is
    /// what the last call returned, or 0.
    ///
    /// # Safety
    ///
    /// The chunk is the calling thread's, and no other call is under way in it.
    #[inline]
    pub unsafe fn push(&self, used: u32, event: RawEvent) -> u32 {
        let slot = &self.events[used as usize % EVENTS_PER_CHUNK];
        // SAFETY: the observer does not read a slot before it was published.
        unsafe { slot.get().write(event) };
        let used = used.wrapping_add(1);
        self.published.store(used, Ordering::Release);
        used
    }

    /// Says that no event will follow in this chunk.
    pub fn close(&self) {
        self.is_closed.store(1, Ordering::Release);
    }

    /// An event that was published.
    pub(super) fn event(&self, index: usize) -> RawEvent {
        // SAFETY: published events are not written to again before the chunk was put back into the queue.
        unsafe { self.events[index % EVENTS_PER_CHUNK].get().read() }
    }
}

/// Bytes from the begin of the file to the first chunk.
fn chunks_offset(chunks: usize) -> usize {
    (PAGE_BYTES + chunks * size_of::<u32>()).next_multiple_of(PAGE_BYTES)
}

/// Bytes of a file with so many chunks.
pub fn bytes_of_ring(chunks: usize) -> usize {
    chunks_offset(chunks) + chunks * size_of::<Chunk>()
}

/// Chunks of a ring of about so many bytes; at least two.
pub fn chunks_in(bytes: usize) -> usize {
    (bytes / size_of::<Chunk>()).clamp(2, 1 << 20)
}

/// A mapped ring, as both sides see it. It does not end the mapping.
#[derive(Clone, Copy, Debug)]
pub struct AllocationRing {
    base: *mut u8,
    chunks: usize,
}

impl AllocationRing {
    /// A ring in a mapping that was made for it.
    ///
    /// # Safety
    ///
    /// At `base` lie [`bytes_of_ring`] bytes, at the begin of a page, as long as the value is used, with zeros or with a ring of so
    /// many chunks.
    pub unsafe fn at(base: *mut u8, chunks: usize) -> Self {
        Self { base, chunks }
    }

    /// Fills the header of a ring that nobody else knows yet, and puts all chunks into the queue.
    pub fn initialise(&self, fill: impl FnOnce(&mut Header)) {
        // SAFETY: nobody else knows the mapping, which is larger than a header and was zeros: a valid header.
        let header = unsafe { &mut *self.base.cast::<Header>() };
        fill(header);
        header.magic = MAGIC;
        header.version = VERSION;
        header.chunks = self.chunks as u32;
        for chunk in 0..self.chunks {
            self.queued(chunk as u64).store(chunk as u32, Ordering::Relaxed);
        }
        self.counter(FREED).store(self.chunks as u64, Ordering::Release);
    }

    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header.
        unsafe { &*self.base.cast::<Header>() }
    }

    fn counter(&self, which: usize) -> &AtomicU64 {
        &self.header().counters[which].0
    }

    fn queued(&self, position: u64) -> &AtomicU32 {
        let index = (position % self.chunks as u64) as usize;
        // SAFETY: the queue has as many entries as there are chunks, and lies inside the mapping.
        unsafe { &*self.base.add(PAGE_BYTES).cast::<AtomicU32>().add(index) }
    }

    pub(super) fn chunk(&self, index: u32) -> Option<&Chunk> {
        let index = index as usize;
        // SAFETY: the chunk lies inside the mapping, which chunks are aligned in.
        (index < self.chunks).then(|| unsafe { &*self.base.add(chunks_offset(self.chunks)).cast::<Chunk>().add(index) })
    }

    /// Takes a free chunk for a thread; none if there is none. Never waits.
    pub fn take_chunk(&self, thread: u32) -> Option<&Chunk> {
        let mut taken = self.counter(TAKEN).load(Ordering::Acquire);
        loop {
            if taken >= self.counter(FREED).load(Ordering::Acquire) {
                return None;
            }
            // Read before the position is taken: until then the observer cannot use the entry again.
            let index = self.queued(taken).load(Ordering::Acquire);
            let next = taken.wrapping_add(1);
            match self.counter(TAKEN).compare_exchange_weak(taken, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let chunk = self.chunk(index)?;
                    chunk.thread.store(thread, Ordering::Relaxed);
                    chunk.sequence.store(next, Ordering::Release);
                    return Some(chunk);
                }
                Err(found) => taken = found,
            }
        }
    }

    /// Counts an event for which there was no chunk.
    pub fn overflow(&self) {
        self.counter(OVERFLOWED).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts events that came when none could be written.
    pub fn untimely(&self, events: u64) {
        self.counter(UNTIMELY).fetch_add(events, Ordering::Relaxed);
    }

    /// Events for which there was no chunk, and those that came when none could be written.
    pub fn lost(&self) -> (u64, u64) {
        (self.counter(OVERFLOWED).load(Ordering::Acquire), self.counter(UNTIMELY).load(Ordering::Acquire))
    }

    /// Chunks that were ever taken.
    pub(super) fn taken(&self) -> u64 {
        self.counter(TAKEN).load(Ordering::Acquire)
    }

    /// Chunks that are free.
    pub(super) fn freed(&self) -> u64 {
        self.counter(FREED).load(Ordering::Acquire)
    }

    /// The chunk that was taken as the one after so many others.
    pub(super) fn taken_as(&self, position: u64) -> u32 {
        self.queued(position).load(Ordering::Acquire)
    }

    /// Puts a chunk back into the queue; only the observer does that.
    pub(super) fn give_back(&self, index: u32) {
        let Some(chunk) = self.chunk(index) else { return };
        for field in [&chunk.thread, &chunk.published, &chunk.is_closed, &chunk.written] {
            field.store(0, Ordering::Relaxed);
        }
        chunk.sequence.store(0, Ordering::Release);
        let freed = self.freed();
        self.queued(freed).store(index, Ordering::Relaxed);
        self.counter(FREED).store(freed.wrapping_add(1), Ordering::Release);
    }

    /// Keeps a moment, for whoever reads the ring if the observer is killed.
    pub(super) fn note_moment(&self, moment: Moment) {
        self.counter(NOTED_NS).store(moment.ns, Ordering::Relaxed);
        self.counter(NOTED_TICKS).store(moment.ticks, Ordering::Release);
    }

    /// The moment that was noted last.
    pub(super) fn noted_moment(&self) -> Moment {
        let ticks = self.counter(NOTED_TICKS).load(Ordering::Acquire);
        Moment { ticks, ns: self.counter(NOTED_NS).load(Ordering::Relaxed) }
    }

    /// What ticks in it.
    pub fn tick_source(&self) -> TickSource {
        TickSource::from_number(self.header().tick_source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_fits_into_its_page_and_a_chunk_is_one() {
        assert!(size_of::<Header>() <= PAGE_BYTES);
        assert_eq!(size_of::<Chunk>(), PAGE_BYTES);
        assert_eq!(EVENTS_PER_CHUNK, 126);
        assert_eq!(size_of::<RawEvent>(), 32);
    }
}
