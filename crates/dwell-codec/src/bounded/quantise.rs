//! Values to steps, and what is lost by it.
//!
//! The loops run over whole chunks, so that the compiler can turn them into vectors.

use super::plan::{Plan, SYMBOLS};
use super::source::{CHUNK, Source, Work};

/// Steps and the error up to which an element may be rounded to one.
#[derive(Clone, Copy)]
pub(super) struct Grid<W> {
    pub(super) step: W,
    inverse: W,
    pub(super) limit: W,
}

impl<W: Work> Grid<W> {
    /// `None` for steps that values cannot be divided by.
    pub(super) fn new(step: f64, limit: f64) -> Option<Self> {
        let step = W::from_f64(step);
        let inverse = step.inverse();
        let limit = W::at_most(limit);
        (step.is_normal() && inverse.is_normal()).then_some(Self { step, inverse, limit })
    }
}

/// A chunk on its way: values, their steps, and how far off a decoder's values will be.
pub(super) struct Chunk<W> {
    pub(super) values: [W; CHUNK],
    pub(super) steps: [i32; CHUNK],
    /// Above the limit or NaN where no step is near. Otherwise no estimate: the difference of two numbers of which none
    /// is more than twice the other needs no rounding (Sterbenz), and a value below half a step goes to step 0.
    pub(super) errors: [W; CHUNK],
    pub(super) numbers: [u32; CHUNK],
}

impl<W: Work> Chunk<W> {
    pub(super) fn new() -> Self {
        Self { values: [W::default(); CHUNK], steps: [0; CHUNK], errors: [W::default(); CHUNK], numbers: [0; CHUNK] }
    }

    /// Takes elements; zeros, which lose nothing, where there are too few.
    pub(super) fn load<S: Source<Work = W>>(&mut self, raw: &[u8]) {
        let elements = raw.len() / S::BYTES;
        S::load(raw, &mut self.values[..elements]);
        self.values[elements..].fill(W::default());
    }

    /// Finds the step of every value.
    pub(super) fn quantise<S: Source<Work = W>>(&mut self, grid: Grid<W>) {
        let mut decoded = [W::default(); CHUNK];
        for (index, decoded) in decoded.iter_mut().enumerate() {
            self.steps[index] = self.values[index].quantise(grid.inverse);
            *decoded = W::reconstruct(self.steps[index], grid.step);
        }
        S::round(&mut decoded);
        for (index, decoded) in decoded.into_iter().enumerate() {
            self.errors[index] = self.values[index].distance(decoded);
        }
    }

    /// Numbers the steps as a payload does. Those that have no symbol, or are too far off, get one beyond all symbols,
    /// and no error: their elements are kept exactly.
    pub(super) fn number(&mut self, plan: &Plan, limit: W) {
        let end = SYMBOLS << plan.low_bits;
        for index in 0..CHUNK {
            let number = self.steps[index].wrapping_sub(plan.first) as u32;
            let is_held = (self.errors[index] <= limit) & (number < end);
            self.numbers[index] = if is_held { number } else { end };
            self.errors[index] = if is_held { self.errors[index] } else { W::default() };
        }
    }
}

/// What was lost so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Loss {
    pub(super) max_error: f64,
    pub(super) squares: f64,
}

/// Figures are kept apart in this many lanes, which the compiler turns into vectors.
const LANES: usize = 8;

impl Loss {
    /// Adds the errors of a chunk.
    pub(super) fn add<W: Work>(&mut self, errors: &[W; CHUNK]) {
        let (mut largest, mut squares) = ([W::default(); LANES], [0.0; LANES]);
        let (groups, _) = errors.as_chunks::<LANES>();
        for group in groups {
            for lane in 0..LANES {
                largest[lane] = if group[lane] > largest[lane] { group[lane] } else { largest[lane] };
                let error = group[lane].to_f64();
                squares[lane] += error * error;
            }
        }
        self.max_error = largest.iter().map(|error| error.to_f64()).fold(self.max_error, f64::max);
        self.squares += squares.iter().sum::<f64>();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    /// Values around the middle between two steps, where rounding decides.
    fn around(middle: f32) -> impl Iterator<Item = f32> + Clone {
        let below = std::iter::successors(Some(middle), |value| Some(value.next_down())).take(8);
        below.chain(std::iter::successors(Some(middle), |value| Some(value.next_up())).take(8))
    }

    #[test]
    fn errors_are_exact_on_either_side_of_every_middle() {
        let mut chunk = Chunk::new();
        let powers = (-126..100).step_by(3).map(|exponent| f64::from(exponent).exp2());
        let others = (0..60).map(|index| 1.0 + f64::from(index) / 61.0).chain([2e-3 * (1.0 - 1e-6), 1.999_999_9]);
        for step in powers.chain(others) {
            let grid = Grid::<f32>::new(step, step).unwrap();
            for number in [0, 1, 2, 3, 7, 254, 65_535, 1 << 20] {
                let middle = (f64::from(number) + 0.5) * step;
                let values = around(middle as f32).flat_map(|value| [value, -value]);
                chunk.values.iter_mut().zip(values.cycle()).for_each(|(place, value)| *place = value);
                chunk.quantise::<f32>(grid);
                for index in 0..CHUNK {
                    let decoded = f64::from(f32::reconstruct(chunk.steps[index], grid.step));
                    let error = (f64::from(chunk.values[index]) - decoded).abs();
                    assert_eq!(f64::from(chunk.errors[index]), error, "{} by {step}", chunk.values[index]);
                    assert!(error <= 0.6 * step, "{} by {step}", chunk.values[index]);
                }
            }
        }
    }
}
