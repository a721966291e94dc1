//! Notes calls in the ring of this process.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use dwell_ring::allocations::{AllocationCall, AllocationRing, EVENTS_PER_CHUNK, RawEvent, TickSource};

use crate::fork_page::{ForkPage, fork_page};
use crate::thread_slot::{ThreadSlot, thread_slot};
use crate::{environment, fork_page as page, ring_file};

const UNDECIDED: u32 = 0;
const DECIDING: u32 = 1;
const OFF: u32 = 2;
const BY_CLOCK: u32 = 3;
const BY_COUNTER: u32 = 4;
/// Whether calls are recorded, and by what clock.
static ACTIVITY: AtomicU32 = AtomicU32::new(UNDECIDED);

/// Rings that this process and its ancestors have made.
static GENERATIONS: AtomicU64 = AtomicU64::new(0);
/// Events before there was a ring.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// The clock of the recording; none if nothing is recorded.
#[inline]
pub(crate) fn clock() -> Option<TickSource> {
    match ACTIVITY.load(Ordering::Acquire) {
        BY_COUNTER => Some(TickSource::TimeStampCounter),
        BY_CLOCK => Some(TickSource::Clock),
        OFF => None,
        _ => decide(),
    }
}

/// Finds out whether to record, once.
#[cold]
fn decide() -> Option<TickSource> {
    let is_mine = environment::is_there()
        && ACTIVITY.compare_exchange(UNDECIDED, DECIDING, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if !is_mine {
        EARLY.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    let is_wanted = keeping_errno(|| environment::read() && page::make());
    let source = TickSource::detect();
    let activity = match (is_wanted, source) {
        (false, _) => OFF,
        (true, TickSource::Clock) => BY_CLOCK,
        (true, TickSource::TimeStampCounter) => BY_COUNTER,
    };
    ACTIVITY.store(activity, Ordering::Release);
    is_wanted.then_some(source)
}

/// Notes a call.
#[inline]
pub(crate) fn note(call: AllocationCall, ticks: u64, address: *const c_void, size: usize) {
    let slot = thread_slot();
    // SAFETY: the slot is this thread's. A signal handler that interrupts this finds it busy and leaves it alone.
    unsafe {
        if (*slot).is_busy != 0 {
            return lost_in_handler();
        }
        (*slot).is_busy = 1;
        compiler_fence(Ordering::SeqCst);
        let event =
            RawEvent { ticks, address: address as u64, size_bytes: size as u64, call: call as u32, reserved: 0 };
        write(&mut *slot, event);
        compiler_fence(Ordering::SeqCst);
        (*slot).is_busy = 0;
    }
}

#[inline]
fn write(slot: &mut ThreadSlot, event: RawEvent) {
    let Some(page) = fork_page() else { return };
    let generation = page.generation.load(Ordering::Acquire);
    let has_room = slot.generation == generation && !slot.chunk.is_null() && slot.used < EVENTS_PER_CHUNK as u32;
    if (!has_room || generation == 0) && !find_room(slot, page) {
        return;
    }
    // SAFETY: the chunk was taken for this thread out of the ring of this process, which is never unmapped.
    unsafe { slot.used = (*slot.chunk).push(slot.used, event) };
}

/// Takes a chunk for this thread; false, and the event is counted as lost, if there is none.
#[cold]
fn find_room(slot: &mut ThreadSlot, page: &'static ForkPage) -> bool {
    if page.generation.load(Ordering::Acquire) == 0 && !keeping_errno(|| make_ring(page)) {
        EARLY.fetch_add(1, Ordering::Relaxed);
        return false;
    }
    let ring = ring(page);
    let generation = page.generation.load(Ordering::Acquire);
    if slot.generation != generation {
        // SAFETY: a system call without arguments.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        *slot = ThreadSlot { generation, chunk: null(), used: 0, thread: thread as u32, is_busy: 1 };
    }
    if !slot.chunk.is_null() {
        // SAFETY: as in `write`.
        unsafe { (*slot.chunk).close() };
    }
    slot.used = 0;
    match ring.take_chunk(slot.thread) {
        Some(chunk) => slot.chunk = chunk,
        None => {
            slot.chunk = null();
            ring.overflow();
        }
    }
    !slot.chunk.is_null()
}

/// Makes the ring of this process. False if another thread is about to, or it cannot be made; then nothing more is recorded.
fn make_ring(page: &'static ForkPage) -> bool {
    if page.is_being_made.swap(1, Ordering::AcqRel) != 0 {
        return page.generation.load(Ordering::Acquire) != 0;
    }
    let Some((base, chunks)) = ring_file::make() else {
        ACTIVITY.store(OFF, Ordering::Release);
        return false;
    };
    page.base.store(base, Ordering::Relaxed);
    page.chunks.store(chunks as u32, Ordering::Relaxed);
    ring(page).untimely(EARLY.swap(0, Ordering::Relaxed));
    page.generation.store(GENERATIONS.fetch_add(1, Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    true
}

fn ring(page: &'static ForkPage) -> AllocationRing {
    // SAFETY: the ring of this process, of so many chunks, which is never unmapped.
    unsafe { AllocationRing::at(page.base.load(Ordering::Relaxed), page.chunks.load(Ordering::Relaxed) as usize) }
}

#[cold]
fn lost_in_handler() {
    match fork_page().filter(|page| page.generation.load(Ordering::Acquire) != 0) {
        Some(page) => ring(page).untimely(1),
        None => _ = EARLY.fetch_add(1, Ordering::Relaxed),
    }
}

/// Does something that may set `errno`, which belongs to the program.
fn keeping_errno<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: the thread's own variable.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let outcome = act();
    // SAFETY: as above.
    unsafe { *errno = before };
    outcome
}
