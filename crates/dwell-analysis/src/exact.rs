//! Exact order statistics of many whole numbers.

/// A multiset of numbers. Equal numbers are kept once with their count as soon as there are many.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactCounts {
    recent: Vec<u64>,
    /// Sorted by value.
    counted: Vec<(u64, u64)>,
    /// How many zeros there are; they are not in the lists.
    zeros: u64,
    sum: u128,
    /// How many numbers are in the lists.
    listed: u64,
}

impl ExactCounts {
    /// Numbers held uncounted at least; counting fewer would only cost time.
    const RECENT_LIMIT: usize = 1 << 20;

    pub(crate) fn push(&mut self, value: u64) {
        if value == 0 {
            return self.push_zeros(1);
        }
        self.recent.push(value);
        self.sum += u128::from(value);
        self.listed += 1;
        // Waiting for as many as are counted already makes the whole cost that of sorting once or twice.
        if self.recent.len() >= Self::RECENT_LIMIT.max(self.counted.len()) {
            self.count_recent();
        }
    }

    pub(crate) fn push_zeros(&mut self, count: u64) {
        self.zeros += count;
    }

    pub(crate) fn count(&self) -> u64 {
        self.zeros + self.listed
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
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
        match rank.checked_sub(self.zeros) {
            Some(listed_rank) => self.listed_pair(listed_rank),
            None if rank + 1 == self.zeros && self.listed > 0 => (0, self.listed_pair(0).0),
            None => (0, 0),
        }
    }

    fn listed_pair(&mut self, rank: u64) -> (u64, u64) {
        if self.counted.is_empty() {
            let (_, &mut low, above) = self.recent.select_nth_unstable(rank as usize);
            return (low, above.iter().copied().min().unwrap_or(low));
        }
        self.count_recent();
        (self.counted_rank(rank), self.counted_rank((rank + 1).min(self.listed - 1)))
    }

    fn counted_rank(&self, rank: u64) -> u64 {
        let mut passed = 0;
        let holds_it = |&&(_, count): &&(u64, u64)| {
            passed += count;
            passed > rank
        };
        self.counted.iter().find(holds_it).map_or(0, |&(value, _)| value)
    }

    fn count_recent(&mut self) {
        self.recent.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(self.counted.len());
        let mut counted = std::mem::take(&mut self.counted).into_iter().peekable();
        for value in self.recent.drain(..) {
            while let Some(earlier) = counted.next_if(|&(known, _)| known <= value) {
                merged.push(earlier);
            }
            match merged.last_mut() {
                Some((known, count)) if *known == value => *count += 1,
                _ => merged.push((value, 1)),
            }
        }
        merged.extend(counted);
        self.counted = merged;
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
                counted.count_recent();
            }
        }
        for share in [0.0, 0.123, 0.5, 0.9, 0.99, 1.0] {
            assert_eq!(counted.quantile(share), uncounted.quantile(share));
        }
        assert_eq!(counted.median(), uncounted.median());
        assert_eq!(counted.counted.len(), counted.counted.iter().filter(|(value, _)| *value < 977).count());
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
