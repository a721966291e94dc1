//! Processes of macOS, as far as `sysinfo` tells: resident and virtual memory, CPU time, storage I/O. Compiled, not tried.

mod target;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

use crate::error::ProcessError;
use crate::find::FoundProcess;
use crate::gpu_support::GpuSupport;
use crate::relation::Relation;
use crate::tree::ProcessLine;

pub(crate) use target::{Sampled, Target};

/// What all processes of a sampler share: the list of all, read anew in each sample.
pub(crate) struct Reader {
    system: System,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { system: System::new() }
    }

    pub(crate) fn begin_sample(&mut self, _pids: impl Iterator<Item = u32>) {
        let kind = ProcessRefreshKind::nothing().with_memory().with_cpu().with_disk_usage();
        self.system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind);
    }

    /// There are no control groups.
    pub(crate) fn cgroup_total_bytes<'a>(&mut self, _targets: impl Iterator<Item = &'a Target>) -> Option<u64> {
        None
    }
}

/// Finds new processes: among all, since the system does not say which are new.
pub(crate) struct Newcomers;

impl Newcomers {
    pub(crate) fn new(_reader: &mut Reader) -> Self {
        Self
    }

    pub(crate) fn look(&mut self, reader: &mut Reader) -> Vec<Relation> {
        reader.begin_sample(std::iter::empty());
        relations_in(&reader.system)
    }

    /// They are anyway.
    pub(crate) fn look_at_all_next(&mut self) {}

    /// All are looked at again anyway.
    pub(crate) fn look_again_at(&mut self, _pid: u32) {}
}

/// Every process that can be seen, with its parent.
pub(crate) fn relations() -> Vec<Relation> {
    relations_in(&all(ProcessRefreshKind::nothing()))
}

/// Ids of all processes that can be seen.
pub(crate) fn ids() -> Vec<u32> {
    all(ProcessRefreshKind::nothing()).processes().keys().map(|pid| pid.as_u32()).collect()
}

/// What the system says of one process.
pub(crate) fn line(pid: u32) -> Option<ProcessLine> {
    let system = all(ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always));
    let process = system.process(Pid::from_u32(pid))?;
    Some(ProcessLine {
        pid,
        parent: process.parent()?.as_u32(),
        name: process.name().to_string_lossy().into_owned(),
        command_line: process.cmd().iter().map(|word| word.to_string_lossy().into_owned()).collect(),
    })
}

fn all(kind: ProcessRefreshKind) -> System {
    let mut system = System::new();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind);
    system
}

fn relations_in(system: &System) -> Vec<Relation> {
    let relation = |(pid, process): (&Pid, &sysinfo::Process)| {
        Some(Relation { pid: pid.as_u32(), parent: process.parent()?.as_u32() })
    };
    system.processes().iter().filter_map(relation).collect()
}

/// The parents of this process, nearest first.
pub(crate) fn parents_of_this_process() -> Vec<u32> {
    let relations = relations();
    let parent = |pid: u32| relations.iter().find(|relation| relation.pid == pid).map(|relation| relation.parent);
    std::iter::successors(parent(std::process::id()), |&pid| parent(pid)).take_while(|&pid| pid > 0).collect()
}

/// Every program that can be seen.
pub(crate) fn list() -> Result<Vec<FoundProcess>, ProcessError> {
    let system = all(ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always));
    let describe = |(pid, process): (&Pid, &sysinfo::Process)| FoundProcess {
        pid: pid.as_u32(),
        name: process.name().to_string_lossy().into_owned(),
        command_line: process.cmd().iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
    };
    Ok(system.processes().iter().map(describe).collect())
}

/// Short name of a process.
pub(crate) fn name(pid: u32) -> Option<String> {
    let mut system = System::new();
    let wanted = [Pid::from_u32(pid)];
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&wanted), true, ProcessRefreshKind::nothing());
    Some(system.process(wanted[0])?.name().to_string_lossy().into_owned())
}

/// Not told by the system.
pub fn own_peak_rss_bytes() -> Option<u64> {
    None
}

/// NVIDIA's driver is not made for this system.
pub fn gpu_support() -> GpuSupport {
    GpuSupport::NoDriver
}
