//! Exact order statistics of many whole numbers.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A multiset of numbers. Equal numbers are kept once with their count as soon as there are many.
///
/// Most intervals and strides fit 32 bits. Those are kept apart: they take half the memory and are selected faster.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactCounts {
    zeros: u64,
    /// Numbers above 0 that fit 32 bits.
    small: Listed<u32>,
    /// All others.
    large: Listed<u64>,
}

impl ExactCounts {
    #[inline]
    pub(crate) fn push(&mut self, value: u64) {
        match u32::try_from(value) {
            Ok(0) => self.push_zeros(1),
            Ok(small) => self.small.push(small),
            Err(_) => self.large.push(value),
        }
    }

    pub(crate) fn push_zeros(&mut self, count: u64) {
        self.zeros = self.zeros.saturating_add(count);
    }

    pub(crate) fn count(&self) -> u64 {
        self.zeros.saturating_add(self.small.count()).saturating_add(self.large.count())
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.small.sum().saturating_add(self.large.sum()) as f64 / self.count() as f64)
    }

    /// Adds all numbers of another multiset.
    pub(crate) fn merge(&mut self, other: ExactCounts) {
        self.push_zeros(other.zeros);
        self.small.merge(other.small);
        self.large.merge(other.large);
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        self.small.held_bytes() + self.large.held_bytes()
    }

    /// The quantile by linear interpolation between order statistics, as pandas computes it.
    pub(crate) fn quantile(&mut self, share: f64) -> Option<f64> {
        let last = self.count().checked_sub(1)?;
        let place = last as f64 * share;
        let rank = place.floor();
        let (low, high) = self.ranked_pair(rank as u64);
        Some(interpolate(low as f64, high as f64, place - rank))
    }

    /// The middle number, or the mean of the two middle ones.
    pub(crate) fn median(&mut self) -> Option<f64> {
        let last = self.count().checked_sub(1)?;
        let (low, high) = self.ranked_pair(last / 2);
        Some(if self.count() % 2 == 1 { low as f64 } else { (low as f64 + high as f64) / 2.0 })
    }

    /// The number of this rank, from 0, and the next; the last number twice if there is none after it.
    fn ranked_pair(&mut self, rank: u64) -> (u64, u64) {
        let (small_from, large_from) = (self.zeros, self.zeros.saturating_add(self.small.count()));
        if rank < small_from {
            let next = if rank + 1 < small_from { Some(0) } else { self.small.least().or_else(|| self.large.least()) };
            (0, next.unwrap_or(0))
        } else if rank < large_from {
            let (low, next) = self.small.ranked_pair(rank - small_from);
            (low, next.or_else(|| self.large.least()).unwrap_or(low))
        } else {
            let (low, next) = self.large.ranked_pair(rank - large_from);
            (low, next.unwrap_or(low))
        }
    }
}

/// Numbers of one width.
#[derive(Clone, Debug, Default)]
struct Listed<T> {
    recent: Vec<T>,
    /// Place in `recent` that a quantile was found at, and how many numbers there were: those before are no larger, those
    /// after no smaller.
    split: (usize, usize),
    /// Sorted by value.
    counted: Vec<(T, u64)>,
    /// How many numbers are in `counted`.
    counted_numbers: u64,
}

impl<T: Copy + Ord + Into<u64> + radsort::Key> Listed<T> {
    /// Numbers held uncounted at least; counting fewer would only cost time.
    const RECENT_LIMIT: usize = 1 << 20;

    #[inline]
    fn push(&mut self, value: T) {
        self.recent.push(value);
        // Waiting for as many as are counted already makes the whole cost that of sorting once or twice.
        if self.recent.len() >= Self::RECENT_LIMIT.max(self.counted.len()) {
            self.count_recent();
        }
    }

    fn count(&self) -> u64 {
        self.counted_numbers.saturating_add(self.recent.len() as u64)
    }

    fn sum(&self) -> u128 {
        let wide = |value: T| u128::from(value.into());
        let counted = self.counted.iter().map(|&(value, count)| wide(value) * u128::from(count));
        counted.chain(self.recent.iter().map(|&value| wide(value))).fold(0, u128::saturating_add)
    }

    fn least(&self) -> Option<u64> {
        let counted = self.counted.first().map(|&(value, _)| value);
        self.recent.iter().copied().chain(counted).min().map(Into::into)
    }

    /// The number of this rank, from 0, and the next if there is one.
    fn ranked_pair(&mut self, rank: u64) -> (u64, Option<u64>) {
        if self.counted.is_empty() {
            let (low, next) = self.select(rank as usize);
            return (low.into(), next.map(Into::into));
        }
        self.count_recent();
        (self.counted_rank(rank), (rank + 1 < self.counted_numbers).then(|| self.counted_rank(rank + 1)))
    }

    /// The same of numbers that are not counted yet. Only the side of the quantile that was asked for before is searched.
    fn select(&mut self, rank: usize) -> (T, Option<T>) {
        let numbers = self.recent.len();
        let (from, to) = match self.split {
            (place, known) if known != numbers || place == rank => (0, numbers),
            (place, _) if place < rank => (place + 1, numbers),
            (place, _) => (0, place),
        };
        let (_, &mut low, above) = self.recent[from..to].select_nth_unstable(rank - from);
        let next = above.iter().copied().min();
        self.split = (rank, numbers);
        (low, next.or_else(|| self.recent.get(to).copied()))
    }

    fn counted_rank(&self, rank: u64) -> u64 {
        let mut passed = 0;
        let holds_it = |&&(_, count): &&(T, u64)| {
            passed = count.saturating_add(passed);
            passed > rank
        };
        self.counted.iter().find(holds_it).map_or(0, |&(value, _)| value.into())
    }

    fn count_recent(&mut self) {
        radsort::sort(&mut self.recent);
        let mut recent = std::mem::take(&mut self.recent);
        self.add_sorted(recent.drain(..).map(|value| (value, 1)));
        self.recent = recent;
    }

    fn merge(&mut self, mut other: Self) {
        self.count_recent();
        other.count_recent();
        self.add_sorted(other.counted.into_iter());
    }

    /// Adds numbers that come by value, with their counts.
    fn add_sorted(&mut self, added: impl Iterator<Item = (T, u64)>) {
        let mut merged: Vec<(T, u64)> = Vec::with_capacity(self.counted.len());
        let mut counted = std::mem::take(&mut self.counted).into_iter().peekable();
        for (value, number) in added {
            self.counted_numbers = self.counted_numbers.saturating_add(number);
            while let Some(earlier) = counted.next_if(|&(known, _)| known <= value) {
                merged.push(earlier);
            }
            match merged.last_mut() {
                Some((known, count)) if *known == value => *count = count.saturating_add(number),
                _ => merged.push((value, number)),
            }
        }
        merged.extend(counted);
        self.counted = merged;
    }

    /// Adds a number above all others, with its count.
    fn append(&mut self, (value, count): (T, u64)) {
        self.counted.push((value, count));
        self.counted_numbers = self.counted_numbers.saturating_add(count);
    }

    fn held_bytes(&self) -> usize {
        self.recent.capacity() * size_of::<T>() + self.counted.capacity() * size_of::<(T, u64)>()
    }
}

/// Written down as the number of zeros and the other numbers by value, each as what it is above the one before, with its
/// count.
impl Serialize for ExactCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sorted = self.clone();
        sorted.small.count_recent();
        sorted.large.count_recent();
        let small = sorted.small.counted.iter().map(|&(value, count)| (u64::from(value), count));
        let mut before = 0;
        let steps = small.chain(sorted.large.counted.iter().copied()).map(|(value, count)| {
            let above = value - std::mem::replace(&mut before, value);
            (above, count)
        });
        let steps: Vec<(u64, u64)> = steps.collect();
        let mut pair = serializer.serialize_tuple(2)?;
        pair.serialize_element(&sorted.zeros)?;
        pair.serialize_element(&steps)?;
        pair.end()
    }
}

impl<'de> Deserialize<'de> for ExactCounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (zeros, Steps(mut counts)) = <(u64, Steps)>::deserialize(deserializer)?;
        counts.zeros = zeros;
        Ok(counts)
    }
}

/// Numbers above 0 that are read one after the other.
struct Steps(ExactCounts);

impl<'de> Deserialize<'de> for Steps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(StepsVisitor).map(Self)
    }
}

struct StepsVisitor;

impl<'de> Visitor<'de> for StepsVisitor {
    type Value = ExactCounts;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("numbers by value with their counts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut steps: A) -> Result<ExactCounts, A::Error> {
        let (mut counts, mut value) = (ExactCounts::default(), 0u64);
        while let Some((above, count)) = steps.next_element::<(u64, u64)>()? {
            let next = value.checked_add(above).filter(|_| above > 0 && count > 0);
            value = next.ok_or_else(|| A::Error::custom("numbers are not in order, or one has no count"))?;
            match u32::try_from(value) {
                Ok(small) => counts.small.append((small, count)),
                Err(_) => counts.large.append((value, count)),
            }
        }
        Ok(counts)
    }
}

/// Quantile of floating-point numbers by linear interpolation between order statistics; sorts them.
pub(crate) fn linear_quantile(values: &mut [f64], share: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let place = last as f64 * share;
    let rank = place.floor() as usize;
    values.sort_unstable_by(f64::total_cmp);
    Some(interpolate(values[rank], values[(rank + 1).min(last)], place - rank as f64))
}

/// From the nearer end, as numpy does it, so that the last digit is the same too.
fn interpolate(low: f64, high: f64, share: f64) -> f64 {
    let width = high - low;
    if share >= 0.5 { high - width * (1.0 - share) } else { low + width * share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_on_the_line_between_two_order_statistics() {
        let mut counts = ExactCounts::default();
        [40, 10, 20, 30].into_iter().for_each(|value| counts.push(value));
        assert_eq!(counts.quantile(0.5), Some(25.0));
        assert_eq!(counts.quantile(0.0), Some(10.0));
        assert_eq!(counts.quantile(1.0), Some(40.0));
        assert_eq!(counts.median(), Some(25.0));
        assert_eq!(counts.mean(), Some(25.0));
    }

    #[test]
    fn counted_numbers_give_the_same_quantiles_as_uncounted_ones() {
        let mut uncounted = ExactCounts::default();
        let mut counted = ExactCounts::default();
        for index in 0..10_001u64 {
            let value = index * index % 977;
            uncounted.push(value);
            counted.push(value);
            if index % 1_000 == 999 {
                counted.small.count_recent();
            }
        }
        for share in [0.0, 0.123, 0.5, 0.9, 0.99, 1.0] {
            assert_eq!(counted.quantile(share), uncounted.quantile(share));
        }
        assert_eq!(counted.median(), uncounted.median());
        assert!(counted.small.counted.len() < 977);
        assert_eq!((counted.count(), counted.mean()), (uncounted.count(), uncounted.mean()));
    }

    #[test]
    fn zeros_are_counted_like_other_numbers() {
        let mut counts = ExactCounts::default();
        [0, 30, 0, 10].into_iter().for_each(|value| counts.push(value));
        assert_eq!((counts.count(), counts.mean()), (4, Some(10.0)));
        assert_eq!(counts.median(), Some(5.0));
        assert_eq!((counts.quantile(0.0), counts.quantile(1.0)), (Some(0.0), Some(30.0)));
        let mut zeros = ExactCounts::default();
        [0, 0].into_iter().for_each(|value| zeros.push(value));
        assert_eq!((zeros.median(), zeros.mean()), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn numbers_of_any_width_are_in_one_order() {
        let wide = 1u64 << 40;
        let mut counts = ExactCounts::default();
        [wide, 0, 8, u64::from(u32::MAX), wide + 4].into_iter().for_each(|value| counts.push(value));
        let sorted = [0, 8, u64::from(u32::MAX), wide, wide + 4];
        for is_counted in [false, true] {
            for (rank, pair) in sorted.windows(2).enumerate() {
                assert_eq!(counts.ranked_pair(rank as u64), (pair[0], pair[1]), "counted: {is_counted}");
            }
            assert_eq!(counts.ranked_pair(4), (wide + 4, wide + 4));
            assert_eq!(counts.mean(), Some(sorted.iter().sum::<u64>() as f64 / 5.0));
            counts.small.count_recent();
            counts.large.count_recent();
        }
    }

    #[test]
    fn quantiles_can_be_asked_for_in_any_order_and_between_numbers() {
        let mut counts = ExactCounts::default();
        let mut sorted: Vec<u64> = Vec::new();
        for round in 0..4u64 {
            let values = (1..200u64).map(|index| index * index * (round + 7) % 1_009 + 1);
            values.for_each(|value| {
                counts.push(value);
                sorted.push(value);
            });
            sorted.sort_unstable();
            for rank in [99, 180, 197, 0, 50, 50, 198, 120] {
                assert_eq!(counts.ranked_pair(rank as u64).0, sorted[rank]);
                assert_eq!(counts.ranked_pair(rank as u64).1, sorted[(rank + 1).min(sorted.len() - 1)]);
            }
        }
    }

    #[test]
    fn no_numbers_have_no_quantile() {
        assert_eq!(ExactCounts::default().quantile(0.5), None);
        assert_eq!(ExactCounts::default().median(), None);
        assert_eq!(linear_quantile(&mut [], 0.5), None);
    }

    #[test]
    fn one_number_is_every_quantile() {
        assert_eq!(linear_quantile(&mut [7.5], 0.99), Some(7.5));
    }
}
