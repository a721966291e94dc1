use std::time::Duration;

use dwell_clock::monotonic_ns;

/// How often the page tables are walked for `pss` and `uss`.
///
/// The walk holds the memory-map lock of the watched process, which then waits if it maps memory, so it is
/// bounded in time as well as in number. All processes are walked in the same sample: only so can their shares be
/// summed up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RollupPolicy {
    /// Least time between two walks.
    pub least_interval: Duration,
    /// Greatest part of the time spent walking, over all processes: walks of 20 ms are followed by a pause of
    /// 20 s at 0.001. 0 turns the walks off.
    pub most_time_share: f64,
}

impl Default for RollupPolicy {
    fn default() -> Self {
        Self { least_interval: Duration::from_secs(1), most_time_share: 0.001 }
    }
}

impl RollupPolicy {
    /// No walks at all; `pss` and `uss` are then never known.
    pub fn never() -> Self {
        Self { most_time_share: 0.0, ..Self::default() }
    }

    /// A walk in every sample, whatever it costs.
    pub fn always() -> Self {
        Self { least_interval: Duration::ZERO, most_time_share: f64::INFINITY }
    }

    fn pause_after(&self, walks: Duration) -> Duration {
        let pause_secs = walks.as_secs_f64() / self.most_time_share;
        Duration::try_from_secs_f64(pause_secs).unwrap_or(Duration::MAX).max(self.least_interval)
    }
}

/// When the next walks are due.
#[derive(Default)]
pub(crate) struct RollupSchedule {
    pub(crate) policy: RollupPolicy,
    due_ns: u64,
}

impl RollupSchedule {
    pub(crate) fn is_due(&self) -> bool {
        self.policy.most_time_share > 0.0 && monotonic_ns() >= self.due_ns
    }

    /// Makes the walks of the next sample due.
    pub(crate) fn make_due(&mut self) {
        self.due_ns = 0;
    }

    /// Notes how long the walks of a sample took.
    pub(crate) fn walked(&mut self, walks: Duration) {
        let pause_ns = u64::try_from(self.policy.pause_after(walks).as_nanos()).unwrap_or(u64::MAX);
        self.due_ns = monotonic_ns().saturating_add(pause_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_walks_are_followed_by_a_pause_that_keeps_their_share_of_time() {
        let policy = RollupPolicy::default();
        assert_eq!(policy.pause_after(Duration::from_micros(100)), Duration::from_secs(1));
        assert_eq!(policy.pause_after(Duration::from_millis(20)), Duration::from_secs(20));
        assert_eq!(RollupPolicy::never().pause_after(Duration::from_millis(1)), Duration::MAX);
        assert_eq!(RollupPolicy::always().pause_after(Duration::from_millis(20)), Duration::ZERO);
    }
}
