//! What a process knows of its own recording, in a page that the kernel empties in every forked child.
//!
//! A child that wrote into its parent's ring would ruin it. Handlers of `pthread_atfork` do not run in children made by `clone`,
//! the page is empty in those too. A child of `vfork` shares it with its parent, which waits meanwhile.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The page.
pub(crate) struct ForkPage {
    /// Number of the ring among those of this process and its ancestors; 0 if this process has none yet.
    pub(crate) generation: AtomicU64,
    /// Whether a thread has begun to make it.
    pub(crate) is_being_made: AtomicU32,
    /// Chunks of the ring.
    pub(crate) chunks: AtomicU32,
    /// The ring.
    pub(crate) base: AtomicPtr<u8>,
}

static PAGE: AtomicPtr<ForkPage> = AtomicPtr::new(null_mut());

/// The page of this process, once it was made.
#[inline]
pub(crate) fn fork_page() -> Option<&'static ForkPage> {
    // SAFETY: the page is never unmapped, and zeros are a valid value.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

/// Makes the page; false if the kernel does not know how to empty it (before 4.14).
pub(crate) fn make() -> bool {
    const BYTES: usize = 4096;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping, by the system call: the function would come back here.
    let page = unsafe { crate::system_calls::map(null_mut(), BYTES, protection, flags, -1, 0) };
    if page <= 0 {
        return false;
    }
    // SAFETY: concerns the new page alone.
    let code = unsafe { libc::syscall(libc::SYS_madvise, page, BYTES, libc::MADV_WIPEONFORK) };
    if code == 0 {
        PAGE.store(page as *mut ForkPage, Ordering::Release);
    }
    code == 0
}
