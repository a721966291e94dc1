//! Memory of this process.

#![allow(unsafe_code, reason = "no crate wraps malloc_trim, mallopt and sbrk")]

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

#[cfg(target_env = "gnu")]
const PAGE_BYTES: usize = 4096;
/// Room on the heap that is asked for at once, in huge pages.
#[cfg(target_env = "gnu")]
const HEAP_BYTES: libc::c_int = 64 << 20;
/// Larger blocks get mappings of their own. Of those below, a long analysis has many.
#[cfg(target_env = "gnu")]
const OWN_MAPPING_BYTES: libc::c_int = 8 << 20;

/// Lets the heap of this thread grow in huge pages, where the kernel gives them on request, and keep what was freed.
///
/// For the start of a command that computes over tens of megabytes: a fault for each 4 KiB of them takes a tenth of its
/// time. Not for a process that observes others: what it holds would be rounded up to 2 MiB.
pub fn work_in_huge_pages() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the settings concern the allocator alone. The heap is its memory between the two breaks, which only it
    // moves; advice changes no content, and memory that cannot be advised stays as it is.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        libc::mallopt(libc::M_TOP_PAD, HEAP_BYTES);
        let begin = libc::sbrk(0) as usize;
        // More than the heap has left, so that it grows now.
        let block = std::hint::black_box(libc::malloc(OWN_MAPPING_BYTES as usize / 2));
        libc::free(block);
        let end = libc::sbrk(0) as usize;
        let begin = begin.next_multiple_of(PAGE_BYTES);
        if begin < end {
            libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE);
        }
    }
}
