//! What a bound is measured by: the range and the variance of a tensor's finite values.

use crate::codec::Bound;

use super::source::{CHUNK, Source, Work};

/// Figures are kept apart in this many lanes, which the compiler turns into vectors.
const LANES: usize = 8;

/// How the finite values of a tensor are spread, as far as its bound asks for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    /// Finite values.
    pub(super) finite: u64,
    /// The largest less the smallest; 0 unless the bound is a part of it.
    pub(super) range: f64,
    /// The mean squared distance from the mean; 0 unless the bound is a part of it.
    pub(super) variance: f64,
}

impl Spread {
    pub(super) fn of<S: Source>(bound: Bound, raw: &[u8]) -> Self {
        let mut sums = Sums::new(first_finite::<S>(raw));
        let mut values = [S::Work::default(); CHUNK];
        for chunk in raw.chunks(CHUNK * S::BYTES) {
            let elements = chunk.len() / S::BYTES;
            S::load(chunk, &mut values[..elements]);
            // What is not finite, or not there, becomes a value that changes nothing.
            values[elements..].fill(sums.origin);
            sums.finite += keep_finite(&mut values, sums.origin).saturating_sub(CHUNK - elements) as u64;
            match bound {
                Bound::Range(_) => sums.add_ends(&values),
                Bound::RelativeMse(_) => sums.add_squares(&values),
                Bound::Absolute(_) | Bound::Mse(_) => {}
            }
        }
        sums.spread()
    }
}

fn first_finite<S: Source>(raw: &[u8]) -> S::Work {
    let mut value = [S::Work::default()];
    let finite = raw.chunks_exact(S::BYTES).find_map(|element| {
        S::load(element, &mut value);
        value[0].is_finite().then_some(value[0])
    });
    finite.unwrap_or_default()
}

/// Puts `other` in place of what is not finite; returns how many are.
fn keep_finite<W: Work>(values: &mut [W; CHUNK], other: W) -> usize {
    let mut finite = 0_u32;
    for value in values {
        let is_finite = value.is_finite();
        finite = finite.wrapping_add(u32::from(is_finite));
        *value = if is_finite { *value } else { other };
    }
    finite as usize
}

/// Figures of values, the sums of them less one of the values, so that a large mean does not eat the digits.
struct Sums<W> {
    origin: W,
    finite: u64,
    smallest: [W; LANES],
    largest: [W; LANES],
    sum: [f64; LANES],
    squares: [f64; LANES],
}

impl<W: Work> Sums<W> {
    fn new(origin: W) -> Self {
        let (ends, zeros) = ([origin; LANES], [0.0; LANES]);
        Self { origin, finite: 0, smallest: ends, largest: ends, sum: zeros, squares: zeros }
    }

    fn add_ends(&mut self, values: &[W; CHUNK]) {
        let (mut smallest, mut largest) = (self.smallest, self.largest);
        let (groups, _) = values.as_chunks::<LANES>();
        for group in groups {
            for lane in 0..LANES {
                smallest[lane] = if group[lane] < smallest[lane] { group[lane] } else { smallest[lane] };
                largest[lane] = if group[lane] > largest[lane] { group[lane] } else { largest[lane] };
            }
        }
        (self.smallest, self.largest) = (smallest, largest);
    }

    fn add_squares(&mut self, values: &[W; CHUNK]) {
        let (groups, _) = values.as_chunks::<LANES>();
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

    fn spread(&self) -> Spread {
        let finite = self.finite as f64;
        let mean = self.sum.iter().sum::<f64>() / finite;
        let largest = self.largest.iter().map(|value| value.to_f64()).fold(f64::NEG_INFINITY, f64::max);
        let smallest = self.smallest.iter().map(|value| value.to_f64()).fold(f64::INFINITY, f64::min);
        let variance = (self.squares.iter().sum::<f64>() / finite - mean * mean).max(0.0);
        Spread { finite: self.finite, range: largest - smallest, variance }
    }
}
