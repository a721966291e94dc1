//! What each thread knows of its recording.
//!
//! The loader sets it up with the thread, so that reaching it never allocates. Rust's `thread_local!` in a library goes through
//! `__tls_get_addr`, which may allocate after another library was loaded: that call would come back here without end. So on
//! x86-64 the variable is declared in assembly, at a fixed distance from the thread's pointer (the model `initial-exec`).

use dwell_ring::allocations::Chunk;

/// A thread's part of the recording; all zeros before its first call.
#[repr(C)]
pub(crate) struct ThreadSlot {
    /// The ring that the rest belongs to; 0 before the first event.
    pub(crate) generation: u64,
    /// Where events go; null if there is none.
    pub(crate) chunk: *const Chunk,
    /// Events in it.
    pub(crate) used: u32,
    /// The thread's number.
    pub(crate) thread: u32,
    /// Whether an event is being written: a signal handler must not write another one.
    pub(crate) is_busy: u32,
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .tbss.dwell_alloc_thread, \"awT\", @nobits",
    ".p2align 4",
    ".globl dwell_alloc_thread",
    ".hidden dwell_alloc_thread",
    ".type dwell_alloc_thread, @object",
    ".size dwell_alloc_thread, 32",
    "dwell_alloc_thread:",
    ".zero 32",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
const _: () = assert!(size_of::<ThreadSlot>() == 32);

/// The calling thread's slot.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn thread_slot() -> *mut ThreadSlot {
    let slot: *mut ThreadSlot;
    // SAFETY: reads the distance of the variable from the thread's pointer, which the loader has entered, and that pointer.
    unsafe {
        core::arch::asm!(
            "mov {slot}, qword ptr [rip + dwell_alloc_thread@GOTTPOFF]",
            "add {slot}, qword ptr fs:[0]",
            slot = out(reg) slot,
            options(pure, nomem, nostack),
        );
    }
    slot
}

/// The calling thread's slot.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn thread_slot() -> *mut ThreadSlot {
    use std::cell::UnsafeCell;
    thread_local! {
        static SLOT: UnsafeCell<ThreadSlot> = const {
            UnsafeCell::new(ThreadSlot { generation: 0, chunk: std::ptr::null(), used: 0, thread: 0, is_busy: 0 })
        };
    }
    SLOT.with(UnsafeCell::get)
}
