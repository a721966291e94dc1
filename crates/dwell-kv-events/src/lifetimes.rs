//! Percentiles of lifetimes in a fixed amount of memory.

/// Bits of a lifetime that are told apart below its highest one: buckets are 0.8 % wide.
const KEPT_BITS: u32 = 7;
const BUCKETS_PER_POWER: usize = 1 << KEPT_BITS;

/// Counts lifetimes by their leading bits.
pub(crate) struct Lifetimes {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { counts: vec![0; (64 - KEPT_BITS as usize + 1) * BUCKETS_PER_POWER], total: 0 }
    }
}

impl Lifetimes {
    pub(crate) fn add(&mut self, lifetime_ns: u64) {
        self.counts[bucket(lifetime_ns)] += 1;
        self.total += 1;
    }

    /// The least lifetime that `share` of all lives do not exceed, in seconds; none without lives.
    pub(crate) fn percentile_s(&self, share: f64) -> Option<f64> {
        let wanted = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.filter(|_| self.total > 0).map(|bucket| middle_ns(bucket) / 1e9)
    }
}

/// Small values have a bucket each; above, each power of two is divided evenly.
fn bucket(value: u64) -> usize {
    let power = value.max(1).ilog2().saturating_sub(KEPT_BITS);
    (power as usize) * BUCKETS_PER_POWER + (value >> power) as usize
}

fn middle_ns(bucket: usize) -> f64 {
    // The leading bit is part of the kept ones, so a bucket of a power above the first is past twice the buckets.
    let power = (bucket / BUCKETS_PER_POWER).saturating_sub(1);
    let first = (bucket - power * BUCKETS_PER_POWER) as f64;
    let width = (1_u64 << power) as f64;
    first * width + (width - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_half_a_percent_of_the_middle_of_its_bucket() {
        let values = (0..64).flat_map(|power| [1_u64 << power, (1 << power) + (1 << power) / 3, (1 << power) - 1]);
        for value in values.chain([0, u64::MAX, 999_999_999]) {
            let middle = middle_ns(bucket(value));
            assert!((middle - value as f64).abs() <= value as f64 * 0.004, "{value}: {middle}");
        }
    }

    #[test]
    fn percentiles_of_a_hundred_lives() {
        let mut lifetimes = Lifetimes::default();
        assert_eq!(lifetimes.percentile_s(0.5), None);
        (1..=100).for_each(|lifetime_ns| lifetimes.add(lifetime_ns));
        assert_eq!(lifetimes.percentile_s(0.5), Some(50e-9));
        assert_eq!(lifetimes.percentile_s(0.99), Some(99e-9));
        assert_eq!(lifetimes.percentile_s(1.0), Some(100e-9));
    }
}
