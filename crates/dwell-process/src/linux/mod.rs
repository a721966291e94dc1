//! Processes of Linux, from procfs.

mod cgroup;
mod cpu_time;
mod gpu;
mod list;
mod newcomers;
mod own_peak;
mod parse;
mod proc_dir;
mod proc_file;
mod target;

use cgroup::Cgroups;
use gpu::Gpu;

pub use gpu::gpu_support;
pub(crate) use list::{ids, line, list, name, parents_of_this_process, relations};
pub(crate) use newcomers::Newcomers;
pub use own_peak::own_peak_rss_bytes;
pub(crate) use target::{Sampled, Target};

/// What all processes of a sampler share.
pub(crate) struct Reader {
    buffer: Vec<u8>,
    cgroups: Cgroups,
    gpu: Gpu,
    /// Processes in the present sample.
    living: usize,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; 4096], cgroups: Cgroups::new(), gpu: Gpu::new(), living: 0 }
    }

    /// Begins a sample of these processes.
    pub(crate) fn begin_sample(&mut self, pids: impl Iterator<Item = u32>) {
        let pids: Vec<u32> = pids.collect();
        self.living = pids.len();
        self.cgroups.begin_sample();
        self.gpu.begin_sample(&pids);
    }

    /// Memory of the control groups of these processes, each group once; none if it is not known of one.
    pub(crate) fn cgroup_total_bytes<'a>(&mut self, targets: impl Iterator<Item = &'a Target>) -> Option<u64> {
        let groups: Option<Vec<_>> = targets.map(Target::cgroup).collect();
        self.cgroups.total_bytes(groups?, &mut self.buffer)
    }
}
