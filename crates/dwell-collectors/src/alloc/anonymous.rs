//! Looks at which pages of recorded processes hold memory of no file.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use dwell_clock::{monotonic_ns, thread_cpu_ns};
use dwell_pages::Pagemap;
use dwell_store::{RawWriter, RunDir, StoreError};

use super::streams::{self, ANONYMOUS, AnonymousRow, anonymous_batch};

/// Shortest time between two looks, unless something begins.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);
/// Share of a processor that looks may take: one part of so many. Time in which others have the processor does not count: on a busy
/// machine looks would else become so rare that the most memory goes by unseen.
const SHARE_OF_TIME: u32 = 100;

/// Looks on their way into `raw/`.
pub(super) struct AnonymousLooks {
    stream: RawWriter,
    next: Instant,
    /// Processes that were looked at.
    known: BTreeSet<u32>,
}

impl AnonymousLooks {
    pub(super) fn begin(run: &RunDir) -> Result<Self, StoreError> {
        Ok(Self { stream: streams::open(run, ANONYMOUS)?, next: Instant::now(), known: BTreeSet::new() })
    }

    /// Looks the next time that it can.
    pub(super) fn look_soon(&mut self) {
        self.next = Instant::now();
    }

    /// Looks at these processes if it is time, or if one of them is new.
    pub(super) fn look_if_due(&mut self, pids: &[u32]) -> Result<(), StoreError> {
        let has_new = pids.iter().any(|pid| !self.known.contains(pid));
        if pids.is_empty() || (!has_new && Instant::now() < self.next) {
            return Ok(());
        }
        let begun_ns = thread_cpu_ns();
        self.known.extend(pids);
        let rows: Vec<AnonymousRow> = pids.iter().flat_map(|pid| look(*pid)).collect();
        if !rows.is_empty() {
            self.stream.write(&anonymous_batch(&rows))?;
            self.stream.flush()?;
        }
        let cost = Duration::from_nanos(thread_cpu_ns().saturating_sub(begun_ns));
        self.next = Instant::now() + (cost * SHARE_OF_TIME).max(LEAST_INTERVAL);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), StoreError> {
        self.stream.finish()
    }
}

/// The pages of a process. None if it may not be looked at, has ended, or the kernel cannot tell (before 6.7): how far the
/// allocations account for its memory is then not known.
fn look(pid: u32) -> Vec<AnonymousRow> {
    let (time_ns, mut rows) = (monotonic_ns(), Vec::<AnonymousRow>::new());
    let scanned = Pagemap::open(pid).and_then(|mut pagemap| {
        pagemap.anonymous(|pages| match rows.last_mut().filter(|last| last.end == pages.start) {
            Some(last) => last.end = pages.end,
            None => rows.push(AnonymousRow { time_ns, pid, start: pages.start, end: pages.end }),
        })
    });
    if scanned.is_err() {
        rows.clear();
    }
    rows
}
