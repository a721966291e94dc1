//! Values to steps, and how far off a decoder will be.
//!
//! The loops run over whole slices, so that the compiler can turn them into vectors.

use super::plan::{Plan, SYMBOLS};
use super::source::{CHUNK, Source, Work};

/// Steps, and what may be rounded to one.
#[derive(Clone, Copy)]
pub(super) struct Grid<W> {
    pub(super) step: W,
    pub(super) inverse: W,
    /// The error up to which an element may be rounded.
    pub(super) limit: W,
    /// The magnitude up to which an element may be rounded.
    pub(super) largest: W,
}

impl<W: Work> Grid<W> {
    /// `None` for steps that values cannot be divided by.
    pub(super) fn new(step: f64, limit: f64) -> Option<Self> {
        let step = W::from_f64(step);
        let inverse = step.inverse();
        let (limit, largest) = (W::at_most(limit), W::MAX);
        (step.is_normal() && inverse.is_normal()).then_some(Self { step, inverse, limit, largest })
    }

    /// The same for magnitudes up to `largest`.
    pub(super) fn up_to(self, largest: W) -> Self {
        Self { largest, ..self }
    }

    /// A grid that nothing is rounded to.
    pub(super) fn keeping_nothing() -> Self {
        let one = W::from_f64(1.0);
        Self { step: one, inverse: one, limit: W::from_f64(-1.0), largest: W::MAX }
    }
}

/// A chunk on its way: values, their steps, and how far off a decoder's values will be.
pub(super) struct Chunk<W> {
    length: usize,
    values: [W; CHUNK],
    steps: [i32; CHUNK],
    /// What a decoder makes of the steps.
    decoded: [W; CHUNK],
    /// Values less what a decoder gives for them, and 0 where it gives them exactly. No estimate: the difference of two
    /// numbers of which none is more than twice the other needs no rounding (Sterbenz), and a value below half a step goes
    /// to step 0.
    errors: [W; CHUNK],
    numbers: [u32; CHUNK],
}

impl<W: Work> Chunk<W> {
    pub(super) fn new() -> Self {
        let zeros = [W::default(); CHUNK];
        Self { length: 0, values: zeros, steps: [0; CHUNK], decoded: zeros, errors: zeros, numbers: [0; CHUNK] }
    }

    /// Takes at most [`CHUNK`] elements.
    pub(super) fn load<S: Source<Work = W>>(&mut self, raw: &[u8]) {
        self.length = raw.len() / S::BYTES;
        S::load(raw, &mut self.values[..self.length]);
    }

    /// Takes at most [`CHUNK`] values.
    pub(super) fn take(&mut self, values: &[W]) {
        self.length = values.len();
        self.values[..self.length].copy_from_slice(values);
    }

    pub(super) fn values(&self) -> &[W] {
        &self.values[..self.length]
    }

    pub(super) fn errors(&self) -> &[W] {
        &self.errors[..self.length]
    }

    pub(super) fn numbers(&self) -> &[u32] {
        &self.numbers[..self.length]
    }

    /// Steps of the values that are near enough to one, with their errors.
    pub(super) fn near(&self, grid: &Grid<W>) -> impl Iterator<Item = (i32, W)> {
        let (limit, largest) = (grid.limit, grid.largest);
        let places = self.steps.iter().zip(self.values()).zip(&self.decoded);
        places.filter_map(move |((&step, &value), &decoded)| {
            let error = value - decoded;
            (error.magnitude() <= limit && value.magnitude() <= largest).then_some((step, error))
        })
    }

    /// Finds the step of every value.
    pub(super) fn quantise<S: Source<Work = W>>(&mut self, grid: &Grid<W>) {
        let decoded = &mut self.decoded[..self.length];
        let values = &self.values[..self.length];
        for ((value, step), decoded) in values.iter().zip(&mut self.steps).zip(decoded.iter_mut()) {
            *step = value.quantise(grid.inverse);
            *decoded = W::reconstruct(*step, grid.step);
        }
        S::round(decoded);
    }

    /// Numbers the steps as a payload does. Those that have no symbol, or are too far off, get one beyond all symbols,
    /// and no error: their elements are kept exactly.
    ///
    /// Numbers and errors are written and not read: the compiler makes branches of what may stay as it is.
    pub(super) fn number(&mut self, plan: &Plan, grid: &Grid<W>) {
        let end = SYMBOLS << plan.low_bits;
        let places = self.steps.iter().zip(&self.values[..self.length]).zip(&self.decoded);
        let results = self.numbers.iter_mut().zip(&mut self.errors);
        for (((step, value), decoded), (number, error)) in places.zip(results) {
            let (found, difference) = (step.wrapping_sub(plan.first) as u32, *value - *decoded);
            let is_near = (difference.magnitude() <= grid.limit) & (value.magnitude() <= grid.largest);
            let is_held = is_near & (found < end);
            *number = if is_held { found } else { end };
            *error = if is_held { difference } else { W::default() };
        }
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
                let values: Vec<f32> = around(middle as f32).flat_map(|value| [value, -value]).collect();
                chunk.take(&values);
                chunk.quantise::<f32>(&grid);
                assert_eq!(chunk.near(&grid).count(), values.len());
                for (&value, (number, found)) in values.iter().zip(chunk.near(&grid)) {
                    let error = f64::from(value) - f64::from(f32::reconstruct(number, grid.step));
                    assert_eq!(f64::from(found), error, "{value} by {step}");
                    assert!(error.abs() <= 0.6 * step, "{value} by {step}");
                }
            }
        }
    }
}
