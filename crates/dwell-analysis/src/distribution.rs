//! A weighted distribution in little memory: values fall into buckets whose width is below 0.8 % of the value.

use serde::{Deserialize, Serialize};

/// Buckets per doubling of the value.
const BUCKETS_PER_OCTAVE: u64 = 128;

/// Values below this have a bucket of their own.
const EXACT_BELOW: u64 = 2 * BUCKETS_PER_OCTAVE;

/// A list of buckets becomes dense when at least one in this many places between its first and last is taken: it then
/// takes at most twice the memory, and a value finds its bucket without a search.
const DENSE_FROM_SHARE: usize = 3;

/// A value so many places beyond a dense list makes it sparse again, so that outliers cost no memory.
const FAR_PLACES: usize = 2 * BUCKETS_PER_OCTAVE as usize;

/// Lists shorter than this stay as they are.
const DENSE_FROM_BUCKETS: usize = 32;

/// How many buckets there are.
const BUCKETS: u16 = 7424;

/// A sum of products without rounding, so that it does not depend on the order of what is added.
///
/// As two halves: a `u128` would make a bucket larger by its alignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExactSum {
    low: u64,
    high: u64,
}

impl ExactSum {
    #[inline]
    fn of_product(left: u64, right: u64) -> Self {
        Self::from(u128::from(left) * u128::from(right))
    }

    fn get(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    /// Nothing that was measured comes near the end of 128 bits; beyond it the sum wraps, in any order to the same.
    #[inline]
    fn add(&mut self, other: Self) {
        *self = Self::from(self.get().wrapping_add(other.get()));
    }
}

impl From<u128> for ExactSum {
    #[inline]
    fn from(sum: u128) -> Self {
        Self { low: sum as u64, high: (sum >> 64) as u64 }
    }
}

/// Values that are close to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bucket {
    pub(crate) weight: u64,
    weighted_sum: ExactSum,
    pub(crate) least: u64,
    pub(crate) largest: u64,
}

impl Bucket {
    #[inline]
    fn of(value: u64, weight: u64, weighted_sum: ExactSum) -> Self {
        Self { weight, weighted_sum, least: value, largest: value }
    }

    fn add(&mut self, other: Bucket) {
        if self.weight == 0 {
            *self = other;
            return;
        }
        self.weight = self.weight.saturating_add(other.weight);
        self.weighted_sum.add(other.weighted_sum);
        self.least = self.least.min(other.least);
        self.largest = self.largest.max(other.largest);
    }

    pub(crate) fn mean(&self) -> f64 {
        self.weighted_sum.get() as f64 / self.weight as f64
    }
}

/// The buckets that hold something, in the order of their values. Most regions fill a few of the 7,424 there are.
#[derive(Clone, Debug)]
enum Buckets {
    /// Those that hold something. Their numbers are apart, because they are searched with nearly every value: together they
    /// lie in a few cache lines.
    Sparse { numbers: Vec<u16>, buckets: Vec<Bucket> },
    /// All from a number on, those that hold nothing too.
    Dense { first: u16, buckets: Vec<Bucket> },
}

impl Default for Buckets {
    fn default() -> Self {
        Self::Sparse { numbers: Vec::new(), buckets: Vec::new() }
    }
}

impl Buckets {
    #[inline]
    fn add(&mut self, number: u16, added: Bucket) {
        match self.bucket_at_hand(number) {
            Some(bucket) => bucket.add(added),
            None => self.add_beyond(number, added),
        }
    }

    /// The bucket of this number where it is found without a search.
    #[inline]
    fn bucket_at_hand(&mut self, number: u16) -> Option<&mut Bucket> {
        match self {
            // Of many distributions all values are the same, often 0.
            Self::Sparse { numbers, buckets } => buckets.first_mut().filter(|_| numbers.first() == Some(&number)),
            // A number before the first wraps to a place far beyond the last.
            Self::Dense { first, buckets } => buckets.get_mut(usize::from(number.wrapping_sub(*first))),
        }
    }

    fn add_beyond(&mut self, number: u16, added: Bucket) {
        match self {
            Self::Sparse { numbers, buckets } => match numbers.binary_search(&number) {
                Ok(place) => buckets[place].add(added),
                Err(place) => {
                    numbers.insert(place, number);
                    buckets.insert(place, added);
                    self.grow_dense();
                }
            },
            Self::Dense { first, buckets } => {
                let (from, to) = (number.min(*first), (number + 1).max(*first + buckets.len() as u16));
                if usize::from(to - from) > buckets.len() + FAR_PLACES {
                    *self = Self::sparse(self.iter());
                    return self.add_beyond(number, added);
                }
                buckets.splice(0..0, std::iter::repeat_n(Bucket::default(), usize::from(*first - from)));
                buckets.resize(usize::from(to - from), Bucket::default());
                *first = from;
                buckets[usize::from(number - from)].add(added);
            }
        }
    }

    /// Those of a list that is sorted by number.
    fn from_sorted(buckets: Vec<(u16, Bucket)>) -> Self {
        let mut buckets = Self::sparse(buckets.into_iter());
        buckets.grow_dense();
        buckets
    }

    fn sparse(buckets: impl Iterator<Item = (u16, Bucket)>) -> Self {
        let (numbers, buckets) = buckets.unzip();
        Self::Sparse { numbers, buckets }
    }

    fn grow_dense(&mut self) {
        let Self::Sparse { numbers, buckets } = self else { return };
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { return };
        let places = usize::from(last - first) + 1;
        if buckets.len() < DENSE_FROM_BUCKETS || buckets.len() * DENSE_FROM_SHARE < places {
            return;
        }
        let mut dense = vec![Bucket::default(); places];
        numbers.iter().zip(buckets.iter()).for_each(|(number, bucket)| dense[usize::from(number - first)] = *bucket);
        *self = Self::Dense { first, buckets: dense };
    }

    /// The buckets that hold something, ascending.
    fn iter(&self) -> impl Iterator<Item = (u16, Bucket)> + '_ {
        let (numbers, first, buckets): (&[u16], _, _) = match self {
            Self::Sparse { numbers, buckets } => (numbers, 0, buckets),
            Self::Dense { first, buckets } => (&[], *first, buckets),
        };
        let number = move |(place, bucket): (usize, &Bucket)| {
            (numbers.get(place).copied().unwrap_or_else(|| first + place as u16), *bucket)
        };
        buckets.iter().enumerate().map(number).filter(|(_, bucket)| bucket.weight > 0)
    }
}

/// Weighted values, gathered in logarithmic buckets.
///
/// A quantile is the weighted mean of the bucket in which it lies, so it is off by less than the bucket's width,
/// 1/128 of the value, and exact where all values of the bucket are equal. Mean and maximum are exact.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(into = "NumberedBuckets", try_from = "NumberedBuckets")]
pub(crate) struct Distribution {
    buckets: Buckets,
    /// None without values.
    largest: Option<u64>,
}

impl Distribution {
    /// Adds a value; weightless values are not there.
    pub(crate) fn add(&mut self, value: u64, weight: u64) {
        if weight == 0 {
            return;
        }
        self.largest = self.largest.max(Some(value));
        self.buckets.add(bucket_number(value), Bucket::of(value, weight, ExactSum::of_product(value, weight)));
    }

    /// Adds so many values of which only the sum is known, each as their mean; none if there are none. The mean of the
    /// distribution stays exact: the sum counts, not the mean cut to a whole number.
    pub(crate) fn add_by_sum(&mut self, sum: u64, count: u64, weight_each: u64) {
        let Some(mean) = sum.checked_div(count).filter(|_| weight_each > 0) else { return };
        self.largest = self.largest.max(Some(mean));
        let added = Bucket::of(mean, weight_each.saturating_mul(count), ExactSum::of_product(sum, weight_each));
        self.buckets.add(bucket_number(mean), added);
    }

    /// Adds all values of another distribution. Weights and sums are exact, whatever is added first.
    pub(crate) fn merge(&mut self, other: &Distribution) {
        self.largest = self.largest.max(other.largest);
        other.buckets.iter().for_each(|(number, bucket)| self.buckets.add(number, bucket));
    }

    fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.buckets.iter().map(|(_, bucket)| bucket)
    }

    pub(crate) fn weight(&self) -> u64 {
        self.buckets().fold(0, |total, bucket| total.saturating_add(bucket.weight))
    }

    /// The smallest value at or below which this share of the weight lies; none without values.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        self.value_reaching(share * self.weight() as f64)
    }

    /// The smallest value at or below which this weight lies; the largest if there is less, none without values.
    pub(crate) fn value_reaching(&self, wanted: f64) -> Option<f64> {
        let mut reached = 0.0;
        let mut last = None;
        for bucket in self.buckets() {
            last = Some(bucket);
            reached += bucket.weight as f64;
            if reached >= wanted {
                break;
            }
        }
        // Rounding may keep the sum just below the total: then it is the last one.
        last.map(|bucket| bucket.mean())
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        let sum = self.buckets().fold(0u128, |sum, bucket| sum.wrapping_add(bucket.weighted_sum.get()));
        self.largest.map(|_| sum as f64 / self.weight() as f64)
    }

    /// The mean value and the weight of each bucket, ascending.
    pub(crate) fn points(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.buckets().map(|bucket| (bucket.mean(), bucket.weight))
    }

    /// The buckets with their numbers, ascending: equal values of two distributions have the same number.
    pub(crate) fn numbered_buckets(&self) -> impl Iterator<Item = (u16, Bucket)> + '_ {
        self.buckets.iter()
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.buckets {
            Buckets::Sparse { numbers, buckets } => {
                numbers.capacity() * size_of::<u16>() + buckets.capacity() * size_of::<Bucket>()
            }
            Buckets::Dense { buckets, .. } => buckets.capacity() * size_of::<Bucket>(),
        }
    }

    /// The largest value; none without values.
    pub(crate) fn largest_seen(&self) -> Option<u64> {
        self.largest
    }
}

/// A distribution as it is written down.
#[derive(Serialize, Deserialize)]
struct NumberedBuckets {
    buckets: Vec<(u16, Bucket)>,
    largest: Option<u64>,
}

impl From<Distribution> for NumberedBuckets {
    fn from(distribution: Distribution) -> Self {
        Self { buckets: distribution.buckets.iter().collect(), largest: distribution.largest }
    }
}

impl TryFrom<NumberedBuckets> for Distribution {
    type Error = &'static str;

    fn try_from(written: NumberedBuckets) -> Result<Self, Self::Error> {
        let numbers = || written.buckets.iter().map(|(number, _)| *number);
        if !numbers().is_sorted_by(|before, after| before < after) || numbers().any(|number| number >= BUCKETS) {
            return Err("buckets of a distribution are not in order");
        }
        if written.buckets.iter().any(|(_, bucket)| bucket.weight == 0) {
            return Err("a bucket of a distribution holds nothing");
        }
        if written.largest.is_some() == written.buckets.is_empty() {
            return Err("a distribution has no largest value, or one without values");
        }
        Ok(Self { buckets: Buckets::from_sorted(written.buckets), largest: written.largest })
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
    fn values_known_by_their_sum_keep_the_mean_exact() {
        let mut distribution = Distribution::default();
        // Two means that are no whole numbers: 10/3 for three values, 1/2 for two.
        distribution.add_by_sum(10, 3, 8);
        distribution.add_by_sum(1, 2, 8);
        distribution.add_by_sum(99, 0, 8);
        assert_eq!((distribution.weight(), distribution.mean()), (40, Some(11.0 / 5.0)));
        assert_eq!(distribution.quantile(0.9), Some(10.0 / 3.0));
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
        assert_eq!(bucket_number(u64::MAX), BUCKETS - 1);
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
        assert_eq!(left.points().collect::<Vec<_>>(), both.points().collect::<Vec<_>>());
    }

    #[test]
    fn dense_and_sparse_buckets_give_the_same_figures() {
        let values: Vec<u64> = (0..4_000u64).map(|index| 300 + index * index % 7_919 * 11).collect();
        let mut dense = Distribution::default();
        values.iter().for_each(|&value| dense.add(value, value % 5));
        assert!(matches!(dense.buckets, Buckets::Dense { .. }));
        let sparse = Distribution { buckets: Buckets::sparse(dense.buckets.iter()), largest: dense.largest };
        assert_eq!(dense.points().collect::<Vec<_>>(), sparse.points().collect::<Vec<_>>());
        assert_eq!((dense.weight(), dense.mean()), (sparse.weight(), sparse.mean()));
        // A value below all others moves the first bucket.
        dense.add(3, 7);
        assert_eq!(dense.points().next(), Some((3.0, 7)));
        assert_eq!(dense.points().skip(1).collect::<Vec<_>>(), sparse.points().collect::<Vec<_>>());
    }

    #[test]
    fn an_empty_distribution_has_no_figures() {
        let empty = Distribution::default();
        assert_eq!((empty.quantile(0.5), empty.mean(), empty.largest_seen()), (None, None, None));
    }
}
