use dwell_events::host::Sensor;

use crate::root::Root;

/// The text of `/proc/meminfo`.
pub(crate) struct Meminfo {
    text: String,
}

impl Meminfo {
    pub(crate) fn read(root: &Root) -> Self {
        Self { text: root.text("proc/meminfo").unwrap_or_default() }
    }

    /// A line that is in kibibytes, as all are that speak of memory.
    pub(crate) fn bytes(&self, key: &str) -> Sensor<u64> {
        self.count(key).map(|kibibytes| kibibytes.saturating_mul(1024))
    }

    /// A line that counts.
    pub(crate) fn count(&self, key: &str) -> Sensor<u64> {
        Sensor::from_option(count(&self.text, key), format!("/proc/meminfo has no {key}"))
    }
}

/// A line of the text of `/proc/meminfo` that speaks of memory, in bytes.
pub fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    count(text, key).map(|kibibytes| kibibytes.saturating_mul(1024))
}

fn count(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}
