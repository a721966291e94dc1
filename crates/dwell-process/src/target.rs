//! One watched process.

use std::io;
use std::path::{Path, PathBuf};

use dwell_events::schema::memory::MemoryRow;

use crate::clock::monotonic_ns;
use crate::cpu_time::CpuTime;
use crate::error::{ProcessError, is_gone_error};
use crate::parse::{self, Io};
use crate::proc_file::ProcFile;
use crate::rollup::{RollupPolicy, RollupReader};

/// One watched process with its files open.
pub(crate) struct Target {
    pub(crate) pid: u32,
    pub(crate) is_gone: bool,
    label: String,
    stat: ProcFile,
    status: ProcFile,
    /// `None` for a process of another user.
    io: Option<ProcFile>,
    rollup: RollupReader,
    cpu_time: CpuTime,
    /// Moment and CPU time of the sample before.
    previous: Option<(u64, u64)>,
}

/// What a sampler shares between its targets.
pub(crate) struct SampleContext<'a> {
    pub(crate) buffer: &'a mut Vec<u8>,
    pub(crate) rollup_policy: &'a RollupPolicy,
    pub(crate) live_targets: usize,
}

impl Target {
    pub(crate) fn open(label: &str, pid: u32) -> Result<Self, ProcessError> {
        let dir = PathBuf::from(format!("/proc/{pid}"));
        let open =
            |name: &str| ProcFile::open(&dir.join(name)).map_err(|error| ProcessError::from_io(label, pid, error));
        let mut target = Self {
            pid,
            is_gone: false,
            label: label.to_owned(),
            stat: open("stat")?,
            status: open("status")?,
            io: open_io(&dir),
            rollup: RollupReader::new(pid),
            cpu_time: CpuTime::new(pid),
            previous: None,
        };
        target.check_is_program()?;
        Ok(target)
    }

    fn check_is_program(&mut self) -> Result<(), ProcessError> {
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

    /// The state now; `None` if the process has ended or is ending.
    pub(crate) fn sample(&mut self, context: &mut SampleContext<'_>) -> Option<MemoryRow> {
        match self.try_sample(context) {
            Ok(row) => row,
            Err(error) => {
                self.is_gone |= is_gone_error(&error);
                None
            }
        }
    }

    fn try_sample(&mut self, context: &mut SampleContext<'_>) -> io::Result<Option<MemoryRow>> {
        let timestamp_ns = monotonic_ns();
        let status = parse::status(self.status.read(context.buffer)?);
        let Some(stat) = parse::stat(self.stat.read(context.buffer)?) else { return Ok(None) };
        let (Some(rss_bytes), Some(vms_bytes)) = (status.rss_bytes, status.vms_bytes) else {
            // Its memory is given back first; while other threads run, the process has not ended.
            self.is_gone = is_ended(stat.state) && stat.threads <= 1;
            return Ok(None);
        };
        let io = self.read_io(context.buffer);
        let cpu_ns = self.cpu_time.total_ns(stat.cpu_floor_ns, stat.threads, context.buffer);
        let rollup = self.rollup.read_if_due(context.rollup_policy, context.live_targets, context.buffer);
        Ok(Some(MemoryRow {
            timestamp_ns,
            label: self.label.clone(),
            pid: self.pid,
            rss_bytes,
            vms_bytes,
            pss_bytes: rollup.pss_bytes,
            uss_bytes: rollup.uss_bytes,
            anon_bytes: status.anon_bytes,
            file_bytes: status.file_bytes,
            shmem_bytes: status.shmem_bytes,
            swap_bytes: status.swap_bytes,
            threads: Some(stat.threads),
            minor_faults: Some(stat.minor_faults),
            major_faults: Some(stat.major_faults),
            read_bytes: io.read_bytes,
            write_bytes: io.write_bytes,
            cpu_ns: Some(cpu_ns),
            cpu_pct: self.cpu_pct(timestamp_ns, cpu_ns),
        }))
    }

    fn read_io(&self, buffer: &mut Vec<u8>) -> Io {
        // Permission is asked at every reading: a program may have changed its user since.
        self.io.as_ref().and_then(|file| file.read(buffer).ok()).map(parse::io).unwrap_or_default()
    }

    fn cpu_pct(&mut self, timestamp_ns: u64, cpu_ns: u64) -> Option<f64> {
        let (previous_timestamp_ns, previous_cpu_ns) = self.previous.replace((timestamp_ns, cpu_ns))?;
        let wall_ns = timestamp_ns.checked_sub(previous_timestamp_ns).filter(|&wall_ns| wall_ns > 0)?;
        Some((cpu_ns - previous_cpu_ns) as f64 / wall_ns as f64 * 100.0)
    }
}

fn open_io(dir: &Path) -> Option<ProcFile> {
    ProcFile::open(&dir.join("io")).ok()
}

fn is_ended(state: u8) -> bool {
    matches!(state, b'Z' | b'X' | b'x')
}
