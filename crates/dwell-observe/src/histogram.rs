//! Histograms of latencies in powers of two microseconds, and percentiles of them.

use serde::{Deserialize, Serialize};

/// One slot of a histogram: how many latencies lay between two powers of two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Exponent of the lower bound.
    pub slot: u32,
    /// Latencies in the slot.
    pub count: u64,
    /// Least latency in microseconds: 2^slot, or 0 for slot 0.
    pub bucket_low: u64,
    /// Greatest latency in whole microseconds: 2^(slot+1) - 1.
    pub bucket_high: u64,
}

/// Least and greatest latency of a slot in whole microseconds.
pub fn slot_bounds_us(slot: u32) -> (u64, u64) {
    let low = if slot == 0 { 0 } else { 1 << slot };
    (low, (1 << (slot + 1)) - 1)
}

/// The slots that are not empty.
pub fn buckets_of(counts: &[u64]) -> Vec<Bucket> {
    let filled = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let bucket = |(slot, &count): (usize, &u64)| {
        let (bucket_low, bucket_high) = slot_bounds_us(slot as u32);
        Bucket { slot: slot as u32, count, bucket_low, bucket_high }
    };
    filled.map(bucket).collect()
}

/// A percentile of a histogram: the slot that it lies in, and where in it if latencies are spread evenly there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentile {
    /// Which percentile, from 0 to 100.
    pub percent: f64,
    /// Least value that it can have.
    pub low_us: u64,
    /// Greatest value that it can have.
    pub high_us: u64,
    /// Where it lies if the latencies of its slot are spread evenly.
    pub estimate_us: f64,
}

/// Latencies of several lines together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    counts: Vec<u64>,
}

impl Distribution {
    /// Adds the slots of a line.
    pub fn add(&mut self, buckets: &[Bucket]) {
        for bucket in buckets {
            // A slot beyond 63 has no bounds in 64 bits; a file may hold anything.
            let slot = bucket.slot.min(SLOT_MAX) as usize;
            if self.counts.len() <= slot {
                self.counts.resize(slot + 1, 0);
            }
            self.counts[slot] = self.counts[slot].saturating_add(bucket.count);
        }
    }

    /// Latencies in all slots.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |total, &count| total.saturating_add(count))
    }

    /// Latencies by slot.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The percentile by nearest rank; none of an empty histogram.
    pub fn percentile(&self, percent: f64) -> Option<Percentile> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let rank = (percent / 100.0 * total as f64).ceil().clamp(1.0, total as f64);
        let mut before = 0.0;
        for (slot, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            if before + count as f64 >= rank {
                let (low_us, high_us) = slot_bounds_us(slot as u32);
                // Whole microseconds are cut off, so a slot reaches up to the next one.
                let width_us = (high_us + 1 - low_us) as f64;
                let estimate_us = low_us as f64 + (rank - before) / count as f64 * width_us;
                return Some(Percentile { percent, low_us, high_us, estimate_us });
            }
            before += count as f64;
        }
        None
    }
}

/// The last slot whose bounds are numbers of 64 bits.
pub(crate) const SLOT_MAX: u32 = 62;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn slots_are_powers_of_two_and_the_first_begins_at_zero() {
        assert_eq!([0, 1, 2, 10].map(slot_bounds_us), [(0, 1), (2, 3), (4, 7), (1024, 2047)]);
        let buckets = buckets_of(&[1, 0, 7]);
        assert_eq!(buckets.iter().map(|bucket| (bucket.slot, bucket.count)).collect::<Vec<_>>(), [(0, 1), (2, 7)]);
    }

    #[test]
    fn percentiles_are_those_worked_out_by_hand() {
        // 10 latencies of 64 to 127 µs, 80 of 128 to 255 µs, 10 of 1024 to 2047 µs.
        let mut distribution = Distribution::default();
        let mut counts = [0; 11];
        (counts[6], counts[7], counts[10]) = (10, 80, 10);
        distribution.add(&buckets_of(&counts));
        let percentile = |percent| distribution.percentile(percent).unwrap();
        // Rank 50 is the 40th of 80 in a slot of 128 µs: 128 + 40 / 80 * 128.
        assert_eq!(percentile(50.0), Percentile { percent: 50.0, low_us: 128, high_us: 255, estimate_us: 192.0 });
        // Rank 10 is the last of the first slot.
        assert_eq!(percentile(10.0).estimate_us, 128.0);
        // Rank 95 is the 5th of 10 in a slot of 1024 µs.
        assert_eq!((percentile(95.0).low_us, percentile(95.0).estimate_us), (1024, 1536.0));
        assert_eq!((percentile(0.0).low_us, percentile(100.0).estimate_us), (64, 2048.0));
        assert_eq!(Distribution::default().percentile(50.0), None);
    }

    #[test]
    fn a_slot_that_no_kernel_has_is_no_panic() {
        let mut distribution = Distribution::default();
        distribution.add(&[Bucket { slot: u32::MAX, count: u64::MAX, bucket_low: 0, bucket_high: 0 }]);
        assert!(distribution.percentile(50.0).is_some());
    }
}
