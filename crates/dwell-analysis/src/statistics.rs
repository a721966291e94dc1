//! Mean and spread of a figure over repetitions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Share of the t distribution below the upper end of the two-sided 95 % interval.
const UPPER_SHARE: f64 = 0.975;

/// Fewest samples that an interval is made of. With two, t is 12.7, and a spread that is itself known from one difference
/// decides everything.
pub const INTERVAL_SAMPLES_MIN: usize = 3;

/// The middle value, or the mean of the two in the middle; none without values. Changes their order.
pub fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let upper = *values.select_nth_unstable_by(middle, f64::total_cmp).1;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = values[..middle].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some((lower + upper) / 2.0)
}

/// A figure over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Samples.
    pub n: u64,
    /// Mean.
    pub mean: f64,
    /// Of the samples, with n − 1; none of one sample.
    pub standard_deviation: Option<f64>,
    /// Lower end of the 95 % confidence interval of the mean, by Student's t; none of fewer than
    /// [`INTERVAL_SAMPLES_MIN`] samples.
    pub ci95_low: Option<f64>,
    /// Upper end.
    pub ci95_high: Option<f64>,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
}

impl Summary {
    /// The summary of the samples; none without samples, or if one of them is not a finite number.
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() || !samples.iter().all(|sample| sample.is_finite()) {
            return None;
        }
        let count = samples.len() as f64;
        let min = samples.iter().copied().fold(f64::INFINITY, f64::min);
        let max = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Rounding must not put the mean of equal samples beside them.
        let mean = (samples.iter().sum::<f64>() / count).clamp(min, max);
        let standard_deviation = (samples.len() > 1).then(|| {
            let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
            (squares / (count - 1.0)).sqrt()
        });
        let half_width = standard_deviation
            .filter(|_| samples.len() >= INTERVAL_SAMPLES_MIN)
            .and_then(|deviation| half_width(deviation, 1.0 / count, count - 1.0));
        Some(Self {
            n: samples.len() as u64,
            mean,
            standard_deviation,
            ci95_low: half_width.map(|half_width| mean - half_width),
            ci95_high: half_width.map(|half_width| mean + half_width),
            min,
            max,
        })
    }

    /// The summary of samples each of which is a measurement divided by another, the reference, that may be the same for
    /// several samples. A reference that was measured once is as uncertain as any other single measurement.
    pub fn of_ratios(ratios: &[Ratio<'_>]) -> Option<Self> {
        let plain = Self::of(&ratios.iter().map(|ratio| ratio.value).collect::<Vec<_>>())?;
        let interval = ratio_interval(ratios);
        Some(Self { ci95_low: interval.map(|(low, _)| low), ci95_high: interval.map(|(_, high)| high), ..plain })
    }
}

/// A measurement divided by a reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio<'a> {
    /// The ratio.
    pub value: f64,
    /// Names the measurement that it was divided by.
    pub reference: &'a str,
}

/// The 95 % confidence interval of the true ratio.
///
/// On the logarithmic scale a ratio is a difference, and a reference of its own adds as much variance as a measurement,
/// σ², which the spread of the measurements around their common reference gives. With `N` ratios, `n` of which share a
/// reference, the variance of their mean is σ² (1/N + Σ (n/N)²): σ² (1/N + 1) if all share one. Measurements and
/// references are taken to be equally noisy, because a single reference says nothing of its own noise.
fn ratio_interval(ratios: &[Ratio<'_>]) -> Option<(f64, f64)> {
    if ratios.len() < INTERVAL_SAMPLES_MIN || ratios.iter().any(|ratio| ratio.value <= 0.0) {
        return None;
    }
    let mut by_reference: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    ratios.iter().for_each(|ratio| by_reference.entry(ratio.reference).or_default().push(ratio.value.ln()));
    let count = ratios.len() as f64;
    let mean = by_reference.values().flatten().sum::<f64>() / count;
    // Where every ratio has a reference of its own, the spread of the ratios holds both noises.
    let are_apart = by_reference.len() == ratios.len();
    let groups: Vec<&[f64]> = by_reference.values().map(Vec::as_slice).collect();
    let all: Vec<f64> = groups.concat();
    let groups = if are_apart { vec![all.as_slice()] } else { groups };
    let freedom = count - groups.len() as f64;
    let squares: f64 = groups.iter().map(|group| squares_around_mean(group)).sum();
    let of_references: f64 = groups.iter().map(|group| (group.len() as f64 / count).powi(2)).sum();
    let variance_share = if are_apart { 1.0 / count } else { 1.0 / count + of_references };
    let half_width = half_width((squares / freedom).sqrt(), variance_share, freedom)?;
    Some(((mean - half_width).exp(), (mean + half_width).exp()))
}

fn squares_around_mean(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// Half the width of the interval of a mean whose variance is this share of that of one sample; none if there is no t
/// distribution with so many degrees of freedom.
fn half_width(standard_deviation: f64, variance_share: f64, freedom: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(UPPER_SHARE);
    Some(t * standard_deviation * variance_share.sqrt())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn assert_close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
    }

    /// Samples whose deviation divided by the root of their number is 1, so that the half width is t itself.
    fn t_of(count: usize) -> f64 {
        let sign = |index: usize| if index.is_multiple_of(2) { 1.0 } else { -1.0 };
        let raw: Vec<f64> = (0..count).map(sign).collect();
        let summary = Summary::of(&raw).unwrap();
        let scale = (count as f64).sqrt() / summary.standard_deviation.unwrap();
        let summary = Summary::of(&raw.iter().map(|sample| sample * scale).collect::<Vec<_>>()).unwrap();
        summary.ci95_high.unwrap() - summary.mean
    }

    #[test]
    fn the_interval_uses_the_t_of_the_tables() {
        let table = [(3, 4.303), (4, 3.182), (5, 2.776), (6, 2.571), (10, 2.262), (30, 2.045), (121, 1.980)];
        for (count, t) in table {
            assert_close(t_of(count), t, 5e-4);
        }
    }

    #[test]
    fn mean_deviation_and_interval_of_an_example_worked_by_hand() {
        // Mean 3; squares 4 + 1 + 0 + 1 + 4 = 10, by 4 is 2.5; 2.776445 × √(2.5 / 5) = 1.963243.
        let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((summary.n, summary.mean, summary.min, summary.max), (5, 3.0, 1.0, 5.0));
        assert_close(summary.standard_deviation.unwrap(), 2.5f64.sqrt(), 1e-12);
        assert_close(summary.ci95_low.unwrap(), 3.0 - 1.963_243, 1e-6);
        assert_close(summary.ci95_high.unwrap(), 3.0 + 1.963_243, 1e-6);
    }

    #[test]
    fn one_sample_has_a_mean_and_no_spread() {
        let summary = Summary::of(&[7.5]).unwrap();
        assert_eq!((summary.n, summary.mean, summary.min, summary.max), (1, 7.5, 7.5, 7.5));
        assert_eq!((summary.standard_deviation, summary.ci95_low, summary.ci95_high), (None, None, None));
    }

    #[test]
    fn two_samples_have_a_spread_and_no_interval() {
        let summary = Summary::of(&[1.0, 3.0]).unwrap();
        assert_eq!(summary.standard_deviation, Some(2f64.sqrt()));
        assert_eq!((summary.ci95_low, summary.ci95_high), (None, None));
        let ratios = [1.0, 3.0].map(|value| Ratio { value, reference: "u" });
        assert_eq!(Summary::of_ratios(&ratios).unwrap(), summary);
    }

    #[test]
    fn the_interval_of_ratios_by_one_reference_is_that_of_a_worked_example() {
        // Logarithms −0.1, 0, 0.1: mean 0, deviation 0.1, t(0.975; 2) = 4.302653, √(1/3 + 1) = 1.154701: 0.496828.
        let values = [-0.1f64, 0.0, 0.1].map(f64::exp);
        let shared = Summary::of_ratios(&values.map(|value| Ratio { value, reference: "u" })).unwrap();
        assert_close(shared.ci95_low.unwrap().ln(), -0.496_828, 1e-5);
        assert_close(shared.ci95_high.unwrap().ln(), 0.496_828, 1e-5);
        assert_eq!((shared.n, shared.mean), (3, values.iter().sum::<f64>() / 3.0));
        // With a reference each, their noise is in the spread already: √(1/3) instead of √(1/3 + 1).
        let apart = [0, 1, 2].map(|index| Ratio { value: values[index], reference: ["a", "b", "c"][index] });
        assert_close(Summary::of_ratios(&apart).unwrap().ci95_high.unwrap().ln(), 0.496_828 / 2.0, 1e-5);
    }

    /// Seeded noise: SplitMix64 and the polar form of Box and Muller.
    struct Noise(u64);

    impl Noise {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }

        /// A speed of this mean with normally distributed noise.
        fn speed(&mut self, mean: f64, deviation_share: f64) -> f64 {
            loop {
                let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
                let radius = x * x + y * y;
                if radius > 0.0 && radius < 1.0 {
                    return mean * (1.0 + deviation_share * x * (-2.0 * radius.ln() / radius).sqrt());
                }
            }
        }
    }

    /// Share of simulated experiments whose interval holds the true ratio, 0.95: `repetitions` in all, spread over so many
    /// references.
    fn coverage(repetitions: usize, references: usize, summary: fn(&[Ratio<'_>]) -> Option<Summary>) -> f64 {
        const TRIALS: usize = 4_000;
        const NAMES: [&str; 2] = ["u1", "u2"];
        let mut noise = Noise(7);
        let holds = (0..TRIALS).filter(|_| {
            let untraced = [noise.speed(100.0, 0.05), noise.speed(100.0, 0.05)];
            let ratios: Vec<Ratio<'_>> = (0..repetitions)
                .map(|index| index % references)
                .map(|of| Ratio { value: noise.speed(95.0, 0.05) / untraced[of], reference: NAMES[of] })
                .collect();
            let found = summary(&ratios).unwrap();
            found.ci95_low.unwrap() <= 0.95 && 0.95 <= found.ci95_high.unwrap()
        });
        holds.count() as f64 / TRIALS as f64
    }

    #[test]
    fn the_interval_of_ratios_by_a_reference_measured_once_holds_the_truth_as_often_as_it_says() {
        for repetitions in [3, 5, 10] {
            let found = coverage(repetitions, 1, Summary::of_ratios);
            assert!((0.93..=0.97).contains(&found), "{repetitions} repetitions: {found}");
        }
        let found = coverage(10, 2, Summary::of_ratios);
        assert!((0.93..=0.97).contains(&found), "two references: {found}");
        // Taken for exact, the reference makes the interval far too narrow: what this test would find without the rest.
        let plain = |ratios: &[Ratio<'_>]| Summary::of(&ratios.iter().map(|ratio| ratio.value).collect::<Vec<_>>());
        assert!(coverage(10, 1, plain) < 0.6);
    }

    #[test]
    fn equal_samples_have_an_interval_of_no_width() {
        let summary = Summary::of(&[0.1; 3]).unwrap();
        assert_eq!((summary.mean, summary.ci95_low, summary.ci95_high), (0.1, Some(0.1), Some(0.1)));
    }

    #[test]
    fn a_median_is_the_middle_value_or_between_the_two() {
        assert_eq!(median(&mut [5.0, 1.0, 9.0]), Some(5.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(median(&mut [7.0]), Some(7.0));
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn nothing_and_what_is_no_number_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of(&[f64::INFINITY]), None);
    }
}
