//! The machine, in a few lines.

use std::fs;

/// What must stand beside a number: processor, cores, memory, kernel, load.
pub(crate) fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_once(':'))
            .map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    format!(
        "cpu: {}\ncores: {cores}\nmemory: {}\nkernel: {}\nload average: {}\n",
        field(&read("/proc/cpuinfo"), "model name"),
        field(&read("/proc/meminfo"), "MemTotal"),
        read("/proc/sys/kernel/osrelease").trim(),
        read("/proc/loadavg").trim(),
    )
}

/// A short name for folders: the processor's name in small letters.
pub(crate) fn short_name() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let words = model.trim_start_matches([' ', '\t', ':']).to_lowercase();
    let plain: String = words.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    format!("{}-{cores}-cores", plain.trim_matches('-'))
}
