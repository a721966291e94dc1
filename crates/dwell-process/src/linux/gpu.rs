//! Memory on NVIDIA GPUs, by the driver's own account (NVML). Its library is opened only where the driver runs.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use dwell_clock::monotonic_ns;
use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;

use crate::gpu_support::GpuSupport;

const LIBRARY: &str = "libnvidia-ml.so.1";
/// There while the driver is.
const DRIVER_DEVICE: &str = "/dev/nvidiactl";
/// Inode of the first PID namespace, fixed by the kernel.
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;
/// The driver is left alone for this many times as long as it took to answer,
const PAUSE_PER_LOOK: u64 = 500;
/// and no longer than this: it is slow while a program begins to use it.
const LONGEST_PAUSE_NS: u64 = 1_000_000_000;

/// Tries whether memory on GPUs can be sampled here.
pub fn gpu_support() -> GpuSupport {
    match open() {
        None => GpuSupport::NoDriver,
        Some(opened) => match opened.and_then(|nvml| nvml.device_count()) {
            Ok(gpus) => GpuSupport::Gpus(gpus),
            Err(error) => GpuSupport::Unusable(error.to_string()),
        },
    }
}

/// Memory of all processes on all GPUs, in the present sample.
pub(crate) struct Gpu {
    nvml: Option<Nvml>,
    used: Option<HashMap<u32, Option<u64>>>,
    /// Whether a process that the driver does not name has nothing on its GPUs, rather than another id there.
    knows_our_ids: bool,
    due_ns: u64,
}

fn open() -> Option<Result<Nvml, NvmlError>> {
    Path::new(DRIVER_DEVICE).exists().then(|| Nvml::builder().lib_path(OsStr::new(LIBRARY)).init())
}

impl Gpu {
    pub(crate) fn new() -> Self {
        let namespace = fs::metadata("/proc/self/ns/pid").map(|found| found.ino());
        let knows_our_ids = namespace.is_ok_and(|inode| inode == FIRST_PID_NAMESPACE);
        Self { nvml: open().and_then(Result::ok), used: None, knows_our_ids, due_ns: 0 }
    }

    pub(crate) fn begin_sample(&mut self, pids: &[u32]) {
        self.used = None;
        let begin_ns = monotonic_ns();
        let Some(nvml) = self.nvml.as_ref().filter(|_| begin_ns >= self.due_ns) else { return };
        self.used = used_bytes(nvml).ok();
        let end_ns = monotonic_ns();
        self.due_ns = end_ns + ((end_ns - begin_ns) * PAUSE_PER_LOOK).min(LONGEST_PAUSE_NS);
        // In a container the driver may speak of the ids outside. Naming one of ours shows that it does not.
        self.knows_our_ids |= self.used.as_ref().is_some_and(|used| pids.iter().any(|pid| used.contains_key(pid)));
    }

    /// What a process has on the GPUs; none if the driver was not asked or does not say.
    pub(crate) fn bytes_of(&self, pid: u32) -> Option<u64> {
        let used = self.used.as_ref()?;
        used.get(&pid).copied().unwrap_or(self.knows_our_ids.then_some(0))
    }
}

/// Bytes by process; none where the driver does not account for a process's memory.
fn used_bytes(nvml: &Nvml) -> Result<HashMap<u32, Option<u64>>, NvmlError> {
    let mut total = HashMap::new();
    for index in 0..nvml.device_count()? {
        let device = nvml.device_by_index(index)?;
        // A process that computes and draws is in both lists, with the same memory.
        let mut on_device: HashMap<u32, Option<u64>> = HashMap::new();
        for process in device.running_compute_processes()?.into_iter().chain(device.running_graphics_processes()?) {
            let used_bytes = match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            };
            on_device.insert(process.pid, used_bytes);
        }
        for (pid, bytes) in on_device {
            let sum: &mut Option<u64> = total.entry(pid).or_insert(Some(0));
            *sum = sum.zip(bytes).map(|(sum, bytes)| sum + bytes);
        }
    }
    Ok(total)
}
