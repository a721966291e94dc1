//! Memory of this process.

#![allow(unsafe_code, reason = "no crate wraps malloc_trim")]

/// Gives memory that this process has freed back to the system.
///
/// The allocator keeps what was freed for later. A process that watches others would be measured with what it needed for
/// the work before.
pub fn release_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it concerns free memory of the allocator alone, and takes the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
