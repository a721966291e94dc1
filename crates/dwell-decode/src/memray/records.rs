//! What a capture says, record by record.

use super::{Allocator, ImagePlace, StackId};

/// What a capture says next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureRecord {
    /// A call of an allocator.
    Call(AllocatorCall),
    /// The memory of the process at a time.
    Memory(MemorySample),
    /// A stack of Python functions that did not come before; [`MemrayCapture::location`](super::MemrayCapture::location) says what it is.
    Stack(StackId),
    /// A frame of native code that did not come before.
    NativeFrame(NativeFrame),
    /// Sums of the calls from one place.
    Site(AllocationSite),
}

/// A call of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatorCall {
    /// Thread that called it, as memray numbers them.
    pub thread_id: u64,
    /// The allocator.
    pub allocator: Allocator,
    /// First byte.
    pub address: u64,
    /// Bytes that were asked for or unmapped; none for `free`, which does not say.
    pub size_bytes: Option<u64>,
    /// Python functions that led to it; none of calls that free, and outside of any function.
    pub stack: Option<StackId>,
    /// Native functions that led to it, as the number of a frame; none of calls that free, and where they were not recorded.
    pub native_stack: Option<u64>,
}

/// The memory of the process at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySample {
    /// Milliseconds since 1970, by the wall clock.
    pub unix_ms: i64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Allocated and not freed, as memray counted it; only captures with sums say it.
    pub heap_bytes: Option<u64>,
}

/// A frame of native code, with the frames that called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeFrame {
    /// Its number, from 1.
    pub id: u64,
    /// Its caller; none for the outermost.
    pub parent: Option<u64>,
    /// Address to which its call returns.
    pub return_address: u64,
    /// Where the call is; none if no file is mapped there.
    pub place: Option<ImagePlace>,
}

/// What was allocated from one place: by one allocator, in one thread, with one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationSite {
    /// Thread.
    pub thread_id: u64,
    /// Allocator.
    pub allocator: Allocator,
    /// Python functions.
    pub stack: Option<StackId>,
    /// Native functions.
    pub native_stack: Option<u64>,
    /// Allocations that were there when most bytes were allocated.
    pub peak_allocations: u64,
    /// Their bytes.
    pub peak_bytes: u64,
    /// Allocations that were never freed.
    pub leaked_allocations: u64,
    /// Their bytes.
    pub leaked_bytes: u64,
}

/// What was read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Calls that allocate.
    pub allocations: u64,
    /// Calls that free.
    pub frees: u64,
    /// Samples of the memory.
    pub memory_samples: u64,
    /// Distinct stacks of Python functions.
    pub stacks: u64,
    /// Distinct frames of native code.
    pub native_frames: u64,
    /// Places with sums.
    pub sites: u64,
    /// Records about objects, which are passed over.
    pub objects: u64,
}
