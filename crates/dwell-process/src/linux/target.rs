//! One watched process.

use std::io;
use std::time::Duration;

use dwell_clock::monotonic_ns;
use dwell_events::schema::memory::MemoryRow;

use super::Reader;
use super::cgroup::CgroupId;
use super::cpu_time::CpuTime;
use super::parse::{self, Io, Stat, Status};
use super::proc_dir::ProcDir;
use super::proc_file::ProcFile;
use crate::error::{ProcessError, is_gone_error};

/// A process may be moved to another control group; it is asked again after this time.
const SAME_CGROUP_NS: u64 = 5_000_000_000;

/// Files of a process that did nothing are read again after this time: the kernel may take pages from it meanwhile.
const READ_AGAIN_NS: u64 = 2_000_000_000;

/// One watched process with its files open.
pub(crate) struct Target {
    pub(crate) pid: u32,
    pub(crate) is_gone: bool,
    label: String,
    /// Name of its program; another one after an `exec`.
    name: Vec<u8>,
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
    last: Option<Reading>,
}

/// What the files of a process said. `status` alone takes half of the time that all of them take, and says nothing new
/// of a process that did nothing.
struct Reading {
    taken_ns: u64,
    status: Status,
    stat: Stat,
    io: Io,
    cpu_ns: u64,
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
            name: Vec::new(),
            stat: dir.file("stat").map_err(refused)?,
            status: dir.file("status").map_err(refused)?,
            io: dir.file("io").ok(),
            dir,
            may_walk: true,
            cpu_time: CpuTime::new(),
            cgroup: None,
            cgroup_due_ns: 0,
            previous: None,
            last: None,
        };
        target.check_is_program()?;
        Ok(target)
    }

    /// Name of its program when it was last sampled; empty before.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
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
        if !self.is_unchanged(timestamp_ns, &mut reader.buffer) {
            self.last = None;
            match self.read(timestamp_ns, reader)? {
                Ok(reading) => self.last = Some(reading),
                Err(without_sizes) => return Ok(without_sizes),
            }
        }
        Ok(self.row(timestamp_ns, reader).map_or(Sampled::Unknown, Sampled::Row))
    }

    /// Whether the process did nothing since its files were read, a short time ago. One file tells, which is all that is read
    /// of a process that sleeps: at 200 of them every further one is a percent of a core.
    fn is_unchanged(&self, now_ns: u64, buffer: &mut Vec<u8>) -> bool {
        let Some(last) = &self.last else { return false };
        now_ns.saturating_sub(last.taken_ns) < READ_AGAIN_NS && self.cpu_time.is_idle(buffer)
    }

    /// What all files say; if they have no sizes, what that means.
    fn read(&mut self, taken_ns: u64, reader: &mut Reader) -> io::Result<Result<Reading, Sampled>> {
        let text = self.stat.read(&mut reader.buffer)?;
        let Some(stat) = parse::stat(text) else { return Ok(Err(Sampled::Unknown)) };
        if let Some(name) = parse::name(text).filter(|name| *name != self.name) {
            self.name = name.to_vec();
        }
        // What tells of a change comes before the sizes: what happens while these are read is then read again.
        let cpu_ns = self.cpu_time.total_ns(&self.dir, &stat, reader.living, &mut reader.buffer);
        let status = parse::status(self.status.read(&mut reader.buffer)?);
        if status.rss_bytes.is_none() || status.vms_bytes.is_none() {
            // It may have ended since: its memory is given back first. While other threads run, the process has not ended
            // and has its memory.
            let Some(stat) = self.read_stat(reader) else { return Ok(Err(Sampled::Unknown)) };
            self.is_gone = is_ended(stat.state) && stat.threads <= 1;
            return Ok(Err(if stat.threads <= 1 { Sampled::NoMemory } else { Sampled::Unknown }));
        }
        let io = self.read_io(&mut reader.buffer);
        Ok(Ok(Reading { taken_ns, status, stat, io, cpu_ns }))
    }

    fn row(&mut self, timestamp_ns: u64, reader: &mut Reader) -> Option<MemoryRow> {
        let Reading { status, stat, io, cpu_ns, .. } = *self.last.as_ref()?;
        Some(MemoryRow {
            timestamp_ns,
            label: self.label.clone(),
            pid: self.pid,
            rss_bytes: status.rss_bytes?,
            vms_bytes: status.vms_bytes?,
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
        })
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn the_files_of_a_process_that_sleeps_are_not_read_for_every_sample() {
        let sleeper = Sleeper(Command::new("sleep").arg("600").spawn().unwrap());
        let (mut target, mut reader) = (Target::open("x", sleeper.0.id()).unwrap(), Reader::new());
        let mut sample = || match target.sample(&mut reader) {
            Sampled::Row(row) => (row.timestamp_ns, row.rss_bytes, target.last.as_ref().unwrap().taken_ns),
            Sampled::NoMemory | Sampled::Unknown => panic!("it sleeps"),
        };
        // It has to come to its sleep first.
        let is_read_again = |_: &u32| {
            let (first, second) = (sample(), sample());
            assert!(first.0 < second.0, "every sample has its own time");
            first.2 != second.2
        };
        let reads = (0..1000).take_while(is_read_again).count();
        assert!(reads < 1000, "it was read again in every sample");
        let (time_ns, rss_bytes, read_ns) = sample();
        assert!(rss_bytes > 0 && time_ns - read_ns < READ_AGAIN_NS);
    }
}
