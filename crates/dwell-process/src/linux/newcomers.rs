//! Processes that began since the last look.
//!
//! The kernel gives out ids in order and says which was the last, so that only the ids between two looks need to be
//! looked at, whatever else runs on the machine. A scan of all processes stands in where that is not to be had, and is
//! done now and then all the same, for processes whose id was chosen.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use dwell_clock::monotonic_ns;

use super::Reader;
use super::list::relations;
use super::parse;
use super::proc_dir::ProcDir;
use super::proc_file::ProcFile;
use crate::error::is_gone_error;
use crate::relation::Relation;

/// With more new ids than this a scan is cheaper.
const MOST_NEW_IDS: u32 = 256;
/// Least time between two scans that nothing asked for.
const SCAN_EVERY_NS: u64 = 1_000_000_000;
/// A scan is followed by this many times its own length without one.
const PAUSE_PER_SCAN: u64 = 1_000;

/// Finds new processes.
pub(crate) struct Newcomers {
    /// `None` where the last id is not to be had.
    loadavg: Option<ProcFile>,
    last_pid: u32,
    /// Ids that were given out before, and had no process yet: it is visible only a moment later.
    unsettled: Vec<u32>,
    scan_due_ns: u64,
}

impl Newcomers {
    /// Looks for processes that begin from now on.
    pub(crate) fn new(reader: &mut Reader) -> Self {
        let mut newcomers = Self { loadavg: open_loadavg(), last_pid: 0, unsettled: Vec::new(), scan_due_ns: 0 };
        newcomers.last_pid = newcomers.read_last_pid(&mut reader.buffer).unwrap_or(0);
        newcomers
    }

    /// Processes that began since the last call, with some that did not.
    pub(crate) fn look(&mut self, reader: &mut Reader) -> Vec<Relation> {
        let buffer = &mut reader.buffer;
        let last_pid = self.read_last_pid(buffer);
        let before = std::mem::replace(&mut self.last_pid, last_pid.unwrap_or(0));
        let new_ids = last_pid.and_then(|last_pid| last_pid.checked_sub(before)).filter(|_| before > 0);
        match new_ids {
            Some(new_ids) if new_ids <= MOST_NEW_IDS && monotonic_ns() < self.scan_due_ns => {
                self.look_at(before + 1..=self.last_pid, buffer)
            }
            _ => self.scan(),
        }
    }

    /// Has every process looked at next time.
    pub(crate) fn look_at_all_next(&mut self) {
        self.scan_due_ns = 0;
    }

    /// Has a process looked at again next time.
    pub(crate) fn look_again_at(&mut self, pid: u32) {
        self.unsettled.push(pid);
    }

    fn look_at(&mut self, new_pids: std::ops::RangeInclusive<u32>, buffer: &mut Vec<u8>) -> Vec<Relation> {
        let mut found: Vec<Relation> = Vec::new();
        for pid in std::mem::take(&mut self.unsettled) {
            found.extend(parent_of(pid, buffer).ok().flatten().map(|parent| Relation { pid, parent }));
        }
        for pid in new_pids {
            match parent_of(pid, buffer) {
                Ok(parent) => found.extend(parent.map(|parent| Relation { pid, parent })),
                Err(error) if is_gone_error(&error) => self.unsettled.push(pid),
                Err(_) => {}
            }
        }
        found
    }

    fn scan(&mut self) -> Vec<Relation> {
        self.unsettled.clear();
        let begin_ns = monotonic_ns();
        let all = relations();
        let end_ns = monotonic_ns();
        self.scan_due_ns = end_ns + ((end_ns - begin_ns) * PAUSE_PER_SCAN).max(SCAN_EVERY_NS);
        all
    }

    fn read_last_pid(&self, buffer: &mut Vec<u8>) -> Option<u32> {
        parse::last_pid(self.loadavg.as_ref()?.read(buffer).ok()?)
    }
}

/// Containers may have a file system of their own in this place, whose numbers lag behind.
fn open_loadavg() -> Option<ProcFile> {
    let device = |path: &str| fs::metadata(path).ok().map(|found| found.dev());
    let is_the_kernels = device("/proc/loadavg").is_some_and(|loadavg| device("/proc") == Some(loadavg));
    is_the_kernels.then(|| ProcFile::open(Path::new("/proc/loadavg")).ok()).flatten()
}

fn parent_of(pid: u32, buffer: &mut Vec<u8>) -> io::Result<Option<u32>> {
    let status = ProcDir::open(pid)?.file("status")?;
    Ok(parse::parent_of_leader(status.read(buffer)?))
}
