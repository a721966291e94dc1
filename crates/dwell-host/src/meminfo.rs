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
        let value = self.text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let count = value.and_then(|value| value.split_ascii_whitespace().next()?.parse().ok());
        Sensor::from_option(count, format!("/proc/meminfo has no {key}"))
    }
}
