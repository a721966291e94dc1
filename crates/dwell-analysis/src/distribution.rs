//! A weighted distribution in little memory: values fall into buckets whose width is below 0.8 % of the value.

/// Buckets per doubling of the value.
const BUCKETS_PER_OCTAVE: u64 = 128;

/// Values below this have a bucket of their own.
const EXACT_BELOW: u64 = 2 * BUCKETS_PER_OCTAVE;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    number: u16,
    weight: u64,
    weighted_sum: f64,
}

/// Weighted values, gathered in logarithmic buckets.
///
/// A quantile is the weighted mean of the bucket in which it lies, so it is off by less than the bucket's width,
/// 1/128 of the value, and exact where all values of the bucket are equal. Mean and maximum are exact.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distribution {
    /// In the order of their values. Most regions fill a few of the 7,424 there are.
    buckets: Vec<Bucket>,
    /// Where the last value went; the next often goes there too.
    recent: usize,
    largest: u64,
}

impl Distribution {
    /// Adds a value; weightless values are not there.
    pub(crate) fn add(&mut self, value: u64, weight: u64) {
        if weight == 0 {
            return;
        }
        self.largest = self.largest.max(value);
        self.add_to_bucket(bucket_number(value), weight, value as f64 * weight as f64);
    }

    /// Adds all values of another distribution.
    pub(crate) fn merge(&mut self, other: &Distribution) {
        self.largest = self.largest.max(other.largest);
        for bucket in &other.buckets {
            self.add_to_bucket(bucket.number, bucket.weight, bucket.weighted_sum);
        }
    }

    fn add_to_bucket(&mut self, number: u16, weight: u64, weighted_sum: f64) {
        let place = match self.buckets.get(self.recent) {
            Some(bucket) if bucket.number == number => self.recent,
            _ => self.place_of(number),
        };
        let bucket = &mut self.buckets[place];
        bucket.weight = bucket.weight.saturating_add(weight);
        bucket.weighted_sum += weighted_sum;
        self.recent = place;
    }

    fn place_of(&mut self, number: u16) -> usize {
        let place = self.buckets.partition_point(|bucket| bucket.number < number);
        if self.buckets.get(place).is_none_or(|bucket| bucket.number != number) {
            self.buckets.insert(place, Bucket { number, weight: 0, weighted_sum: 0.0 });
        }
        place
    }

    pub(crate) fn weight(&self) -> u64 {
        self.buckets.iter().fold(0, |total, bucket| total.saturating_add(bucket.weight))
    }

    /// The smallest value at or below which this share of the weight lies; none without values.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = share * self.weight() as f64;
        let mut reached = 0.0;
        let holds_it = |bucket: &&Bucket| {
            reached += bucket.weight as f64;
            reached >= wanted
        };
        // Rounding may keep the sum just below the total.
        let bucket = self.buckets.iter().find(holds_it).or(self.buckets.last())?;
        Some(bucket.weighted_sum / bucket.weight as f64)
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        let sum: f64 = self.buckets.iter().map(|bucket| bucket.weighted_sum).sum();
        self.largest_seen().map(|_| sum / self.weight() as f64)
    }

    /// The mean value and the weight of each bucket, ascending.
    pub(crate) fn points(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.buckets.iter().map(|bucket| (bucket.weighted_sum / bucket.weight as f64, bucket.weight))
    }

    /// The largest value; none without values.
    pub(crate) fn largest_seen(&self) -> Option<u64> {
        (!self.buckets.is_empty()).then_some(self.largest)
    }
}

fn bucket_number(value: u64) -> u16 {
    if value < EXACT_BELOW {
        return value as u16;
    }
    // The leading eight bits choose the bucket: the first is always set, seven count within the doubling.
    let dropped_bits = u64::from(56 - value.leading_zeros());
    let within_octave = (value >> dropped_bits) - BUCKETS_PER_OCTAVE;
    (EXACT_BELOW + (dropped_bits - 1) * BUCKETS_PER_OCTAVE + within_octave) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_smallest_value_that_reaches_the_share_of_the_weight() {
        let mut distribution = Distribution::default();
        distribution.add(10, 1);
        distribution.add(20, 8);
        distribution.add(30, 1);
        assert_eq!(distribution.quantile(0.1), Some(10.0));
        assert_eq!(distribution.quantile(0.5), Some(20.0));
        assert_eq!(distribution.quantile(0.9), Some(20.0));
        assert_eq!(distribution.quantile(0.99), Some(30.0));
        assert_eq!(distribution.mean(), Some(20.0));
    }

    #[test]
    fn a_single_large_value_is_exact() {
        let mut distribution = Distribution::default();
        distribution.add(10_000_000_019, 4096);
        assert_eq!(distribution.quantile(0.5), Some(10_000_000_019.0));
        assert_eq!(distribution.largest_seen(), Some(10_000_000_019));
    }

    #[test]
    fn quantiles_are_within_a_128th_of_the_true_value() {
        let mut distribution = Distribution::default();
        let values: Vec<u64> = (0..10_000u64).map(|index| 1_000 + index * index * 37).collect();
        values.iter().for_each(|&value| distribution.add(value, 1));
        for share in [0.01, 0.5, 0.9, 0.99] {
            let truth = values[(share * 10_000.0) as usize - 1] as f64;
            let found = distribution.quantile(share).unwrap();
            assert!((found - truth).abs() <= truth / 128.0, "{found} instead of {truth}");
        }
    }

    #[test]
    fn bucket_numbers_rise_with_the_value_up_to_the_last_u64() {
        let mut values: Vec<u64> =
            (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) - 1, (1u64 << bit) + 1]).collect();
        values.push(u64::MAX);
        values.sort_unstable();
        assert!(values.windows(2).all(|pair| bucket_number(pair[0]) <= bucket_number(pair[1])));
        assert_eq!(bucket_number(255) + 1, bucket_number(256));
        assert_eq!(bucket_number(u64::MAX), 7423);
    }

    #[test]
    fn merging_is_the_same_as_adding_everything_to_one() {
        let (mut left, mut right, mut both) =
            (Distribution::default(), Distribution::default(), Distribution::default());
        for value in 0..1000 {
            let target = if value % 3 == 0 { &mut left } else { &mut right };
            target.add(value * 1_000, value);
            both.add(value * 1_000, value);
        }
        left.merge(&right);
        assert_eq!(left.weight(), both.weight());
        assert_eq!(left.quantile(0.9), both.quantile(0.9));
        assert_eq!(left.largest_seen(), both.largest_seen());
    }

    #[test]
    fn an_empty_distribution_has_no_figures() {
        let empty = Distribution::default();
        assert_eq!((empty.quantile(0.5), empty.mean(), empty.largest_seen()), (None, None, None));
    }
}
