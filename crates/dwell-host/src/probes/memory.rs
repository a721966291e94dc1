//! Which pages were touched: the ways in which the kernel tells it, tried on memory of our own.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::process;

use dwell_events::host::Outcome;
use dwell_pages::{Pagemap, PagesError, WriteNotes};

use super::refusal::{is_forbidden, refused};
use super::syscalls::{Pages, page_bytes};

const PAGEMAP: &str = "/proc/self/pagemap";
const CLEAR_REFS: &str = "/proc/self/clear_refs";
const CLEAR_ACCESSED: &str = "1";
const CLEAR_SOFT_DIRTY: &str = "4";
const PAGES: usize = 64;
/// The one page that is written after the others.
const WRITTEN_PAGE: usize = 5;

/// Writes noted by the kernel (userfaultfd) and read with a scan.
pub(super) fn uffd_wp() -> Outcome {
    let attempt = || -> Result<Outcome, PagesError> {
        let mut pages = Pages::new(PAGES).map_err(failed("mmap"))?;
        let range = pages.address()..pages.address() + pages.bytes() as u64;
        let notes = WriteNotes::of_this_process()?;
        notes.register(&range).map_err(failed("ioctl(UFFDIO_REGISTER)"))?;
        let mut pagemap = Pagemap::open(process::id())?;
        pages.touch_all();
        let mut take_written = || {
            let mut regions = Vec::new();
            pagemap.take_written(&range, false, |pages| regions.push(pages)).map_err(failed("ioctl(PAGEMAP_SCAN)"))?;
            Ok(regions)
        };
        take_written()?;
        pages.touch(WRITTEN_PAGE);
        let written = take_written()?;
        let begin = range.start + (WRITTEN_PAGE * page_bytes()) as u64;
        Ok(match written.as_slice() {
            [region] if region.start == begin && region.end == begin + page_bytes() as u64 => {
                Outcome::works(format!("1 of {PAGES} pages was written, and the scan found it"))
            }
            other => {
                Outcome::fails(format!("1 of {PAGES} pages was written, and the scan found {} ranges", other.len()))
            }
        })
    };
    attempt().unwrap_or_else(|PagesError { call, source: error }| {
        let found = refused(call, &error);
        match error.raw_os_error() {
            Some(libc::EINVAL | libc::ENOTTY | libc::ENOSYS) => Outcome::absent(format!("{found} (Linux 6.7 has it)")),
            _ if is_forbidden(&error) => Outcome::fails(found).remedy("sudo sysctl vm.unprivileged_userfaultfd=1"),
            _ => Outcome::fails(found),
        }
    })
}

fn failed(call: &'static str) -> impl Fn(io::Error) -> PagesError {
    move |source| PagesError { call, source }
}

/// Accesses per mapping: marks are cleared, then looked at.
pub(super) fn clear_refs() -> Outcome {
    let attempt = || -> io::Result<Outcome> {
        let mut pages = Pages::new(PAGES)?;
        pages.touch_all();
        fs::write(CLEAR_REFS, CLEAR_ACCESSED)?;
        let before_bytes = referenced_bytes(pages.address())?;
        // Clearing marks does not do it.
        pages.forget_translations()?;
        pages.touch_all();
        let grown_bytes = referenced_bytes(pages.address())?.saturating_sub(before_bytes);
        let touched_bytes = pages.bytes() as u64;
        let found = format!("{touched_bytes} bytes touched, {grown_bytes} more referenced than before");
        Ok(if grown_bytes >= touched_bytes { Outcome::works(found) } else { Outcome::fails(found) })
    };
    attempt().unwrap_or_else(|error| unusable(CLEAR_REFS, &error))
}

/// Which pages are in memory.
pub(super) fn pagemap() -> Outcome {
    const PRESENT: u64 = 1 << 63;
    const FRAME: u64 = (1 << 55) - 1;
    let attempt = || -> io::Result<Outcome> {
        let mut pages = Pages::new(2)?;
        pages.touch(0);
        let (touched, untouched) = (pagemap_entry(&pages, 0)?, pagemap_entry(&pages, 1)?);
        let is_told = touched & PRESENT != 0 && untouched & PRESENT == 0;
        let frames = if touched & FRAME != 0 { "with frame numbers" } else { "without frame numbers, which root sees" };
        Ok(match is_told {
            true => Outcome::works(format!("present and absent pages are told apart, {frames}")),
            false => Outcome::fails("present and absent pages are not told apart"),
        })
    };
    attempt().unwrap_or_else(|error| unusable(PAGEMAP, &error))
}

/// Writes per page by the older way.
pub(super) fn soft_dirty() -> Outcome {
    const SOFT_DIRTY: u64 = 1 << 55;
    let attempt = || -> io::Result<Outcome> {
        let mut pages = Pages::new(2)?;
        pages.touch_all();
        fs::write(CLEAR_REFS, CLEAR_SOFT_DIRTY)?;
        pages.touch(0);
        let is_dirty = |page| pagemap_entry(&pages, page).map(|entry| entry & SOFT_DIRTY != 0);
        Ok(match (is_dirty(0)?, is_dirty(1)?) {
            (true, false) => Outcome::works("1 of 2 pages was written and is marked"),
            (false, _) => Outcome::absent("a written page is not marked: the kernel is built without it"),
            (true, true) => Outcome::fails("a page that was not written is marked too"),
        })
    };
    attempt().unwrap_or_else(|error| unusable(CLEAR_REFS, &error))
}

fn unusable(path: &str, error: &io::Error) -> Outcome {
    match error.kind() {
        io::ErrorKind::NotFound => Outcome::absent(format!("there is no {path}")),
        _ => Outcome::fails(refused(path, error)),
    }
}

fn pagemap_entry(pages: &Pages, page: usize) -> io::Result<u64> {
    const ENTRY_BYTES: usize = 8;
    let mut entry = [0; ENTRY_BYTES];
    let index = pages.address() / page_bytes() as u64 + page as u64;
    File::open(PAGEMAP)?.read_exact_at(&mut entry, index * ENTRY_BYTES as u64)?;
    Ok(u64::from_ne_bytes(entry))
}

/// Bytes of the mapping at an address that were accessed since the marks were cleared.
fn referenced_bytes(address: u64) -> io::Result<u64> {
    let smaps = fs::read_to_string("/proc/self/smaps")?;
    let mut is_inside = false;
    for line in smaps.lines() {
        if let Some((begin, end)) = line.split(' ').next().and_then(mapping) {
            is_inside = (begin..end).contains(&address);
        } else if let Some(value) = line.strip_prefix("Referenced:").filter(|_| is_inside) {
            let kibibytes = value.trim().trim_end_matches("kB").trim().parse::<u64>();
            return kibibytes.map(|kibibytes| kibibytes * 1024).map_err(io::Error::other);
        }
    }
    Err(io::Error::other("/proc/self/smaps does not list the mapping"))
}

/// The bounds of a mapping, from a word like `7f00-7f80`.
fn mapping(word: &str) -> Option<(u64, u64)> {
    let (begin, end) = word.split_once('-')?;
    Some((u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}
