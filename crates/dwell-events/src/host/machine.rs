//! What the machine is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Sensor;

/// The machine. Texts that it does not tell are empty or missing, numbers 0 or missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Name of the processor.
    pub cpu_model: Option<String>,
    /// Processors that this process may use.
    pub cpus: u32,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Size of a page.
    pub page_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Name of the distribution.
    pub os: Option<String>,
    /// Architecture.
    pub architecture: String,
    /// Tells machines apart without saying which they are: a hash of processor, memory, topology and host name.
    pub machine_id: String,
    /// Sockets, cores, caches, NUMA nodes.
    pub topology: Sensor<Topology>,
    /// Memory beyond its size.
    pub memory: HostMemory,
    /// Graphics processors; an empty list if there are none.
    pub gpus: Sensor<Vec<Gpu>>,
    /// Limits and rules of the processors' frequency.
    pub frequency: Sensor<FrequencyLimits>,
    /// Whether processors may run above their nominal frequency.
    pub turbo: Sensor<bool>,
    /// Mains or battery.
    pub power_source: Sensor<PowerSource>,
    /// The container that this process is in.
    pub container: Sensor<Container>,
    /// The hypervisor below; `none` on bare metal.
    pub virtual_machine: Sensor<String>,
    /// Settings of the kernel that change what is measured.
    pub kernel_settings: KernelSettings,
    /// Version of the C library that dwell was started with.
    pub glibc: Sensor<String>,
}

/// Huge pages and swap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMemory {
    /// Swap space.
    pub swap_bytes: Sensor<u64>,
    /// Huge pages set aside.
    pub huge_pages: Sensor<u64>,
    /// Size of one of them.
    pub huge_page_bytes: Sensor<u64>,
}

/// How the processors are arranged; those that are switched off are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Packages.
    pub sockets: u32,
    /// Cores over all sockets.
    pub cores: u32,
    /// Hardware threads over all cores.
    pub threads: u32,
    /// Threads of one core, the most if cores differ.
    pub threads_per_core: u32,
    /// Caches, one entry for each sort.
    pub caches: Vec<Cache>,
    /// NUMA nodes; an empty list if the kernel knows none.
    pub numa_nodes: Vec<NumaNode>,
}

/// One sort of cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is next to the core.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Size of one of them.
    pub size_bytes: u64,
    /// Threads that share one.
    pub shared_by: u32,
    /// How many there are.
    pub instances: u32,
}

/// One NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Number that the kernel gives it.
    pub id: u32,
    /// Its processors, like `0-3,8`; empty for memory alone.
    pub cpus: String,
    /// Its memory.
    pub memory_bytes: Sensor<u64>,
}

/// One graphics processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its name, or the maker's and the device's number where the driver gives none.
    pub name: String,
    /// Its own memory.
    pub memory_bytes: Sensor<u64>,
    /// The driver, with its version where it has one.
    pub driver: Sensor<String>,
}

/// What the frequency may be. Over all processors: the lowest minimum and the highest maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequencyLimits {
    /// Lowest that the hardware can do.
    pub hardware_min_mhz: Sensor<u64>,
    /// Highest that the hardware can do.
    pub hardware_max_mhz: Sensor<u64>,
    /// Lowest that is allowed.
    pub scaling_min_mhz: Sensor<u64>,
    /// Highest that is allowed.
    pub scaling_max_mhz: Sensor<u64>,
    /// Who chooses the frequency; several names if processors differ.
    pub governor: Sensor<String>,
    /// Who sets it.
    pub driver: Sensor<String>,
}

/// Where the power comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerSource {
    /// Mains.
    Ac,
    /// Battery.
    Battery,
}

/// What a process may be contained in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Container {
    /// Nothing that leaves a mark.
    None,
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// A Kubernetes pod.
    Kubernetes,
    /// LXC or Incus.
    Lxc,
    /// systemd-nspawn.
    SystemdNspawn,
    /// A container of another kind.
    Other,
}

/// Settings of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSettings {
    /// Which memory gets transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Sensor<String>,
    /// How much an ordinary user may measure; 2 is its own programs, 4 on some distributions nothing.
    pub perf_event_paranoid: Sensor<i32>,
    /// What is done against flaws of the processor, for those that it has.
    pub mitigations: Sensor<BTreeMap<String, String>>,
}
