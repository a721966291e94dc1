//! What can be observed on this machine, found out by doing it: an event is opened and counts, a program is loaded, a
//! counter is read. Versions and settings are looked at only to say why something did not work.

mod ebpf;
mod memory;
mod perf;
mod perf_mem;
mod programs;
mod refusal;
mod sensors;
#[allow(unsafe_code, reason = "eBPF and userfaultfd are system calls that no crate of ours wraps")]
mod syscalls;

use std::path::PathBuf;

use dwell_events::host::{Outcome, Probe, ProbeKind};

pub use perf::refusal as perf_event_refusal;

use crate::root::Root;

/// Where the probes look.
#[derive(Clone, Debug, Default)]
pub struct ProbeContext {
    /// Files of the kernel. Sensors are read there; system calls are always the running kernel's.
    pub root: Root,
    /// The recorder as a library, if it was found.
    pub preload_library: Option<PathBuf>,
}

type Attempt = fn(&ProbeContext) -> Outcome;

/// One thing that is tried. The documentation says the same in the same words.
pub struct ProbeSpec {
    /// Name, unique among the probes.
    pub name: &'static str,
    /// What it is about.
    pub kind: ProbeKind,
    /// What is done to find out.
    pub tried: &'static str,
    /// What can be observed where it works.
    pub enables: &'static str,
    /// What to do where it does not.
    pub otherwise: &'static str,
    attempt: Attempt,
}

/// All probes of this crate, in the order in which they are listed.
const PROBES: [ProbeSpec; 15] = [
    ProbeSpec {
        name: "perf_software",
        kind: ProbeKind::Facility,
        tried: "page faults of this process are counted and sampled while it touches new pages",
        enables: "first touch of each page, with address",
        otherwise: "`sudo sysctl kernel.perf_event_paranoid=1`; in a container, `--cap-add PERFMON` and a seccomp profile that allows `perf_event_open`",
        attempt: perf::software,
    },
    ProbeSpec {
        name: "perf_hardware",
        kind: ProbeKind::Facility,
        tried: "cycles and instructions of this process are counted",
        enables: "processor counters",
        otherwise: "the same; in a virtual machine the host must pass the counters on",
        attempt: perf::hardware,
    },
    ProbeSpec {
        name: "perf_mem",
        kind: ProbeKind::Facility,
        tried: "loads are sampled with Intel's `mem-loads` or AMD's `ibs_op`; Arm's `arm_spe_0` is named, its samples cannot be read",
        enables: "sampled loads and stores of any program, with address and latency",
        otherwise: "the same; there is no such unit in most virtual machines",
        attempt: perf_mem::probe,
    },
    ProbeSpec {
        name: "ebpf",
        kind: ProbeKind::Facility,
        tried: "a map is made, a program of two instructions loaded and attached, the kernel's types (BTF) read",
        enables: "tracing of faults, disks and scheduling inside the kernel",
        otherwise: "run as root, or the `setcap` that is shown",
        attempt: ebpf::probe,
    },
    ProbeSpec {
        name: "uffd_wp",
        kind: ProbeKind::Facility,
        tried: "memory is registered for asynchronous write protection, one page is written, a scan has to find that page",
        enables: "which pages were written, exactly",
        otherwise: "Linux 6.7; `sudo sysctl vm.unprivileged_userfaultfd=1`",
        attempt: |_| memory::uffd_wp(),
    },
    ProbeSpec {
        name: "clear_refs",
        kind: ProbeKind::Facility,
        tried: "marks of access are cleared, memory is touched, `Referenced` in `smaps` has to grow by as much",
        enables: "which mappings were read or written",
        otherwise: "a kernel with `CONFIG_PROC_PAGE_MONITOR`",
        attempt: |_| memory::clear_refs(),
    },
    ProbeSpec {
        name: "pagemap",
        kind: ProbeKind::Facility,
        tried: "one of two pages is touched; the kernel has to tell which",
        enables: "which pages are in memory; frame numbers as root",
        otherwise: "the same",
        attempt: |_| memory::pagemap(),
    },
    ProbeSpec {
        name: "soft_dirty",
        kind: ProbeKind::Facility,
        tried: "one of two pages is written; the kernel has to mark it",
        enables: "which pages were written, the older way",
        otherwise: "a kernel with `CONFIG_MEM_SOFT_DIRTY`; `uffd_wp` does the same",
        attempt: |_| memory::soft_dirty(),
    },
    ProbeSpec {
        name: "psi",
        kind: ProbeKind::Facility,
        tried: "the stalls of cpu, memory and io are read",
        enables: "pressure",
        otherwise: "start the kernel with `psi=1`",
        attempt: sensors::psi,
    },
    ProbeSpec {
        name: "preload",
        kind: ProbeKind::Facility,
        tried: "`libdwell_preload.so` beside `dwell` or in `../lib/dwell` is loaded into `/bin/cat`, which has to show it \
                among its mappings",
        enables: "unmodified programs",
        otherwise: "`cargo build --release -p dwell-preload`, or put the library beside the program",
        attempt: programs::preload,
    },
    ProbeSpec {
        name: "gpu",
        kind: ProbeKind::Sensor,
        tried: "the drivers' lists are read",
        enables: "its name and memory in the facts",
        otherwise: "install its driver",
        attempt: sensors::gpu,
    },
    ProbeSpec {
        name: "rapl",
        kind: ProbeKind::Sensor,
        tried: "the energy counters are read",
        enables: "energy",
        otherwise: "`sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj`",
        attempt: sensors::rapl,
    },
    ProbeSpec {
        name: "thermal",
        kind: ProbeKind::Sensor,
        tried: "the temperature of the processor is read",
        enables: "temperature",
        otherwise: "load `coretemp` or `k10temp`; not in virtual machines",
        attempt: sensors::thermal,
    },
    ProbeSpec {
        name: "throttle_counters",
        kind: ProbeKind::Sensor,
        tried: "the counters of all processors are read",
        enables: "throttle events",
        otherwise: "Intel processors, outside of virtual machines",
        attempt: sensors::throttle_counters,
    },
    ProbeSpec {
        name: "cpu_frequency",
        kind: ProbeKind::Sensor,
        tried: "the frequency is read; `degraded` if only `/proc/cpuinfo` tells it",
        enables: "frequency",
        otherwise: "a cpufreq driver, outside of virtual machines",
        attempt: sensors::cpu_frequency,
    },
];

/// All probes of this crate, in the order in which they are listed.
pub fn probe_specs() -> &'static [ProbeSpec] {
    &PROBES
}

/// Names of the probes of this crate.
pub fn probe_names() -> Vec<&'static str> {
    PROBES.iter().map(|probe| probe.name).collect()
}

/// Tries everything.
pub fn probe_all(context: &ProbeContext) -> Vec<Probe> {
    PROBES.iter().map(|probe| Probe::new(probe.name, probe.kind, (probe.attempt)(context))).collect()
}
