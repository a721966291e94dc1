//! A straight line through points of which some are wrong: the median of the slopes of all pairs (Theil and Sen).

use crate::statistics::median;

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// What is counted.
    pub x: f64,
    /// What is measured.
    pub y: f64,
}

/// A line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Rise per unit.
    pub slope: f64,
    /// Lower end of the 95 % confidence interval of the slope, by the variance of Kendall's rank correlation.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Height at 0.
    pub intercept: f64,
    /// Typical distance of a point from the line: 1.4826 times the median one.
    pub noise: f64,
}

/// More points than these are gathered first, so that pairs stay below 80,000.
const POINTS_MAX: usize = 400;
/// Quantile of the normal distribution for a two-sided 95 % interval.
const Z_95: f64 = 1.959_964;
/// From the median of absolute deviations to the standard deviation of normal noise.
const DEVIATIONS: f64 = 1.4826;

/// The line through points in order of `x`; none through fewer than two distinct `x`.
pub fn robust_line(points: &[Point]) -> Option<Line> {
    let gathered = gathered(points);
    let mut slopes = pair_slopes(&gathered);
    let slope = median(&mut slopes)?;
    let (low, high) = interval(&mut slopes, gathered.len());
    let mut heights: Vec<f64> = gathered.iter().map(|point| point.y - slope * point.x).collect();
    let intercept = median(&mut heights)?;
    let mut distances: Vec<f64> = heights.iter().map(|height| (height - intercept).abs()).collect();
    let noise = DEVIATIONS * median(&mut distances)?;
    Some(Line { slope, low: low.min(slope), high: high.max(slope), intercept, noise })
}

/// Neighbours as one point at their medians, if there are too many.
fn gathered(points: &[Point]) -> Vec<Point> {
    let size = points.len().div_ceil(POINTS_MAX).max(1);
    if size == 1 {
        return points.to_vec();
    }
    let middle = |values: &mut Vec<f64>| median(values);
    let together = |chunk: &[Point]| {
        let x = middle(&mut chunk.iter().map(|point| point.x).collect())?;
        let y = middle(&mut chunk.iter().map(|point| point.y).collect())?;
        Some(Point { x, y })
    };
    points.chunks(size).filter_map(together).collect()
}

fn pair_slopes(points: &[Point]) -> Vec<f64> {
    let pairs = points.iter().enumerate().flat_map(|(index, first)| {
        points[index + 1..].iter().filter(|second| second.x > first.x).map(|second| (*first, *second))
    });
    pairs.map(|(first, second)| (second.y - first.y) / (second.x - first.x)).collect()
}

/// Ranks of the slopes around the median, as far as chance alone would move them.
fn interval(slopes: &mut [f64], points: usize) -> (f64, f64) {
    let n = points as f64;
    let reach = Z_95 * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let pairs = slopes.len() as f64;
    let last = slopes.len() - 1;
    let low = (((pairs - reach) / 2.0).floor().max(0.0) as usize).min(last);
    let high = (((pairs + reach) / 2.0).ceil().max(0.0) as usize).min(last);
    (ranked(slopes, low), ranked(slopes, high))
}

fn ranked(values: &mut [f64], rank: usize) -> f64 {
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}
