//! The malloc family. `new` and `delete` of C++ come here too.
//!
//! What gives memory is noted after the call, what takes it back before: of two threads that have the same memory one after the
//! other, the first is then known to have given it back before the second had it.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use dwell_ring::allocations::AllocationCall;

use crate::originals::{self, early};
use crate::recording::{clock, note};

/// Notes what a call has returned.
#[inline]
fn allocated(call: AllocationCall, address: *mut c_void, size: usize) -> *mut c_void {
    if let Some(clock) = clock().filter(|_| !address.is_null()) {
        note(call, clock.after(), address, size);
    }
    address
}

/// Sets `errno`, as the functions do that this library stands in for.
fn out_of_memory() -> *mut c_void {
    // SAFETY: the thread's own variable.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    let Some(original) = originals::malloc() else { return early::allocate(size, 0) };
    // SAFETY: the program's own call, passed on; so everywhere below.
    allocated(AllocationCall::Malloc, unsafe { original(size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(original) = originals::calloc() else {
        return count.checked_mul(size).map_or_else(out_of_memory, |bytes| early::allocate(bytes, 0));
    };
    // SAFETY: as above.
    allocated(AllocationCall::Calloc, unsafe { original(count, size) }, count.wrapping_mul(size))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(address: *mut c_void) {
    if address.is_null() || early::holds(address) {
        return;
    }
    if let Some(clock) = clock() {
        note(AllocationCall::Free, clock.before(), address, 0);
    }
    if let Some(original) = originals::free() {
        // SAFETY: as above.
        unsafe { original(address) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(address: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: as above.
    unsafe { reallocate(AllocationCall::Realloc, address, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn reallocarray(address: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: as above.
        Some(bytes) => unsafe { reallocate(AllocationCall::ReallocArray, address, bytes) },
        None => out_of_memory(),
    }
}

/// A call that gives memory up and returns other memory.
unsafe fn reallocate(call: AllocationCall, address: *mut c_void, size: usize) -> *mut c_void {
    let Some(original) = originals::realloc().filter(|_| !early::holds(address)) else {
        // SAFETY: as above.
        return unsafe { reallocate_early(address, size) };
    };
    let clock = clock();
    if let Some(clock) = clock.filter(|_| !address.is_null()) {
        note(AllocationCall::ReallocFree, clock.before(), address, 0);
    }
    // SAFETY: as above.
    let moved = unsafe { original(address, size) };
    let has_failed = moved.is_null() && size > 0 && !address.is_null();
    if let Some(clock) = clock.filter(|_| has_failed) {
        note(AllocationCall::Undo, clock.after(), address, 0);
    }
    allocated(call, moved, size)
}

/// Of memory that was given while the originals were looked for, or while they are.
#[cold]
unsafe fn reallocate_early(address: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: a plain allocation.
    let moved = unsafe { malloc(size) };
    if !moved.is_null() && early::holds(address) {
        // SAFETY: the block has so many bytes, the new one at least as many as are copied.
        unsafe { std::ptr::copy_nonoverlapping(address.cast::<u8>(), moved.cast(), early::size_of(address).min(size)) };
    }
    moved
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(address: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    let Some(original) = originals::posix_memalign() else {
        let block = early::allocate(size, alignment);
        if block.is_null() {
            return libc::ENOMEM;
        }
        // SAFETY: the program's own place for the result.
        unsafe { *address = block };
        return 0;
    };
    // SAFETY: as above.
    let code = unsafe { original(address, alignment, size) };
    if code == 0 {
        // SAFETY: the call has stored its result there.
        allocated(AllocationCall::PosixMemalign, unsafe { *address }, size);
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    let Some(original) = originals::aligned_alloc() else { return early::allocate(size, alignment) };
    // SAFETY: as above.
    allocated(AllocationCall::AlignedAlloc, unsafe { original(alignment, size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    let Some(original) = originals::memalign() else { return early::allocate(size, alignment) };
    // SAFETY: as above.
    allocated(AllocationCall::Memalign, unsafe { original(alignment, size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    let Some(original) = originals::valloc() else { return early::allocate(size, 4096) };
    // SAFETY: as above.
    allocated(AllocationCall::Valloc, unsafe { original(size) }, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let Some(original) = originals::pvalloc() else { return early::allocate(size.next_multiple_of(4096), 4096) };
    // SAFETY: as above.
    allocated(AllocationCall::Pvalloc, unsafe { original(size) }, size)
}
