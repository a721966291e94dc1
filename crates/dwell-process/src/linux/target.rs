//! One watched process.

use std::io;
use std::time::Duration;

use dwell_clock::monotonic_ns;
use dwell_events::schema::memory::MemoryRow;

use super::Reader;
use super::cgroup::CgroupId;
use super::cpu_time::CpuTime;
use super::parse::{self, Io, Stat};
use super::proc_dir::ProcDir;
use super::proc_file::ProcFile;
use crate::error::{ProcessError, is_gone_error};

/// A process may be moved to another control group; it is asked again after this time.
const SAME_CGROUP_NS: u64 = 1_000_000_000;

/// One watched process with its files open.
pub(crate) struct Target {
    pub(crate) pid: u32,
    pub(crate) is_gone: bool,
    label: String,
    dir: ProcDir,
    stat: ProcFile,
    status: ProcFile,
    /// `None` for a process of another user.
    io: Option<ProcFile>,
    may_walk: bool,
    cpu_time: CpuTime,
    cgroup: Option<CgroupId>,
    cgroup_due_ns: u64,
    /// Moment and CPU time of the sample before.
    previous: Option<(u64, u64)>,
}

/// What a sample of a process gave.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, and it is taken apart at once")]
pub(crate) enum Sampled {
    Row(MemoryRow),
    /// It has given its memory back, or has ended.
    NoMemory,
    /// It is there, and what it has cannot be said.
    Unknown,
}

impl Target {
    pub(crate) fn open(label: &str, pid: u32) -> Result<Self, ProcessError> {
        let refused = |error| ProcessError::from_io(label, pid, error);
        let dir = ProcDir::open(pid).map_err(refused)?;
        let target = Self {
            pid,
            is_gone: false,
            label: label.to_owned(),
            stat: dir.file("stat").map_err(refused)?,
            status: dir.file("status").map_err(refused)?,
            io: dir.file("io").ok(),
            dir,
            may_walk: true,
            cpu_time: CpuTime::new(),
            cgroup: None,
            cgroup_due_ns: 0,
            previous: None,
        };
        target.check_is_program()?;
        Ok(target)
    }

    fn check_is_program(&self) -> Result<(), ProcessError> {
        let mut buffer = vec![0; 4096];
        let text =
            self.status.read(&mut buffer).map_err(|error| ProcessError::from_io(&self.label, self.pid, error))?;
        if parse::status(text).rss_bytes.is_some() {
            return Ok(());
        }
        let text = self.stat.read(&mut buffer).map_err(|error| ProcessError::from_io(&self.label, self.pid, error))?;
        let (label, pid) = (self.label.clone(), self.pid);
        match parse::stat(text) {
            Some(stat) if is_ended(stat.state) => Err(ProcessError::NoSuchProcess { label, pid }),
            _ => Err(ProcessError::KernelThread { label, pid }),
        }
    }

    /// Whether this process began `child` and has not ended since: then its id means this process still.
    pub(crate) fn is_parent_of(&self, child: &Target, reader: &mut Reader) -> bool {
        let parent = child.read_stat(reader).map(|stat| stat.parent);
        parent == Some(self.pid) && self.read_stat(reader).is_some()
    }

    /// Whether a child still runs in its parent's memory, as after `vfork` until it becomes another program. The parent
    /// waits for that, uninterruptibly.
    pub(crate) fn lends_memory_to(&self, child: &Target, reader: &mut Reader) -> bool {
        let is_waiting = self.read_stat(reader).is_some_and(|stat| stat.state == b'D');
        is_waiting && self.read_vms_bytes(reader) == child.read_vms_bytes(reader)
    }

    fn read_stat(&self, reader: &mut Reader) -> Option<Stat> {
        parse::stat(self.stat.read(&mut reader.buffer).ok()?)
    }

    fn read_vms_bytes(&self, reader: &mut Reader) -> Option<u64> {
        parse::status(self.status.read(&mut reader.buffer).ok()?).vms_bytes
    }

    /// The control group that it was in when it was last sampled.
    pub(super) fn cgroup(&self) -> Option<CgroupId> {
        self.cgroup
    }

    /// The state now, without what a walk gives.
    pub(crate) fn sample(&mut self, reader: &mut Reader) -> Sampled {
        self.try_sample(reader).unwrap_or_else(|error| {
            self.is_gone |= is_gone_error(&error);
            if self.is_gone { Sampled::NoMemory } else { Sampled::Unknown }
        })
    }

    fn try_sample(&mut self, reader: &mut Reader) -> io::Result<Sampled> {
        let timestamp_ns = monotonic_ns();
        let status = parse::status(self.status.read(&mut reader.buffer)?);
        let Some(stat) = parse::stat(self.stat.read(&mut reader.buffer)?) else { return Ok(Sampled::Unknown) };
        let (Some(rss_bytes), Some(vms_bytes)) = (status.rss_bytes, status.vms_bytes) else {
            // Its memory is given back first. While other threads run, the process has not ended and has its memory.
            self.is_gone = is_ended(stat.state) && stat.threads <= 1;
            return Ok(if stat.threads <= 1 { Sampled::NoMemory } else { Sampled::Unknown });
        };
        let io = self.read_io(&mut reader.buffer);
        let cpu_ns = self.cpu_time.total_ns(&self.dir, &stat, reader.living, &mut reader.buffer);
        Ok(Sampled::Row(MemoryRow {
            timestamp_ns,
            label: self.label.clone(),
            pid: self.pid,
            rss_bytes,
            vms_bytes,
            pss_bytes: None,
            uss_bytes: None,
            anon_bytes: status.anon_bytes,
            file_bytes: status.file_bytes,
            shmem_bytes: status.shmem_bytes,
            swap_bytes: status.swap_bytes,
            cgroup_bytes: self.cgroup_bytes(timestamp_ns, reader),
            gpu_bytes: reader.gpu.bytes_of(self.pid),
            threads: Some(stat.threads),
            minor_faults: Some(stat.minor_faults),
            major_faults: Some(stat.major_faults),
            read_bytes: io.read_bytes,
            write_bytes: io.write_bytes,
            cpu_ns: Some(cpu_ns),
            cpu_pct: self.cpu_pct(timestamp_ns, cpu_ns),
        }))
    }

    fn cgroup_bytes(&mut self, now_ns: u64, reader: &mut Reader) -> Option<u64> {
        if now_ns >= self.cgroup_due_ns {
            self.cgroup = reader.cgroups.group_of(&self.dir, &mut reader.buffer);
            self.cgroup_due_ns = now_ns + SAME_CGROUP_NS;
        }
        reader.cgroups.bytes(self.cgroup?, &mut reader.buffer)
    }

    /// Walks the page tables for `pss` and `uss`, if that is permitted; returns how long it took.
    pub(crate) fn walk_into(&mut self, row: &mut MemoryRow, reader: &mut Reader) -> Duration {
        if !self.may_walk {
            return Duration::ZERO;
        }
        let begin_ns = monotonic_ns();
        // Opened each time: an open file belongs to the memory of the program before an `exec`.
        let rollup = self.dir.file("smaps_rollup").and_then(|file| file.read(&mut reader.buffer).map(parse::rollup));
        match rollup {
            Ok(rollup) => (row.pss_bytes, row.uss_bytes) = (rollup.pss_bytes, rollup.uss_bytes),
            Err(error) => self.may_walk = error.kind() != io::ErrorKind::PermissionDenied,
        }
        Duration::from_nanos(monotonic_ns() - begin_ns)
    }

    fn read_io(&self, buffer: &mut Vec<u8>) -> Io {
        // Permission is asked at every reading: a program may have changed its user since.
        self.io.as_ref().and_then(|file| file.read(buffer).ok()).map(parse::io).unwrap_or_default()
    }

    fn cpu_pct(&mut self, timestamp_ns: u64, cpu_ns: u64) -> Option<f64> {
        crate::cpu_use::cpu_pct(self.previous.replace((timestamp_ns, cpu_ns)), (timestamp_ns, cpu_ns))
    }
}

fn is_ended(state: u8) -> bool {
    matches!(state, b'Z' | b'X' | b'x')
}
