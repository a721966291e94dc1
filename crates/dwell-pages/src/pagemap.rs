//! Pages that were written since they were last asked about: the scan of `/proc/<pid>/pagemap`.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;

use rustix::ioctl::{Opcode, opcode};

use crate::PagesError;

#[repr(C)]
struct PagemapScan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// Addresses of pages next to each other.
pub type PageRange = Range<u64>;

const PAGEMAP_SCAN: Opcode = opcode::read_write::<PagemapScan>(b'f', 16);
const SCAN_WP_MATCHING: u64 = 1 << 0;
const SCAN_CHECK_WPASYNC: u64 = 1 << 1;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
/// Of a private mapping: a page of the file that was not copied by a write.
const PAGE_IS_FILE: u64 = 1 << 2;
/// One of these, because a page that was never touched has no write protection either.
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// The page of zeros that reading untouched memory maps.
const PAGE_IS_PFNZERO: u64 = 1 << 5;
/// Pages between two that may have been written are looked at with them rather than passed over by one more call.
const JOINED_GAP_BYTES: u64 = 64 << 12;
/// Addresses that a program can have.
const ALL_OF_A_PROCESS: PageRange = 0..(1 << 47) - (1 << 12);
/// Regions that one call returns at most.
const REGIONS: usize = 1024;

/// The pages of a process.
pub struct Pagemap {
    file: File,
    regions: Box<[PageRegion; REGIONS]>,
}

impl Pagemap {
    /// Of another process, or this one.
    pub fn open(pid: u32) -> Result<Self, PagesError> {
        let file = File::open(format!("/proc/{pid}/pagemap")).map_err(PagesError::of("opening /proc/<pid>/pagemap"))?;
        Ok(Self { file, regions: Box::new([PageRegion::default(); REGIONS]) })
    }

    /// Tells which pages of a registered mapping were written, and begins anew for these.
    ///
    /// `EPERM` says that the memory is not registered, for example because another mapping has taken its place.
    pub fn take_written(
        &mut self,
        range: &Range<u64>,
        is_shared: bool,
        mut found: impl FnMut(PageRange),
    ) -> io::Result<()> {
        // The kernel passes quickly over protected pages, unless it is asked for more than whether a page was written.
        let mut candidates: Vec<PageRange> = Vec::new();
        self.scan(range, &Query::WITHOUT_PROTECTION, |pages| match candidates.last_mut() {
            Some(last) if pages.start - last.end <= JOINED_GAP_BYTES => last.end = pages.end,
            _ => candidates.push(pages),
        })?;
        let query = Query::written(is_shared);
        candidates.iter().try_for_each(|candidate| self.scan(candidate, &query, &mut found))
    }

    /// Tells which pages hold memory of no file, in order: those that were written, in memory or swapped out. Needs Linux 6.7.
    pub fn anonymous(&mut self, mut found: impl FnMut(PageRange)) -> Result<(), PagesError> {
        self.scan(&ALL_OF_A_PROCESS, &Query::ANONYMOUS, &mut found).map_err(PagesError::of("ioctl(PAGEMAP_SCAN)"))
    }

    fn scan(&mut self, range: &Range<u64>, query: &Query, mut found: impl FnMut(PageRange)) -> io::Result<()> {
        let mut start = range.start;
        while start < range.end {
            let mut scan = PagemapScan {
                size: size_of::<PagemapScan>() as u64,
                flags: query.flags,
                start,
                end: range.end,
                walk_end: 0,
                regions: self.regions.as_mut_ptr() as u64,
                regions_len: REGIONS as u64,
                max_pages: 0,
                category_inverted: query.not_in,
                category_mask: query.in_all_of | query.not_in,
                category_anyof_mask: query.in_any_of,
                return_mask: query.in_all_of,
            };
            // SAFETY: the operation reads and writes this structure and writes at most `regions_len` regions. The number that it
            // returns is the count of them, which rustix's patterns do not give, so it is called directly.
            let count =
                unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN as libc::Ioctl, ptr::from_mut(&mut scan)) };
            let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
            self.regions.iter().take(count).for_each(|region| found(region.start..region.end));
            if scan.walk_end <= start {
                return Ok(());
            }
            start = scan.walk_end;
        }
        Ok(())
    }
}

/// Which pages a scan finds.
struct Query {
    flags: u64,
    in_all_of: u64,
    not_in: u64,
    in_any_of: u64,
}

impl Query {
    /// Pages that are not protected. Those that were only read, or never touched, are among them.
    const WITHOUT_PROTECTION: Self =
        Self { flags: SCAN_CHECK_WPASYNC, in_all_of: PAGE_IS_WRITTEN, not_in: 0, in_any_of: 0 };

    /// Pages that belong to the process alone.
    const ANONYMOUS: Self = Self {
        flags: 0,
        in_all_of: 0,
        not_in: PAGE_IS_FILE | PAGE_IS_PFNZERO,
        in_any_of: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
    };

    /// Pages that were written, which the scan protects.
    fn written(is_shared: bool) -> Self {
        let not_in = if is_shared { 0 } else { PAGE_IS_FILE | PAGE_IS_PFNZERO };
        let flags = SCAN_WP_MATCHING | SCAN_CHECK_WPASYNC;
        Self { flags, in_all_of: PAGE_IS_WRITTEN, not_in, in_any_of: PAGE_IS_PRESENT | PAGE_IS_SWAPPED }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    /// Pages of this process that were written, of a range.
    fn anonymous_pages_in(range: &Range<u64>) -> Option<Vec<u64>> {
        let mut pages = Vec::new();
        let scanned = Pagemap::open(std::process::id()).unwrap().anonymous(|found| {
            pages.extend((found.start..found.end).step_by(PAGE).filter(|page| range.contains(page)));
        });
        scanned.ok().map(|()| pages)
    }

    #[test]
    fn pages_that_were_written_are_anonymous_and_others_are_not() {
        let mut memory = vec![0u8; 8 * PAGE];
        // Fresh pages, whatever the allocator had there.
        let start = (memory.as_mut_ptr() as u64).next_multiple_of(PAGE as u64);
        // SAFETY: whole pages inside the vector, whose bytes are written anew before they are read.
        unsafe { libc::madvise(start as *mut libc::c_void, 7 * PAGE, libc::MADV_DONTNEED) };
        let offset = start as usize - memory.as_ptr() as usize;
        memory[offset + PAGE] = 1;
        memory[offset + 5 * PAGE + 7] = std::hint::black_box(1);
        let read = std::hint::black_box(&memory)[offset + 3 * PAGE];
        assert_eq!(read, 0);
        // Kernels before 6.7 cannot tell.
        if let Some(pages) = anonymous_pages_in(&(start..start + 7 * PAGE as u64)) {
            assert_eq!(pages, [start + PAGE as u64, start + 5 * PAGE as u64]);
        }
    }
}
