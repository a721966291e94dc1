//! The writes of one process, scan by scan.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::PagesError;
use crate::mappings::{Mapping, mappings_of};
use crate::notes::WriteNotes;
use crate::pagemap::{PageRange, Pagemap};

/// Pages next to each other that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Their addresses.
    pub range: PageRange,
    /// Name of the mapping.
    pub name: Arc<str>,
    /// Whether the write may have happened at any time before, because the mapping was there when watching began.
    pub is_of_unknown_time: bool,
}

/// What a scan could not do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanReport {
    /// Mappings that were found to be impossible to watch since the last scan.
    pub unwatched_mappings: u64,
}

/// The writes of one process.
pub struct WriteTracker {
    pid: u32,
    notes: WriteNotes,
    pagemap: Pagemap,
    /// Ranges that are registered, by their first address. They do not overlap.
    registered: BTreeMap<u64, u64>,
    /// Ranges that the kernel does not register.
    refused: BTreeMap<u64, u64>,
    has_scanned: bool,
}

impl WriteTracker {
    /// Begins to note the writes of a process. Both the process and this one go on as before when either ends.
    pub fn attach(pid: u32) -> Result<Self, PagesError> {
        // Opened first: if the process becomes another program meanwhile, the memory of the old one is gone, which shows.
        let pagemap = Pagemap::open(pid)?;
        let notes = WriteNotes::of_process(pid)?;
        let mut tracker =
            Self { pid, notes, pagemap, registered: BTreeMap::new(), refused: BTreeMap::new(), has_scanned: false };
        tracker.register_new(&mappings_of(pid).map_err(PagesError::of("reading /proc/<pid>/maps"))?)?;
        Ok(tracker)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Tells what was written since the last scan. An error says that the process is gone or has become another program.
    pub fn scan(&mut self, mut found: impl FnMut(Written)) -> Result<ScanReport, PagesError> {
        let mappings = mappings_of(self.pid).map_err(PagesError::of("reading /proc/<pid>/maps"))?;
        let watched: Vec<Mapping> = mappings.into_iter().filter(Mapping::notes_writes).collect();
        if watched.is_empty() {
            return Err(PagesError { call: "reading /proc/<pid>/maps", source: gone() });
        }
        let unwatched_mappings = self.register_new(&watched)?;
        let is_of_unknown_time = !self.has_scanned;
        for mapping in &watched {
            if covers(&self.refused, &mapping.range) {
                continue;
            }
            let tell = |range| found(Written { range, name: mapping.name.clone(), is_of_unknown_time });
            self.take_written(mapping, tell).map_err(PagesError::of("ioctl(PAGEMAP_SCAN)"))?;
        }
        self.has_scanned = true;
        Ok(ScanReport { unwatched_mappings })
    }

    fn take_written(&mut self, mapping: &Mapping, mut found: impl FnMut(PageRange)) -> io::Result<()> {
        match self.pagemap.take_written(&mapping.range, mapping.is_shared, &mut found) {
            // Another mapping has taken the place of one that was registered.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => match self.notes.register(&mapping.range) {
                Ok(()) => self.pagemap.take_written(&mapping.range, mapping.is_shared, found),
                // It is gone again.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                Err(error) => Err(error),
            },
            outcome => outcome,
        }
    }

    /// Registers what has appeared and forgets what is gone. Returns how many mappings the kernel refused.
    fn register_new(&mut self, mappings: &[Mapping]) -> Result<u64, PagesError> {
        let watched = || mappings.iter().filter(|mapping| mapping.notes_writes()).map(|mapping| &mapping.range);
        self.refused.retain(|&start, &mut end| watched().any(|range| *range == (start..end)));
        let mut refusals = 0;
        let mut registered = BTreeMap::new();
        for range in watched() {
            if covers(&self.refused, range) {
                continue;
            }
            let is_new = !covers(&self.registered, range);
            match if is_new { self.notes.register(range) } else { Ok(()) } {
                Ok(()) => _ = registered.insert(range.start, range.end),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                    return Err(PagesError { call: "ioctl(UFFDIO_REGISTER)", source: error });
                }
                Err(_) => {
                    refusals += 1;
                    self.refused.insert(range.start, range.end);
                }
            }
        }
        // A process that was attached to between its start and the program that it becomes had its parent's memory then, in which
        // nothing of what it has now lies.
        if registered.is_empty() && !self.refused.is_empty() {
            return Err(PagesError { call: "ioctl(UFFDIO_REGISTER)", source: gone() });
        }
        self.registered = registered;
        Ok(refusals)
    }
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

/// Whether one of the ranges holds all of this one.
fn covers(ranges: &BTreeMap<u64, u64>, range: &Range<u64>) -> bool {
    ranges.range(..=range.start).next_back().is_some_and(|(_, &end)| end >= range.end)
}
