//! The steps of each vector.

use super::quantise::Grid;
use super::source::{Source, Work};
use super::spread::Spread;

/// The scale of a vector is stored as the exponent of a float64 and the first five bits of its mantissa.
const CODE_SHIFT: u32 = 47;

/// The code of 1.
pub(super) const ONE: u16 = 0x7fe0;

/// The bits of a code that are mantissa.
const MANTISSA: u16 = 0x1f;

/// Vectors that are kept exactly have no steps.
const EXACT: u16 = 0;

/// Steps are this much shorter than twice the error they may have, so that rounding does not break it.
pub(super) const HAIR: f64 = 1.0 - 1e-6;

/// The scale that a code stands for.
pub(super) fn scale_of(code: u16) -> f64 {
    f64::from_bits(u64::from(code) << CODE_SHIFT)
}

/// The code of the largest scale that is not above a positive one.
fn code_of(scale: f64) -> u16 {
    (scale.to_bits() >> CODE_SHIFT) as u16
}

/// Part of a mean squared error that is aimed at: by chance, evenly spread errors of `count` values are above it by
/// about this much in one of seven cases.
pub(super) fn aim(count: f64) -> f64 {
    1.0 / (1.0 + 1.0 / count.sqrt())
}

/// How the steps of vectors are found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// All have the same step, and no error is above `limit`.
    Same { step: f64, limit: f64 },
    /// No error is above this part of the vector's range; steps may have to be powers of two.
    OfRange { part: f64, is_even: bool },
    /// The mean squared error is at most this part of the vector's variance. `width` is that of steps against those
    /// whose errors are spread evenly.
    OfVariance { part: f64, width: f64 },
}

impl Rule {
    /// What steps in a payload are multiplied with.
    pub(super) fn unit(&self) -> f64 {
        match self {
            Self::Same { step, .. } => *step,
            Self::OfRange { .. } | Self::OfVariance { .. } => 1.0,
        }
    }

    /// About the bits that the scale of a vector takes.
    pub(super) fn scale_bits(&self) -> f64 {
        match self {
            Self::Same { .. } => 0.0,
            Self::OfRange { .. } | Self::OfVariance { .. } => 10.0,
        }
    }

    /// The steps of a vector.
    pub(super) fn scale<S: Source>(&self, vector: &[u8]) -> Scale<S::Work> {
        let spread = match self {
            Self::Same { .. } => Spread::default(),
            Self::OfRange { .. } => Spread::of::<S>(vector, false),
            Self::OfVariance { .. } => Spread::of::<S>(vector, true),
        };
        self.scale_by(&spread)
    }

    /// The steps of a vector whose values are spread so.
    pub(super) fn scale_by<W: Work>(&self, spread: &Spread) -> Scale<W> {
        let scale = match *self {
            Self::Same { step, limit } => Scale::new(ONE, step, limit, f64::INFINITY),
            // Zeros are as exact with any step as without one, and shorter.
            _ if spread.largest == 0.0 => Scale::new(ONE, 1.0, 0.0, f64::INFINITY),
            Self::OfRange { part, is_even } => of_range(part * spread.range, is_even),
            Self::OfVariance { part, width } => of_variance(part * spread.variance, width, spread.kept as f64),
        };
        let scale = scale.unwrap_or_else(Scale::exact);
        let is_own = !matches!(self, Self::Same { .. });
        if is_own { scale.without_outliers(spread.outliers_above) } else { scale }
    }
}

fn of_range<W: Work>(limit: f64, is_even: bool) -> Option<Scale<W>> {
    let code = code_of(2.0 * limit * HAIR);
    let code = if is_even { code & !MANTISSA } else { code };
    if limit.is_normal() { Scale::new(code, scale_of(code), limit, f64::INFINITY) } else { None }
}

fn of_variance<W: Work>(mse: f64, width: f64, kept: f64) -> Option<Scale<W>> {
    let code = code_of(width * (12.0 * aim(kept) * mse).sqrt());
    if !mse.is_normal() {
        return None;
    }
    let scale = Scale::new(code, scale_of(code), scale_of(code), mse * kept)?;
    Some(Scale { bound: mse, ..scale })
}

/// The steps of one vector.
#[derive(Clone, Copy)]
pub(super) struct Scale<W> {
    /// How long a step is, as a payload tells it.
    pub(super) code: u16,
    pub(super) grid: Grid<W>,
    /// The bound in force, as an error or a mean squared error.
    pub(super) bound: f64,
    /// The most that the squares of all errors may come to.
    pub(super) squares_max: f64,
}

impl<W: Work> Scale<W> {
    /// `None` for steps that values cannot be divided by.
    fn new(code: u16, step: f64, limit: f64, squares_max: f64) -> Option<Self> {
        Some(Self { code, grid: Grid::new(step, limit)?, bound: limit, squares_max })
    }

    /// Of a vector that is kept as it is.
    pub(super) fn exact() -> Self {
        Self { code: EXACT, grid: Grid::keeping_nothing(), bound: 0.0, squares_max: f64::INFINITY }
    }

    fn without_outliers(self, above: f64) -> Self {
        Self { grid: self.grid.up_to(W::at_most(above)), ..self }
    }

    /// Shorter steps, after errors whose squares came to more than they may.
    pub(super) fn narrowed(&self, squares: f64) -> Self {
        let step = scale_of(self.code) * (self.squares_max / squares).sqrt();
        let code = code_of(step).min(self.code.saturating_sub(1));
        match Grid::new(scale_of(code), scale_of(code)) {
            Some(grid) => Self { code, grid: grid.up_to(self.grid.largest), ..*self },
            None => Self::exact(),
        }
    }
}
