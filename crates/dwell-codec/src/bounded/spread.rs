//! How the values of one vector are spread, without its outliers.
//!
//! In language models a few values of a vector are larger than the others by orders of magnitude: massive activations.
//! A bound that is a part of a range with such values in it would leave nothing of the others.

use super::source::{CHUNK, Source, Work};

/// A value is an outlier if its magnitude is more than this many times the mean magnitude of the vector. Normal numbers
/// would have to be 12.8 standard deviations out, so that they have none.
const OUTLIER: f64 = 16.0;

/// One in so many values may be an outlier, and one always. Vectors with more have a heavy tail; to keep all of it
/// would cost more than it tells.
const OUTLIERS_IN: u64 = 32;

/// How often outliers are looked for again, because those found before have made the mean larger.
const ROUNDS: u32 = 4;

/// Figures are kept apart in this many lanes, which the compiler turns into vectors.
const LANES: usize = 8;

/// How the finite values of a vector are spread that are no outliers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread {
    /// How many there are.
    pub(super) kept: u64,
    /// The largest less the smallest.
    pub(super) range: f64,
    /// The mean squared distance from their mean; 0 if it was not asked for.
    pub(super) variance: f64,
    /// The largest magnitude.
    pub(super) largest: f64,
    /// Larger magnitudes are outliers.
    pub(super) outliers_above: f64,
}

impl Spread {
    pub(super) fn of<S: Source>(vector: &[u8], with_variance: bool) -> Self {
        let mut limit = S::Work::MAX;
        let mut sums = Sums::of::<S>(vector, limit, with_variance);
        let most_outliers = (sums.count / OUTLIERS_IN).max(1);
        let finite = sums.count;
        for _ in 0..ROUNDS {
            let threshold = OUTLIER * sums.mean_magnitude();
            // A sum that is infinite, or of no values, finds none.
            if sums.largest_magnitude() <= threshold || !threshold.is_finite() {
                break;
            }
            let lower = S::Work::at_most(threshold);
            let others = Sums::of::<S>(vector, lower, with_variance);
            if finite - others.count > most_outliers {
                break;
            }
            (limit, sums) = (lower, others);
        }
        sums.spread(limit.to_f64())
    }
}

/// Figures of values, the squares of them less one of the values, so that a large mean does not eat the digits.
struct Sums<W> {
    origin: W,
    count: u64,
    magnitudes: f64,
    smallest: [W; LANES],
    largest: [W; LANES],
    sum: [f64; LANES],
    squares: [f64; LANES],
}

impl<W: Work> Sums<W> {
    /// Figures of the values whose magnitude is at most `limit`.
    fn of<S: Source<Work = W>>(vector: &[u8], limit: W, with_squares: bool) -> Self {
        let mut sums = Self::new(first_within::<S>(vector, limit));
        let mut values = [W::default(); CHUNK];
        for chunk in vector.chunks(CHUNK * S::BYTES) {
            let elements = chunk.len() / S::BYTES;
            let values = &mut values[..elements.next_multiple_of(LANES)];
            S::load(chunk, &mut values[..elements]);
            values[elements..].fill(W::NAN);
            let within = keep_within(values, limit, sums.origin);
            sums.count += u64::from(within);
            let (groups, _) = values.as_chunks::<LANES>();
            sums.add_magnitudes(groups, values.len() as f64 - f64::from(within));
            if with_squares {
                sums.add_squares(groups);
            }
        }
        sums
    }

    fn new(origin: W) -> Self {
        let (ends, zeros) = ([origin; LANES], [0.0; LANES]);
        Self { origin, count: 0, magnitudes: 0.0, smallest: ends, largest: ends, sum: zeros, squares: zeros }
    }

    /// Adds magnitudes and ends. So many values are the origin in place of others, and count for no magnitude.
    fn add_magnitudes(&mut self, groups: &[[W; LANES]], replaced: f64) {
        let (mut smallest, mut largest) = (self.smallest, self.largest);
        let mut magnitudes = [W::default(); LANES];
        for group in groups {
            for lane in 0..LANES {
                smallest[lane] = if group[lane] < smallest[lane] { group[lane] } else { smallest[lane] };
                largest[lane] = if group[lane] > largest[lane] { group[lane] } else { largest[lane] };
                magnitudes[lane] = magnitudes[lane] + group[lane].magnitude();
            }
        }
        (self.smallest, self.largest) = (smallest, largest);
        let sum: f64 = magnitudes.iter().map(|magnitude| magnitude.to_f64()).sum();
        self.magnitudes += sum - replaced * self.origin.magnitude().to_f64();
    }

    fn add_squares(&mut self, groups: &[[W; LANES]]) {
        let (mut sum, mut squares, origin) = (self.sum, self.squares, self.origin.to_f64());
        for group in groups {
            for lane in 0..LANES {
                let distance = group[lane].to_f64() - origin;
                sum[lane] += distance;
                squares[lane] += distance * distance;
            }
        }
        (self.sum, self.squares) = (sum, squares);
    }

    fn mean_magnitude(&self) -> f64 {
        self.magnitudes / self.count as f64
    }

    fn ends(&self) -> (f64, f64) {
        let smallest = self.smallest.iter().map(|value| value.to_f64()).fold(f64::INFINITY, f64::min);
        (smallest, self.largest.iter().map(|value| value.to_f64()).fold(f64::NEG_INFINITY, f64::max))
    }

    fn largest_magnitude(&self) -> f64 {
        let (smallest, largest) = self.ends();
        largest.max(-smallest)
    }

    fn spread(&self, outliers_above: f64) -> Spread {
        let kept = self.count as f64;
        let mean = self.sum.iter().sum::<f64>() / kept;
        let (smallest, largest) = self.ends();
        let variance = (self.squares.iter().sum::<f64>() / kept - mean * mean).max(0.0);
        let range = largest - smallest;
        Spread { kept: self.count, range, variance, largest: self.largest_magnitude(), outliers_above }
    }
}

/// Puts `other` in place of values beyond the limit; returns how many are within.
fn keep_within<W: Work>(values: &mut [W], limit: W, other: W) -> u32 {
    let mut within = 0_u32;
    for value in values {
        let is_within = value.magnitude() <= limit;
        within = within.wrapping_add(u32::from(is_within));
        *value = if is_within { *value } else { other };
    }
    within
}

/// The first value within the limit; 0 if there is none.
fn first_within<S: Source>(vector: &[u8], limit: S::Work) -> S::Work {
    let mut value = [S::Work::default()];
    let found = vector.chunks_exact(S::BYTES).find_map(|element| {
        S::load(element, &mut value);
        (value[0].magnitude() <= limit).then_some(value[0])
    });
    found.unwrap_or_default()
}
