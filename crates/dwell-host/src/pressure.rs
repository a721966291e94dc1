//! Pressure stall information: how long work waited for processors, memory and disks.

use std::time::Instant;

use dwell_events::host::{Pressure, Sensor, Stalls};

use crate::kept_file::KeptFile;
use crate::root::Root;

/// One line of a pressure file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PressureLine {
    /// Share of the last ten seconds, by the kernel's moving average.
    pub avg10_pct: f64,
    /// Time since boot.
    pub total_us: u64,
}

/// Both lines of a pressure file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PressureReading {
    /// At least one task waited.
    pub some: PressureLine,
    /// All tasks waited; older kernels do not have the line for processors.
    pub full: Option<PressureLine>,
}

impl PressureReading {
    /// Reads the text of a pressure file, of the machine or of a control group.
    pub fn parse(text: &str) -> Option<Self> {
        let line = |kind: &str| text.lines().find_map(|line| PressureLine::parse(line.strip_prefix(kind)?));
        Some(Self { some: line("some ")?, full: line("full ") })
    }
}

impl PressureLine {
    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| text.split_ascii_whitespace().find_map(|word| word.strip_prefix(key));
        Some(Self { avg10_pct: value("avg10=")?.parse().ok()?, total_us: value("total=")?.parse().ok()? })
    }

    /// Share of the time since an earlier reading in which tasks waited, in percent.
    pub fn share_since(&self, earlier: &Self, span_s: f64) -> f64 {
        let stalled_s = self.total_us.saturating_sub(earlier.total_us) as f64 / 1e6;
        // The kernel adds up a little behind the clock, so a full stall may come out above the time.
        (stalled_s / span_s * 100.0).min(100.0)
    }
}

/// Follows the pressure from a first look to the last.
pub(crate) struct PressureWatch {
    cpu: ResourceWatch,
    memory: ResourceWatch,
    io: ResourceWatch,
}

impl PressureWatch {
    pub(crate) fn begin(root: &Root, buffer: &mut Vec<u8>) -> Self {
        let mut begin = |name| ResourceWatch::begin(root, name, buffer);
        Self { cpu: begin("cpu"), memory: begin("memory"), io: begin("io") }
    }

    pub(crate) fn end(&self, buffer: &mut Vec<u8>) -> Pressure {
        Pressure { cpu: self.cpu.end(buffer), memory: self.memory.end(buffer), io: self.io.end(buffer) }
    }
}

struct ResourceWatch {
    state: Result<(KeptFile, PressureReading, Instant), String>,
}

impl ResourceWatch {
    fn begin(root: &Root, name: &str, buffer: &mut Vec<u8>) -> Self {
        let file = KeptFile::open(root.path(&format!("proc/pressure/{name}")));
        let file =
            file.map_err(|reason| format!("{reason}: the kernel has no pressure stall information, or it is off"));
        let state = file.and_then(|file| {
            let first = reading(&file, buffer)?;
            Ok((file, first, Instant::now()))
        });
        Self { state }
    }

    fn end(&self, buffer: &mut Vec<u8>) -> Sensor<Stalls> {
        let stalls = self.state.as_ref().map_err(Clone::clone).and_then(|(file, first, begin)| {
            let last = reading(file, buffer)?;
            Ok(stalls(first, &last, begin.elapsed().as_secs_f64()))
        });
        stalls.into()
    }
}

fn stalls(first: &PressureReading, last: &PressureReading, span_s: f64) -> Stalls {
    let full = first.full.zip(last.full);
    Stalls {
        some_pct: last.some.share_since(&first.some, span_s),
        full_pct: full.map(|(first, last)| last.share_since(&first, span_s)),
        some_avg10_pct: last.some.avg10_pct,
        full_avg10_pct: last.full.map(|line| line.avg10_pct),
    }
}

fn reading(file: &KeptFile, buffer: &mut Vec<u8>) -> Result<PressureReading, String> {
    PressureReading::parse(file.read(buffer)?).ok_or_else(|| format!("{} has no line of stalls", file.path().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n\
                         full avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n";
    const LAST: &str = "some avg10=12.50 avg60=3.00 avg300=1.00 total=1500000\n\
                        full avg10=2.25 avg60=1.00 avg300=0.50 total=600000\n";

    #[test]
    fn half_a_second_of_stalls_in_two_seconds_is_a_quarter() {
        let (first, last) = (PressureReading::parse(FIRST), PressureReading::parse(LAST));
        let stalls = first.zip(last).map(|(first, last)| stalls(&first, &last, 2.0));
        let expected = Stalls { some_pct: 25.0, full_pct: Some(5.0), some_avg10_pct: 12.5, full_avg10_pct: Some(2.25) };
        assert_eq!(stalls, Some(expected));
    }

    #[test]
    fn a_file_without_the_line_of_full_stalls_leaves_them_out() {
        let text = "some avg10=1.00 avg60=0.00 avg300=0.00 total=7\n";
        let reading = PressureReading::parse(text);
        assert_eq!(reading, Some(PressureReading { some: PressureLine { avg10_pct: 1.0, total_us: 7 }, full: None }));
        assert_eq!(PressureReading::parse("nonsense"), None);
    }
}
