//! What can be observed on this machine, found out by doing it: an event is opened and counts, a program is loaded, a
//! counter is read. Versions and settings are looked at only to say why something did not work.

mod ebpf;
mod memory;
mod perf;
mod perf_mem;
mod programs;
mod refusal;
mod sensors;
#[allow(unsafe_code, reason = "perf events, eBPF and userfaultfd are system calls that no crate of ours wraps")]
mod syscalls;

use std::path::PathBuf;

use serde::Serialize;

use crate::root::Root;

/// What a probe is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// A way of watching that dwell has.
    Collector,
    /// Something that the kernel offers.
    Facility,
    /// Something that the hardware measures.
    Sensor,
}

/// What came of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeStatus {
    /// It did what it should.
    Works,
    /// It did a part of it.
    Degraded,
    /// It is there and did not work.
    Fails,
    /// This machine does not have it.
    Absent,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Name, unique among the probes.
    pub name: &'static str,
    /// What it is about.
    pub kind: ProbeKind,
    /// What came of it.
    pub status: ProbeStatus,
    /// What was found, in words.
    pub found: String,
    /// A command that may change it.
    pub remedy: Option<String>,
}

impl Probe {
    /// Puts a probe's name to what came of it.
    pub fn new(name: &'static str, kind: ProbeKind, outcome: Outcome) -> Self {
        Self { name, kind, status: outcome.status, found: outcome.found, remedy: outcome.remedy }
    }

    /// Whether all of it works.
    pub fn works(&self) -> bool {
        self.status == ProbeStatus::Works
    }

    /// Why it does not work at all; none if it does, if only in part.
    pub fn failure(&self) -> Option<String> {
        matches!(self.status, ProbeStatus::Fails | ProbeStatus::Absent).then(|| self.found.clone())
    }
}

/// What came of trying something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    status: ProbeStatus,
    found: String,
    remedy: Option<String>,
}

impl Outcome {
    /// It did what it should.
    pub fn works(found: impl Into<String>) -> Self {
        Self::new(ProbeStatus::Works, found)
    }

    /// It did a part of it.
    pub fn degraded(found: impl Into<String>) -> Self {
        Self::new(ProbeStatus::Degraded, found)
    }

    /// It is there and did not work.
    pub fn fails(found: impl Into<String>) -> Self {
        Self::new(ProbeStatus::Fails, found)
    }

    /// This machine does not have it.
    pub fn absent(found: impl Into<String>) -> Self {
        Self::new(ProbeStatus::Absent, found)
    }

    /// With a command that may change it.
    pub fn remedy(mut self, command: impl Into<String>) -> Self {
        self.remedy = Some(command.into());
        self
    }

    fn new(status: ProbeStatus, found: impl Into<String>) -> Self {
        Self { status, found: found.into(), remedy: None }
    }
}

/// Where the probes look.
#[derive(Clone, Debug, Default)]
pub struct ProbeContext {
    /// Files of the kernel. Sensors are read there; system calls are always the running kernel's.
    pub root: Root,
    /// The recorder as a library, if it was found.
    pub preload_library: Option<PathBuf>,
}

type Try = fn(&ProbeContext) -> Outcome;

/// All probes of this crate, in the order in which they are listed.
const PROBES: [(&str, ProbeKind, Try); 15] = [
    ("perf_software", ProbeKind::Facility, perf::software),
    ("perf_hardware", ProbeKind::Facility, perf::hardware),
    ("perf_mem", ProbeKind::Facility, perf_mem::probe),
    ("ebpf", ProbeKind::Facility, ebpf::probe),
    ("uffd_wp", ProbeKind::Facility, |_| memory::uffd_wp()),
    ("clear_refs", ProbeKind::Facility, |_| memory::clear_refs()),
    ("pagemap", ProbeKind::Facility, |_| memory::pagemap()),
    ("soft_dirty", ProbeKind::Facility, |_| memory::soft_dirty()),
    ("psi", ProbeKind::Facility, sensors::psi),
    ("preload", ProbeKind::Facility, programs::preload),
    ("gpu", ProbeKind::Sensor, sensors::gpu),
    ("rapl", ProbeKind::Sensor, sensors::rapl),
    ("thermal", ProbeKind::Sensor, sensors::thermal),
    ("throttle_counters", ProbeKind::Sensor, sensors::throttle_counters),
    ("cpu_frequency", ProbeKind::Sensor, sensors::cpu_frequency),
];

/// Names of the probes of this crate.
pub fn probe_names() -> Vec<&'static str> {
    PROBES.iter().map(|(name, ..)| *name).collect()
}

/// Tries everything.
pub fn probe_all(context: &ProbeContext) -> Vec<Probe> {
    PROBES.iter().map(|&(name, kind, attempt)| Probe::new(name, kind, attempt(context))).collect()
}
