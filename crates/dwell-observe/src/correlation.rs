//! Rank correlation of two series with its uncertainty.
//!
//! Neighbouring intervals are alike, so they are not independent. Blocks of them are drawn again and again with replacement
//! (moving-block bootstrap), which keeps what neighbours have in common.

/// A correlation and the interval that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Correlation {
    /// Spearman's rank correlation.
    pub rho: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
}

impl Correlation {
    /// Whether the interval leaves out that there is no correlation.
    pub fn is_clear(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// Samples that the interval is taken from.
const RESAMPLES: usize = 4000;

/// The rank correlation of pairs in the order of time, with an interval that it lies in with this confidence. None if one of the
/// series does not change.
pub(crate) fn correlation(pairs: &[(f64, f64)], confidence: f64) -> Option<Correlation> {
    // Ranked once: ranking each sample again would take most of the time and change the ends little.
    let ranked = ranked(pairs);
    let rho = pearson(ranked.iter())?;
    // A usual choice for the length of blocks.
    let block = (ranked.len() as f64).cbrt().ceil().max(1.0) as usize;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut found: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let begins: Vec<usize> =
                (0..ranked.len().div_ceil(block)).map(|_| random.below(ranked.len() - block + 1)).collect();
            pearson(begins.iter().flat_map(|&begin| &ranked[begin..begin + block]).take(ranked.len()))
        })
        .collect();
    found.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| found.get((share * (found.len().saturating_sub(1)) as f64).round() as usize).copied();
    let outside = (1.0 - confidence) / 2.0;
    Some(Correlation { rho, low: at(outside)?, high: at(1.0 - outside)? })
}

/// Both series as ranks.
fn ranked(pairs: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let first = ranks(pairs.iter().map(|pair| pair.0).collect());
    let second = ranks(pairs.iter().map(|pair| pair.1).collect());
    first.into_iter().zip(second).collect()
}

/// Ranks from 1; equal values share the mean of theirs.
fn ranks(values: Vec<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut ranks = vec![0.0; values.len()];
    for equal in order.chunk_by(|&one, &other| values[one] == values[other]) {
        let first = order.partition_point(|&place| values[place] < values[equal[0]]) as f64;
        let rank = first + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|&place| ranks[place] = rank);
    }
    ranks
}

fn pearson<'a>(pairs: impl Iterator<Item = &'a (f64, f64)> + Clone) -> Option<f64> {
    let count = pairs.clone().count() as f64;
    let (first_sum, second_sum) = pairs.clone().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let (first_mean, second_mean) = (first_sum / count, second_sum / count);
    let (mut product, mut first_square, mut second_square) = (0.0, 0.0, 0.0);
    for (one, other) in pairs.map(|pair| (pair.0 - first_mean, pair.1 - second_mean)) {
        product += one * other;
        first_square += one * one;
        second_square += other * other;
    }
    let scale = (first_square * second_square).sqrt();
    (scale > 0.0).then(|| product / scale)
}

/// The same numbers in every run, so that a report can be made again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn ranks_of_equal_values_are_shared() {
        assert_eq!(ranks(vec![3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
    }

    #[test]
    fn what_grows_together_is_one_whatever_its_scale_and_what_does_not_change_is_none() {
        let grows: Vec<(f64, f64)> = (0..20).map(|n| (f64::from(n), f64::from(n * n * n))).collect();
        let found = correlation(&grows, 0.95).unwrap();
        assert!((found.rho - 1.0).abs() < 1e-12 && found.is_clear(), "{found:?}");
        // Worked out by hand: d² sums to 8, 1 - 6 * 8 / (5 * 24).
        let five = [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.0), (5.0, 7.0)];
        assert!((pearson(ranked(&five).iter()).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(correlation(&[(1.0, 1.0), (2.0, 1.0)], 0.95), None);
    }

    #[test]
    fn noise_is_not_clear_at_the_confidence_of_a_whole_report() {
        let mut random = Random(7);
        let pairs: Vec<(f64, f64)> = (0..60).map(|_| (random.below(1000) as f64, random.below(1000) as f64)).collect();
        let found = correlation(&pairs, 0.998_75).unwrap();
        assert!(!found.is_clear() && found.low < found.rho && found.rho < found.high, "{found:?}");
    }
}
