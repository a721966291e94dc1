//! The processes of a run: attached to as they appear, scanned on a thread of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use dwell_clock::monotonic_ns;
use dwell_events::LossKind;
use dwell_events::schema::Table;
use dwell_metadata::CollectorEnd;
use dwell_pages::{References, WriteTracker};
use dwell_process::process_tree;
use dwell_store::{RawCompression, RawWriter, RunDir, StoreError};

use super::rows::{Access, PageRow, TABLE, batch};
use super::{NAME, Settings};
use crate::at_intervals::AtIntervals;

/// How long rows may wait in memory, which is what a kill of the observer can lose of them.
const HAND_OVER_INTERVAL: Duration = Duration::from_millis(250);
/// How often it is tried to attach to a process: one that is becoming another program can be attached to a little later.
const MOST_ATTEMPTS: u32 = 5;
/// How often a tree is looked at for processes that have been started.
const TREE_INTERVAL: Duration = Duration::from_millis(200);

/// What one look at all processes gave.
#[derive(Default)]
struct Looks {
    rows: Vec<PageRow>,
    /// Processes that have ended or become other programs, and when they were last scanned before that.
    gone: Vec<(u32, Option<u64>)>,
    unwatched_mappings: u64,
}

/// Why a process could not be attached to the last time, and how often that was tried.
struct Refusal {
    reason: String,
    attempts: u32,
}

/// Processes that are watched.
pub(super) struct Following {
    roots: Vec<u32>,
    watched: BTreeSet<u32>,
    /// Processes that could not be attached to.
    refused: BTreeMap<u32, Refusal>,
    trackers: Sender<WriteTracker>,
    scanning: Option<AtIntervals<Looks>>,
    looked_at: Instant,
    written_at: Instant,
    waiting: Vec<PageRow>,
    unwatched_mappings: u64,
    unscanned_ends: Vec<String>,
    why_not_scanning: Option<String>,
    stream: RawWriter,
}

/// Whether a process has memory. One that is ending has given it back while it is still listed, and what is left of it belongs to root.
fn has_memory(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/statm")).is_ok_and(|pages| !pages.starts_with("0 "))
}

impl Following {
    pub(super) fn begin(run: &RunDir, settings: Settings) -> Result<Self, StoreError> {
        let stream = run.raw_stream(NAME.name());
        let stream = RawWriter::create(&stream, Table::Own(&TABLE).schema(), RawCompression::None)?;
        let (trackers, new) = mpsc::channel();
        let mut scans = Scans { new, programs: Vec::new(), settings, count: 0 };
        let scanning = AtIntervals::start("dwell-pages", settings.write_interval(), move || scans.look());
        let why_not_scanning = scanning.as_ref().err().map(|error| format!("starting the thread failed with {error}"));
        Ok(Self {
            roots: Vec::new(),
            watched: BTreeSet::new(),
            refused: BTreeMap::new(),
            trackers,
            scanning: scanning.ok(),
            looked_at: Instant::now(),
            written_at: Instant::now(),
            waiting: Vec::new(),
            unwatched_mappings: 0,
            unscanned_ends: Vec::new(),
            why_not_scanning,
            stream,
        })
    }

    /// Watches this process from now on, and all that it starts.
    ///
    /// Attaching is done on the thread that waits for the worker: the stop of a child of this process would look to another
    /// thread that waits for it like its end.
    pub(super) fn follow(&mut self, pid: u32) {
        self.roots.push(pid);
        self.attach_to(pid);
    }

    fn attach_to(&mut self, pid: u32) {
        let attempts = self.refused.get(&pid).map_or(0, |refusal| refusal.attempts);
        if self.watched.contains(&pid) || attempts == MOST_ATTEMPTS {
            return;
        }
        match WriteTracker::attach(pid) {
            Ok(tracker) => {
                self.watched.insert(pid);
                self.refused.remove(&pid);
                // Without a thread that receives it, nothing is watched, which is told at the end.
                let _ = self.trackers.send(tracker);
            }
            // It has ended, is ending, or is about to become another program.
            Err(error) if error.is_gone() || !has_memory(pid) => {}
            Err(error) => {
                self.refused.insert(pid, Refusal { reason: error.to_string(), attempts: attempts + 1 });
            }
        }
    }

    /// Attaches to what was started, and writes what was found.
    pub(super) fn look(&mut self) -> Result<(), StoreError> {
        self.take();
        if self.looked_at.elapsed() >= TREE_INTERVAL {
            self.looked_at = Instant::now();
            for root in self.roots.clone() {
                process_tree(root).iter().for_each(|process| self.attach_to(process.pid));
            }
        }
        if self.written_at.elapsed() >= HAND_OVER_INTERVAL { self.write() } else { Ok(()) }
    }

    fn take(&mut self) {
        for looks in self.scanning.iter().flat_map(AtIntervals::take) {
            self.waiting.extend(looks.rows);
            self.unwatched_mappings += looks.unwatched_mappings;
            for (pid, last_scan_ns) in looks.gone {
                self.watched.remove(&pid);
                self.unscanned_ends.push(unscanned_end(pid, last_scan_ns));
            }
        }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.written_at = Instant::now();
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.stream.write(&batch(&self.waiting))?;
        self.waiting.clear();
        self.stream.flush()
    }

    pub(super) fn end(mut self) -> Result<CollectorEnd, StoreError> {
        let mut end = CollectorEnd::default();
        let missed = self.scanning.as_mut().map_or(0, AtIntervals::stop);
        end.lost(LossKind::MissedSamples, missed, "scans that were due");
        self.take();
        for reason in &self.unscanned_ends {
            end.lost(LossKind::MissedSamples, 1, reason.clone());
        }
        for (pid, Refusal { reason, .. }) in &self.refused {
            end.lost(LossKind::UnwatchedMemory, 1, format!("process {pid} could not be attached to: {reason}"));
        }
        let detail = "mappings that the kernel does not watch";
        end.lost(LossKind::UnwatchedMemory, self.unwatched_mappings, detail);
        if let Some(reason) = &self.why_not_scanning {
            end.lost(LossKind::UnwatchedMemory, 1, reason.clone());
        }
        self.write()?;
        self.stream.finish()?;
        Ok(end)
    }
}

fn unscanned_end(pid: u32, last_scan_ns: Option<u64>) -> String {
    match last_scan_ns {
        Some(last_scan_ns) => {
            let ms = monotonic_ns().saturating_sub(last_scan_ns) / 1_000_000;
            format!("process {pid} ended or became another program at most {ms} ms after its last scan")
        }
        None => format!("process {pid} ended or became another program before its first scan"),
    }
}

/// The thread that scans.
struct Scans {
    new: Receiver<WriteTracker>,
    programs: Vec<Program>,
    settings: Settings,
    count: u64,
}

struct Program {
    tracker: WriteTracker,
    references: Option<References>,
    scanned_ns: Option<u64>,
    accesses_looked_at_ns: u64,
}

impl Scans {
    fn look(&mut self) -> Looks {
        let begin = |tracker: WriteTracker| Program {
            // Without the right to clear marks, reads are not known.
            references: References::begin(tracker.pid()).ok(),
            tracker,
            scanned_ns: None,
            accesses_looked_at_ns: monotonic_ns(),
        };
        self.programs.extend(self.new.try_iter().map(begin));
        self.count += 1;
        let looks_at_accesses = self.count.is_multiple_of(self.settings.scans_per_access_look());
        let mut looks = Looks::default();
        self.programs.retain_mut(|program| {
            let is_there = program.scan(&mut looks);
            if looks_at_accesses && is_there {
                program.look_at_accesses(&mut looks.rows);
            }
            is_there
        });
        looks
    }
}

impl Program {
    /// Scans for writes. Says whether the program is still there.
    fn scan(&mut self, looks: &mut Looks) -> bool {
        let (begun_ns, before) = (monotonic_ns(), looks.rows.len());
        let pid = self.tracker.pid();
        let since_ns = self.scanned_ns;
        let scanned = self.tracker.scan(|written| {
            looks.rows.push(PageRow {
                timestamp_ns: 0,
                since_ns: since_ns.filter(|_| !written.is_of_unknown_time),
                pid,
                access: Access::Written,
                address: written.range.start,
                size_bytes: written.range.end - written.range.start,
                touched_bytes: written.range.end - written.range.start,
                mapping: written.name,
                region_type: None,
                tensor: None,
            });
        });
        match scanned {
            Ok(report) => {
                // A page may have been written while the scan was at another one, so the scan lasts from begin to end.
                let ended_ns = monotonic_ns();
                looks.rows[before..].iter_mut().for_each(|row| row.timestamp_ns = ended_ns);
                looks.unwatched_mappings += report.unwatched_mappings;
                self.scanned_ns = Some(begun_ns);
                true
            }
            Err(_) => {
                looks.rows.truncate(before);
                looks.gone.push((pid, self.scanned_ns));
                false
            }
        }
    }

    fn look_at_accesses(&mut self, rows: &mut Vec<PageRow>) {
        let Some(Ok(found)) = self.references.as_ref().map(References::take) else { return };
        let (timestamp_ns, since_ns) = (monotonic_ns(), self.accesses_looked_at_ns);
        self.accesses_looked_at_ns = timestamp_ns;
        rows.extend(found.into_iter().map(|found| PageRow {
            timestamp_ns,
            since_ns: Some(since_ns),
            pid: self.tracker.pid(),
            access: Access::Touched,
            address: found.range.start,
            size_bytes: found.range.end - found.range.start,
            touched_bytes: found.bytes,
            mapping: found.name,
            region_type: None,
            tensor: None,
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::process::{self, Command};

    use super::*;

    #[test]
    fn a_process_that_has_ended_and_is_listed_has_no_memory() {
        let mut child = Command::new("true").spawn().expect("a process can be started");
        let stat = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&stat).expect("it is listed until it is waited for").contains(") Z ") {
            std::thread::yield_now();
        }
        assert!(!has_memory(child.id()) && has_memory(process::id()));
        child.wait().expect("it has ended");
        assert!(!has_memory(child.id()));
    }
}
