//! One watched process.

use std::time::Duration;

use dwell_clock::monotonic_ns;
use dwell_events::schema::memory::MemoryRow;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::Reader;
use crate::cpu_use::cpu_pct;
use crate::error::ProcessError;

const NS_PER_MS: u64 = 1_000_000;

/// One watched process.
pub(crate) struct Target {
    pub(crate) pid: u32,
    pub(crate) is_gone: bool,
    label: String,
    /// Tells it from another that was given the same id.
    start_time_s: u64,
    previous: Option<(u64, u64)>,
}

/// What a sample of a process gave.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, and it is taken apart at once")]
pub(crate) enum Sampled {
    Row(MemoryRow),
    NoMemory,
    /// Never here; other systems have it.
    #[expect(dead_code, reason = "the group knows it")]
    Unknown,
}

impl Target {
    pub(crate) fn open(label: &str, pid: u32) -> Result<Self, ProcessError> {
        let mut system = System::new();
        let wanted = [Pid::from_u32(pid)];
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&wanted), true, ProcessRefreshKind::nothing());
        match system.process(wanted[0]) {
            Some(process) => Ok(Self {
                pid,
                is_gone: false,
                label: label.to_owned(),
                start_time_s: process.start_time(),
                previous: None,
            }),
            None => Err(ProcessError::NoSuchProcess { label: label.to_owned(), pid }),
        }
    }

    /// Name of its program.
    pub(crate) fn name(&self) -> String {
        super::name(self.pid).unwrap_or_default()
    }

    fn process<'a>(&self, reader: &'a Reader) -> Option<&'a sysinfo::Process> {
        let process = reader.system.process(Pid::from_u32(self.pid))?;
        (process.start_time() == self.start_time_s).then_some(process)
    }

    /// Whether this process began `child` and has not ended since.
    pub(crate) fn is_parent_of(&self, child: &Target, reader: &mut Reader) -> bool {
        let parent = child.process(reader).and_then(sysinfo::Process::parent);
        parent.is_some_and(|parent| parent.as_u32() == self.pid) && self.process(reader).is_some()
    }

    /// A child has memory of its own from the beginning.
    pub(crate) fn lends_memory_to(&self, _child: &Target, _reader: &mut Reader) -> bool {
        false
    }

    /// The state at the beginning of the sample.
    pub(crate) fn sample(&mut self, reader: &mut Reader) -> Sampled {
        let timestamp_ns = monotonic_ns();
        let Some(process) = self.process(reader) else {
            self.is_gone = true;
            return Sampled::NoMemory;
        };
        let disk = process.disk_usage();
        let cpu_ns = process.accumulated_cpu_time().saturating_mul(NS_PER_MS);
        let (rss_bytes, vms_bytes) = (process.memory(), process.virtual_memory());
        let now = (timestamp_ns, cpu_ns);
        Sampled::Row(MemoryRow {
            timestamp_ns,
            label: self.label.clone(),
            pid: self.pid,
            rss_bytes,
            vms_bytes,
            read_bytes: Some(disk.total_read_bytes),
            write_bytes: Some(disk.total_written_bytes),
            cpu_ns: Some(cpu_ns),
            cpu_pct: cpu_pct(self.previous.replace(now), now),
            ..MemoryRow::default()
        })
    }

    /// Shares of memory are not told.
    pub(crate) fn walk_into(&mut self, _row: &mut MemoryRow, _reader: &mut Reader) -> Duration {
        Duration::ZERO
    }
}
