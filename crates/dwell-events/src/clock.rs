/// One moment read on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClockAnchor {
    /// CLOCK_MONOTONIC nanoseconds.
    pub monotonic_ns: u64,
    /// Nanoseconds since the epoch.
    pub unix_ns: u64,
}

impl ClockAnchor {
    /// Nanoseconds since the epoch at a moment of the monotonic clock; moments before the epoch are the epoch.
    pub fn unix_ns_at(&self, monotonic_ns: u64) -> u64 {
        let unix_ns = i128::from(self.unix_ns) + i128::from(monotonic_ns) - i128::from(self.monotonic_ns);
        u64::try_from(unix_ns.max(0)).unwrap_or(u64::MAX)
    }
}
