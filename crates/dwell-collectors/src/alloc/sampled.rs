//! The same question where the kernel does not list pages (before Linux 6.7): the growth of anonymous memory, as the samples of the
//! processes have it, beside the growth of what is allocated.
//!
//! Only sizes are compared, so that it says how much allocations can account for: memory that is allocated and never touched stands
//! in for memory that came from elsewhere.

use dwell_analysis::memory::Series;
use dwell_events::CollectorName;
use dwell_metadata::Agreement;

use super::NAME;
use super::lives::Lives;

struct Sample {
    time_ns: u64,
    anonymous_bytes: u64,
    /// None until the lives were followed up to this time.
    allocated_bytes: Option<u64>,
}

/// The first sample and the one with the most memory.
pub(super) struct SampledGrowth {
    samples: Option<[Sample; 2]>,
}

impl SampledGrowth {
    /// From the anonymous memory of all processes together.
    pub(super) fn new(anonymous: &Series) -> Self {
        let sample = |(time_ns, anonymous_bytes)| Sample { time_ns, anonymous_bytes, allocated_bytes: None };
        let ends = anonymous.points().first().copied().zip(anonymous.peak());
        let samples = ends.filter(|(first, peak)| first.0 < peak.0).map(|(first, peak)| [sample(first), sample(peak)]);
        Self { samples }
    }

    /// Notes what is allocated at the samples before a time.
    pub(super) fn look_before(&mut self, time_ns: u64, lives: &Lives) {
        let is_due = |sample: &&mut Sample| sample.allocated_bytes.is_none() && sample.time_ns < time_ns;
        for sample in self.samples.iter_mut().flatten().filter(is_due) {
            sample.allocated_bytes = Some(lives.live_bytes());
        }
    }

    /// None if the memory has not grown, or there are no samples.
    pub(super) fn agreement(&self) -> Option<Agreement> {
        let [first, peak] = self.samples.as_ref()?;
        let grown_bytes = peak.anonymous_bytes.checked_sub(first.anonymous_bytes).filter(|bytes| *bytes > 0)?;
        let allocated_bytes = peak.allocated_bytes?.saturating_sub(first.allocated_bytes?);
        let accounted_bytes = allocated_bytes.min(grown_bytes);
        Some(Agreement {
            about: "growth of anonymous memory by samples, in bytes, at most".to_owned(),
            first: NAME.name().to_owned(),
            second: CollectorName::PROCESS.name().to_owned(),
            both: accounted_bytes,
            first_only: 0,
            second_only: grown_bytes - accounted_bytes,
            from_ns: first.time_ns,
            until_ns: peak.time_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use dwell_ring::allocations::{AllocationCall, ReadEvent, RecordedProcess};

    use super::super::streams::{CallRow, ImageRow};
    use super::*;

    fn agreement(samples: &[(u64, u64)]) -> Option<Agreement> {
        let mut series = Series::default();
        samples.iter().for_each(|&(time_ns, bytes)| series.push(time_ns, bytes));
        let process = RecordedProcess { pid: 7, made_ns: 5, parent: None, program: String::new() };
        let mut lives = Lives::new(&[ImageRow { image: 0, process, lost: (0, 0) }]);
        let mut growth = SampledGrowth::new(&series);
        for (time_ns, address, size_bytes) in [(8, 0x8000, 0x1000), (15, 0x1_0000, 0x3000), (25, 0x2_0000, 0x9000)] {
            growth.look_before(time_ns, &lives);
            let event = ReadEvent {
                sequence: time_ns,
                time_ns,
                thread: 1,
                call: AllocationCall::MmapAnonymous,
                address,
                size_bytes,
            };
            lives.take_in(&CallRow { image: 0, event }, &mut |_, _, _| {});
        }
        growth.look_before(u64::MAX, &lives);
        growth.agreement()
    }

    #[test]
    fn what_samples_have_grown_by_is_accounted_for_by_what_was_allocated_meanwhile() {
        let found = agreement(&[(10, 0x2000), (20, 0x6000), (30, 0x5000)]).unwrap();
        assert_eq!((found.both, found.first_only, found.second_only), (0x3000, 0, 0x1000));
        assert_eq!((found.second.as_str(), found.from_ns, found.until_ns), ("process", 10, 20));
        let found = agreement(&[(10, 0x2000), (30, 0x4000)]).unwrap();
        assert_eq!((found.both, found.second_only), (0x2000, 0), "no more than there is");
    }

    #[test]
    fn without_growth_or_samples_nothing_is_compared() {
        assert_eq!(agreement(&[]), None);
        assert_eq!(agreement(&[(10, 5)]), None);
        assert_eq!(agreement(&[(10, 5), (20, 4)]), None);
    }
}
