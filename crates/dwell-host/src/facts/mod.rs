//! What the machine is.

mod frequency;
mod gpu;
mod kernel;
mod platform;
mod topology;

use dwell_events::host::{Host, HostMemory, Topology};
use sha2::{Digest, Sha256};

use crate::meminfo::Meminfo;
use crate::root::Root;

pub(crate) use frequency::POLICIES;
pub(crate) use gpu::gpus;
pub(crate) use kernel::perf_event_paranoid;

/// Hexadecimal digits of a machine's name.
const MACHINE_ID_DIGITS: usize = 12;

/// Reads what this machine is.
pub fn read_host() -> Host {
    read_host_at(&Root::default())
}

/// Reads what a machine is from a tree of its files. What only a running machine tells is this machine's:
/// the processors that may be used, the size of a page, the architecture.
pub fn read_host_at(root: &Root) -> Host {
    let meminfo = Meminfo::read(root);
    let cpu_model = cpu_model(root);
    let memory_bytes = meminfo.bytes("MemTotal").available().copied();
    let topology = topology::read(root);
    Host {
        machine_id: machine_id(root, cpu_model.as_deref(), memory_bytes, topology.available()),
        cpu_model,
        cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        memory_bytes,
        page_bytes: rustix::param::page_size() as u64,
        kernel: root.word("proc/sys/kernel/osrelease").unwrap_or_default(),
        os: root.text("etc/os-release").ok().and_then(|text| value_of(&text, "PRETTY_NAME", '=')),
        architecture: std::env::consts::ARCH.to_owned(),
        topology,
        memory: HostMemory {
            swap_bytes: meminfo.bytes("SwapTotal"),
            huge_pages: meminfo.count("HugePages_Total"),
            huge_page_bytes: meminfo.bytes("Hugepagesize"),
        },
        gpus: gpus(root),
        frequency: frequency::read(root),
        turbo: frequency::turbo(root),
        power_source: platform::power_source(root),
        container: platform::container(root),
        virtual_machine: platform::virtual_machine(root),
        kernel_settings: kernel::settings(root),
        glibc: kernel::glibc(root),
    }
}

/// The name of the processor; ARM kernels give the board's instead.
fn cpu_model(root: &Root) -> Option<String> {
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    let from_cpuinfo = ["model name", "Model", "Hardware"].iter().find_map(|key| value_of(&cpuinfo, key, ':'));
    // The device tree ends its texts with a zero.
    let from_tree = || root.word("proc/device-tree/model").map(|text| text.trim_end_matches('\0').to_owned());
    from_cpuinfo.or_else(from_tree)
}

/// The value of the first line with this key.
fn value_of(text: &str, key: &str, separator: char) -> Option<String> {
    let value = text.lines().find_map(|line| {
        let (found, value) = line.split_once(separator)?;
        (found.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
    });
    value.filter(|value| !value.is_empty())
}

/// Memory counts in whole GiB: what the kernel keeps for itself differs from start to start.
fn machine_id(root: &Root, cpu_model: Option<&str>, memory_bytes: Option<u64>, topology: Option<&Topology>) -> String {
    let memory_gib = memory_bytes.map(|bytes| (bytes as f64 / (1u64 << 30) as f64).round() as u64);
    let counts = topology.map(|topology| (topology.sockets, topology.cores, topology.threads));
    let hostname = root.word("proc/sys/kernel/hostname");
    let identity = format!("{cpu_model:?}\n{memory_gib:?}\n{counts:?}\n{hostname:?}");
    let digest = Sha256::digest(identity.as_bytes());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    digits[..MACHINE_ID_DIGITS].to_owned()
}
