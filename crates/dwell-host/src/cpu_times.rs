//! What all processors did, from `/proc/stat`.

use dwell_events::host::Sensor;

use crate::kept_file::KeptFile;
use crate::root::Root;

/// Ticks since the machine was started, over all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    busy: u64,
    steal: u64,
    idle: u64,
}

/// Shares of a span of time; 100 is all processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuShares {
    pub(crate) busy_pct: f64,
    pub(crate) steal_pct: f64,
}

impl CpuTimes {
    /// From the text of `/proc/stat`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        // user nice system idle, then iowait irq softirq steal on newer kernels. Guest time is part of user time.
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        (ticks.len() >= 4).then(|| Self {
            busy: at(0) + at(1) + at(2) + at(5) + at(6),
            steal: at(7),
            idle: at(3) + at(4),
        })
    }

    /// The shares from an earlier moment to this one; none if no tick has passed.
    pub(crate) fn shares_since(&self, earlier: &Self) -> Option<CpuShares> {
        // Waiting for I/O is known to go backwards on some kernels.
        let busy = self.busy.saturating_sub(earlier.busy) as f64;
        let steal = self.steal.saturating_sub(earlier.steal) as f64;
        let total = busy + steal + self.idle.saturating_sub(earlier.idle) as f64;
        (total > 0.0).then(|| CpuShares { busy_pct: busy / total * 100.0, steal_pct: steal / total * 100.0 })
    }
}

/// Follows the processors from a first look to the last.
pub(crate) struct CpuWatch {
    state: Result<Watching, String>,
}

struct Watching {
    file: KeptFile,
    first: CpuTimes,
    last: CpuTimes,
    max_busy_pct: Option<f64>,
}

impl CpuWatch {
    pub(crate) fn begin(root: &Root, buffer: &mut Vec<u8>) -> Self {
        let state = KeptFile::open(root.path("proc/stat")).and_then(|file| {
            let first = times(&file, buffer)?;
            Ok(Watching { file, first, last: first, max_busy_pct: None })
        });
        Self { state }
    }

    pub(crate) fn look(&mut self, buffer: &mut Vec<u8>) {
        let Ok(watching) = &mut self.state else { return };
        match times(&watching.file, buffer) {
            Ok(now) => watching.advance(now),
            Err(reason) => self.state = Err(reason),
        }
    }

    /// Shares over the whole time, and the greatest use between two looks.
    pub(crate) fn shares(&self) -> Sensor<(CpuShares, f64)> {
        let shares = self.state.as_ref().map_err(Clone::clone).and_then(|watching| {
            let whole = watching.last.shares_since(&watching.first);
            whole.zip(watching.max_busy_pct).ok_or_else(|| "no tick of /proc/stat has passed".to_owned())
        });
        shares.into()
    }
}

impl Watching {
    fn advance(&mut self, now: CpuTimes) {
        if let Some(shares) = now.shares_since(&self.last) {
            self.max_busy_pct = Some(self.max_busy_pct.map_or(shares.busy_pct, |max| max.max(shares.busy_pct)));
            self.last = now;
        }
    }
}

fn times(file: &KeptFile, buffer: &mut Vec<u8>) -> Result<CpuTimes, String> {
    CpuTimes::parse(file.read(buffer)?)
        .ok_or_else(|| format!("{} has no line of all processors", file.path().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: &str = "cpu  100 10 50 800 20 5 5 10 30 0\ncpu0 1 2 3\n";
    const LATER: &str = "cpu  140 10 60 830 30 5 5 20 60 0\n";

    #[test]
    fn a_hundred_ticks_make_the_shares_that_were_put_in() {
        let earlier = CpuTimes::parse(EARLIER).unwrap_or_default();
        let later = CpuTimes::parse(LATER).unwrap_or_default();
        // 40 user + 10 system of 40 + 10 + 30 idle + 10 waiting + 10 stolen.
        assert_eq!(later.shares_since(&earlier), Some(CpuShares { busy_pct: 50.0, steal_pct: 10.0 }));
        assert_eq!(earlier.shares_since(&earlier), None);
        assert_eq!(CpuTimes::parse("cpu  1 2\n"), None);
        assert_eq!(CpuTimes::parse("intr 1\n"), None);
    }

    #[test]
    fn waiting_that_goes_backwards_is_no_time() {
        let earlier = CpuTimes::parse("cpu  0 0 0 50 50\n").unwrap_or_default();
        let later = CpuTimes::parse("cpu  10 0 0 50 40\n").unwrap_or_default();
        assert_eq!(later.shares_since(&earlier), Some(CpuShares { busy_pct: 100.0, steal_pct: 0.0 }));
    }
}
