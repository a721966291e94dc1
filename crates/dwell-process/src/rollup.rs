use std::path::PathBuf;
use std::time::Duration;

use crate::clock::monotonic_ns;
use crate::parse::{self, Rollup};
use crate::proc_file::ProcFile;

/// How often the page tables are walked for `pss` and `uss`.
///
/// The walk holds the memory-map lock of the watched process, which then waits if it maps memory, so it is
/// bounded in time as well as in number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RollupPolicy {
    /// Least time between two walks of one process.
    pub least_interval: Duration,
    /// Greatest part of the time spent walking, over all processes: a walk of 20 ms is followed by a pause of
    /// 10 s at 0.002. 0 turns the walks off.
    pub most_time_share: f64,
}

impl Default for RollupPolicy {
    fn default() -> Self {
        Self { least_interval: Duration::from_secs(1), most_time_share: 0.002 }
    }
}

impl RollupPolicy {
    /// No walks at all; `pss` and `uss` are then never known.
    pub fn never() -> Self {
        Self { most_time_share: 0.0, ..Self::default() }
    }

    fn pause_after(&self, walk: Duration, targets: usize) -> Duration {
        let share = self.most_time_share / targets.max(1) as f64;
        let pause_secs = walk.as_secs_f64() / share;
        Duration::try_from_secs_f64(pause_secs).unwrap_or(Duration::MAX).max(self.least_interval)
    }
}

/// Walks the page tables of one process when it is time.
pub(crate) struct RollupReader {
    path: PathBuf,
    due_ns: u64,
    is_permitted: bool,
}

impl RollupReader {
    pub(crate) fn new(pid: u32) -> Self {
        Self { path: PathBuf::from(format!("/proc/{pid}/smaps_rollup")), due_ns: 0, is_permitted: true }
    }

    /// The sizes, if a walk is due and permitted.
    pub(crate) fn read_if_due(&mut self, policy: &RollupPolicy, targets: usize, buffer: &mut Vec<u8>) -> Rollup {
        let begin_ns = monotonic_ns();
        if begin_ns < self.due_ns || !self.is_permitted || policy.most_time_share <= 0.0 {
            return Rollup::default();
        }
        // Opened each time: an open file belongs to the memory of the program before an `exec`.
        let rollup = ProcFile::open(&self.path).and_then(|file| file.read(buffer).map(parse::rollup));
        let end_ns = monotonic_ns();
        let pause = policy.pause_after(Duration::from_nanos(end_ns - begin_ns), targets);
        self.due_ns = end_ns.saturating_add(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX));
        rollup.unwrap_or_else(|error| {
            self.is_permitted = error.kind() != std::io::ErrorKind::PermissionDenied;
            Rollup::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_walk_is_followed_by_a_pause_that_keeps_its_share_of_time() {
        let policy = RollupPolicy::default();
        assert_eq!(policy.pause_after(Duration::from_micros(100), 1), Duration::from_secs(1));
        assert_eq!(policy.pause_after(Duration::from_millis(20), 1), Duration::from_secs(10));
        assert_eq!(policy.pause_after(Duration::from_millis(20), 2), Duration::from_secs(20));
        assert_eq!(RollupPolicy::never().pause_after(Duration::from_millis(1), 1), Duration::MAX);
    }
}
