//! What is lost, vector by vector.

use super::source::Work;

/// Figures are kept apart in this many lanes, which the compiler turns into vectors.
const LANES: usize = 8;

/// What a tensor has lost so far.
#[derive(Clone, Copy)]
pub(super) struct Loss {
    /// The largest error.
    pub(super) max_error: f64,
    /// The squares of all errors.
    pub(super) squares: f64,
    /// Finite values.
    pub(super) finite: u64,
    /// The smallest cosine between a vector and what a decoder makes of it.
    pub(super) min_cosine: f64,
    /// The largest bound that was in force for a vector.
    pub(super) bound: f64,
}

impl Loss {
    pub(super) fn none() -> Self {
        Self { max_error: 0.0, squares: 0.0, finite: 0, min_cosine: 1.0, bound: 0.0 }
    }

    /// Adds a vector; `None` if its direction cannot be told.
    pub(super) fn add(&mut self, vector: &VectorLoss, bound: f64) -> Option<()> {
        self.max_error = self.max_error.max(vector.max_error);
        self.squares += vector.squares;
        self.finite += vector.finite;
        self.min_cosine = self.min_cosine.min(vector.cosine()?);
        self.bound = self.bound.max(bound);
        Some(())
    }
}

/// What one vector has lost. Values that are not finite count for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VectorLoss {
    max_error: f64,
    /// The squares of all errors.
    pub(super) squares: f64,
    finite: u64,
    direction: Direction,
}

/// What turns a vector, in units of its step, in which nothing that matters is too large or too small. In the precision that
/// values are computed in: a cosine needs no more.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    /// The squares of all values.
    norm: f64,
    /// Values times their errors.
    product: f64,
    /// The squares of all errors.
    squares: f64,
}

impl VectorLoss {
    /// Adds values and their errors, at most as many as a chunk has. `inverse` is 1 divided by the step.
    pub(super) fn add<W: Work>(&mut self, values: &[W], errors: &[W], inverse: W) {
        let finite = count_finite(values);
        self.finite += u64::from(finite);
        self.add_errors(errors);
        if finite as usize == values.len() {
            self.direction.add(values, errors, inverse);
        } else {
            // Apart, because a choice for every value costs more than all sums.
            self.direction.add(&only_finite(values), errors, inverse);
        }
    }

    fn add_errors<W: Work>(&mut self, errors: &[W]) {
        let (mut largest, mut squares) = ([W::default(); LANES], [0.0; LANES]);
        let (groups, rest) = errors.as_chunks::<LANES>();
        for group in groups {
            add_errors_of(group, &mut largest, &mut squares);
        }
        add_errors_of(&padded(rest), &mut largest, &mut squares);
        self.max_error = largest.iter().map(|error| error.to_f64()).fold(self.max_error, f64::max);
        self.squares += squares.iter().sum::<f64>();
    }

    /// The cosine between the vector and what a decoder makes of it; `None` where it cannot be told.
    fn cosine(&self) -> Option<f64> {
        if self.max_error == 0.0 { Some(1.0) } else { self.direction.cosine() }
    }
}

fn count_finite<W: Work>(values: &[W]) -> u32 {
    values.iter().fold(0, |count: u32, value| count.wrapping_add(u32::from(value.magnitude() <= W::MAX)))
}

/// The values, with zeros in place of those that are not finite.
fn only_finite<W: Work>(values: &[W]) -> Vec<W> {
    values.iter().map(|&value| if value.magnitude() <= W::MAX { value } else { W::default() }).collect()
}

/// The rest of a slice as a group, with zeros, which lose nothing, after its end.
fn padded<W: Work>(rest: &[W]) -> [W; LANES] {
    let mut group = [W::default(); LANES];
    group[..rest.len()].copy_from_slice(rest);
    group
}

#[inline(always)]
fn add_errors_of<W: Work>(errors: &[W; LANES], largest: &mut [W; LANES], squares: &mut [f64; LANES]) {
    for lane in 0..LANES {
        let size = errors[lane].magnitude();
        largest[lane] = if size > largest[lane] { size } else { largest[lane] };
        let error = errors[lane].to_f64();
        squares[lane] += error * error;
    }
}

impl Direction {
    fn add<W: Work>(&mut self, values: &[W], errors: &[W], inverse: W) {
        let zeros = [W::default(); LANES];
        let mut sums = [zeros, zeros, zeros];
        let ((groups, rest), (error_groups, error_rest)) = (values.as_chunks::<LANES>(), errors.as_chunks::<LANES>());
        for (values, errors) in groups.iter().zip(error_groups) {
            add_turn_of(values, errors, inverse, &mut sums);
        }
        add_turn_of(&padded(rest), &padded(error_rest), inverse, &mut sums);
        let [norm, product, squares] = sums.map(|lanes| lanes.iter().map(|lane| lane.to_f64()).sum::<f64>());
        self.norm += norm;
        self.product += product;
        self.squares += squares;
    }

    /// By the sine where it is small, because the digits of a cosine near 1 are in the difference from it. 0 if nothing is
    /// left of the vector, `None` if it is too long to tell.
    fn cosine(&self) -> Option<f64> {
        if !self.norm.is_finite() {
            return None;
        }
        if self.norm == 0.0 {
            // Far below a step.
            return Some(0.0);
        }
        let (squares, product) = (self.squares / self.norm, self.product / self.norm);
        let decoded = 1.0 - 2.0 * product + squares;
        if decoded <= 0.0 {
            return Some(0.0);
        }
        let sine_squared = ((squares - product * product) / decoded).clamp(0.0, 1.0);
        let is_near = sine_squared < 0.5 && product < 1.0;
        Some(if is_near { (1.0 - sine_squared).sqrt() } else { (1.0 - product) / decoded.sqrt() })
    }
}

/// Adds to the sums of [`Direction`], in the order of its fields.
#[inline(always)]
fn add_turn_of<W: Work>(values: &[W; LANES], errors: &[W; LANES], inverse: W, sums: &mut [[W; LANES]; 3]) {
    let [norm, product, squares] = sums;
    for lane in 0..LANES {
        let (value, error) = (values[lane] * inverse, errors[lane] * inverse);
        norm[lane] = norm[lane] + value * value;
        product[lane] = product[lane] + value * error;
        squares[lane] = squares[lane] + error * error;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn cosine(values: &[f64], decoded: &[f64]) -> Option<f64> {
        let errors: Vec<f64> = values.iter().zip(decoded).map(|(value, decoded)| value - decoded).collect();
        let mut loss = VectorLoss::default();
        loss.add(values, &errors, 0.25);
        loss.cosine()
    }

    #[test]
    fn cosines_are_those_of_geometry() {
        assert_eq!(cosine(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), Some(1.0));
        assert_eq!(cosine(&[3.0, 4.0], &[0.0, 0.0]), Some(0.0));
        assert!((cosine(&[1.0, 0.0], &[1.0, 1.0]).unwrap() - 0.5_f64.sqrt()).abs() < 1e-15);
        assert!((cosine(&[1.0, 1.0], &[-1.0, -1.0]).unwrap() + 1.0).abs() < 1e-15);
        // 20 values, so that some are beyond the lanes.
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let decoded: Vec<f64> = values.iter().map(|value| (value / 4.0).round() * 4.0).collect();
        let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
        let expected = dot(&values, &decoded) / (dot(&values, &values) * dot(&decoded, &decoded)).sqrt();
        assert!((cosine(&values, &decoded).unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_finite_has_no_direction() {
        let mut loss = VectorLoss::default();
        loss.add(&[f32::NAN, 1.0, f32::INFINITY, 1.0], &[0.0, 0.0, 0.0, 1.0], 1.0);
        assert_eq!(loss.finite, 2);
        assert!((loss.cosine().unwrap() - 0.5_f64.sqrt()).abs() < 1e-15);
        assert_eq!(cosine(&[1e200], &[9e199]), None);
        assert_eq!(cosine(&[1e-200], &[0.0]), Some(0.0));
    }
}
