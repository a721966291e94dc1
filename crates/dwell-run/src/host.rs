//! The machine that a run was made on.

use std::fs;

use serde::{Deserialize, Serialize};

/// Facts about the machine; a fact that it does not give is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
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
}

impl HostFacts {
    /// Reads the facts of this machine.
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, key: &str, separator: char| {
            text.lines()
                .find(|line| line.starts_with(key))
                .and_then(|line| line.split_once(separator))
                .map(|(_, value)| value.trim().trim_matches('"').to_owned())
        };
        let kibibytes = after(&text("/proc/meminfo"), "MemTotal", ':');
        Self {
            cpu_model: after(&text("/proc/cpuinfo"), "model name", ':'),
            cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
            memory_bytes: kibibytes
                .and_then(|value| value.trim_end_matches("kB").trim().parse::<u64>().ok())
                .map(|kibibytes| kibibytes * 1024),
            page_bytes: rustix::param::page_size() as u64,
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            os: after(&text("/etc/os-release"), "PRETTY_NAME", '='),
            architecture: std::env::consts::ARCH.to_owned(),
        }
    }
}
