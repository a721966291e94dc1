//! The mmap family, and the end of the data segment.
//!
//! What the C library's own allocator asks of the kernel does not come here: it calls its functions directly.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use dwell_ring::allocations::AllocationCall;

use crate::recording::{clock, note};
use crate::{originals, system_calls};

/// What `mmap` and `mremap` return if they fail, and `sbrk`.
fn failed() -> *mut c_void {
    libc::MAP_FAILED
}

/// Sets `errno` and fails: there is no such function, or it is being looked for.
fn unknown() -> c_int {
    // SAFETY: the thread's own variable.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    hint: *mut c_void,
    size: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    let address = match originals::mmap() {
        // SAFETY: the program's own call, passed on; so everywhere below.
        Some(original) => unsafe { original(hint, size, protection, flags, file, offset) },
        // SAFETY: as above. The system call is what the function does.
        None => unsafe { system_calls::map(hint, size, protection, flags, file, offset) as *mut c_void },
    };
    let call = match flags & libc::MAP_ANONYMOUS {
        0 => AllocationCall::MmapFile,
        _ => AllocationCall::MmapAnonymous,
    };
    if let Some(clock) = clock().filter(|_| address != failed()) {
        note(call, clock.after(), address, size);
    }
    address
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    hint: *mut c_void,
    size: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: as above.
    unsafe { mmap(hint, size, protection, flags, file, offset) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, size: usize) -> c_int {
    let clock = clock();
    if let Some(clock) = clock {
        note(AllocationCall::Munmap, clock.before(), address, size);
    }
    let code = match originals::munmap() {
        // SAFETY: as above.
        Some(original) => unsafe { original(address, size) },
        // SAFETY: as above.
        None => unsafe { libc::syscall(libc::SYS_munmap, address, size) as c_int },
    };
    if let Some(clock) = clock.filter(|_| code != 0) {
        note(AllocationCall::Undo, clock.after(), address, size);
    }
    code
}

/// The last argument is only there for some flags; whatever is in its register is passed on.
#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(
    address: *mut c_void,
    size: usize,
    new_size: usize,
    flags: c_int,
    new_address: *mut c_void,
) -> *mut c_void {
    let clock = clock();
    if let Some(clock) = clock {
        note(AllocationCall::MremapFree, clock.before(), address, size);
    }
    let moved = match originals::mremap() {
        // SAFETY: as above.
        Some(original) => unsafe { original(address, size, new_size, flags, new_address) },
        // SAFETY: as above.
        None => unsafe { system_calls::remap(address, size, new_size, flags, new_address) as *mut c_void },
    };
    match clock {
        Some(clock) if moved == failed() => note(AllocationCall::Undo, clock.after(), address, size),
        Some(clock) => note(AllocationCall::Mremap, clock.after(), moved, new_size),
        None => {}
    }
    moved
}

#[unsafe(no_mangle)]
unsafe extern "C" fn madvise(address: *mut c_void, size: usize, advice: c_int) -> c_int {
    let code = match originals::madvise() {
        // SAFETY: as above.
        Some(original) => unsafe { original(address, size, advice) },
        // SAFETY: as above.
        None => unsafe { libc::syscall(libc::SYS_madvise, address, size, advice) as c_int },
    };
    let call = match advice {
        libc::MADV_DONTNEED => AllocationCall::AdviseDontNeed,
        libc::MADV_FREE => AllocationCall::AdviseFree,
        _ => return code,
    };
    if let Some(clock) = clock().filter(|_| code == 0) {
        note(call, clock.after(), address, size);
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sbrk(increment: isize) -> *mut c_void {
    let Some(original) = originals::sbrk() else {
        unknown();
        return failed();
    };
    // SAFETY: as above.
    let end = unsafe { original(increment) };
    if end != failed() {
        moved_end(end, increment);
    }
    end
}

#[unsafe(no_mangle)]
unsafe extern "C" fn brk(end: *mut c_void) -> c_int {
    let Some(original) = originals::brk() else { return unknown() };
    // SAFETY: as above; an increment of 0 only asks.
    let (before, code) = unsafe { (originals::sbrk().map_or(null_mut(), |sbrk| sbrk(0)), original(end)) };
    if code == 0 && !before.is_null() && before != failed() {
        moved_end(before, (end as isize).wrapping_sub(before as isize));
    }
    code
}

/// Notes that the data segment ends elsewhere.
fn moved_end(before: *mut c_void, by: isize) {
    let Some(clock) = clock() else { return };
    match by {
        1.. => note(AllocationCall::Sbrk, clock.after(), before, by.unsigned_abs()),
        0 => {}
        _ => note(AllocationCall::SbrkFree, clock.after(), before.wrapping_byte_offset(by), by.unsigned_abs()),
    }
}
