//! System calls whose functions would come back here.
//!
//! The function that makes any system call takes whole registers. An `int` that is passed to it on the stack has whatever lay there in
//! its upper half, which a kernel takes for a part of the number: an offset of 0 then lies beyond the end of every file.

use std::ffi::{c_int, c_long, c_void};

/// Maps memory; what the call returns, which is -1 if it failed.
///
/// # Safety
///
/// As `mmap`.
pub(crate) unsafe fn map(
    hint: *mut c_void,
    size: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> c_long {
    let [protection, flags, file] = [protection, flags, file].map(c_long::from);
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_mmap, hint, size, protection, flags, file, offset) }
}

/// Moves a mapping; what the call returns, which is -1 if it failed.
///
/// # Safety
///
/// As `mremap`.
pub(crate) unsafe fn remap(
    address: *mut c_void,
    size: usize,
    new_size: usize,
    flags: c_int,
    new_address: *mut c_void,
) -> c_long {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_mremap, address, size, new_size, c_long::from(flags), new_address) }
}
