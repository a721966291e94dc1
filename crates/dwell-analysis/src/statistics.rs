//! Mean and spread of a figure over repetitions.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Share of the t distribution below the upper end of the two-sided 95 % interval.
const UPPER_SHARE: f64 = 0.975;

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
    /// Lower end of the 95 % confidence interval of the mean, by Student's t; none of one sample.
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
        let half_width = standard_deviation.and_then(|deviation| half_width(deviation, count));
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
}

/// Half the width of the interval; none if there is no t distribution for the count.
fn half_width(standard_deviation: f64, count: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, count - 1.0).ok()?.inverse_cdf(UPPER_SHARE);
    Some(t * standard_deviation / count.sqrt())
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
        let table =
            [(2, 12.706), (3, 4.303), (4, 3.182), (5, 2.776), (6, 2.571), (10, 2.262), (30, 2.045), (121, 1.980)];
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
    fn one_sample_has_a_mean_and_no_interval() {
        let summary = Summary::of(&[7.5]).unwrap();
        assert_eq!((summary.n, summary.mean, summary.min, summary.max), (1, 7.5, 7.5, 7.5));
        assert_eq!((summary.standard_deviation, summary.ci95_low, summary.ci95_high), (None, None, None));
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
