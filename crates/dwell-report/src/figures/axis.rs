//! From values to pixels, with ticks.

use crate::numbers;

/// What the numbers of an axis are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Unit {
    Seconds,
    Bytes,
    Share,
    TokensPerSecond,
    /// From 0, unlike [`Unit::Bytes`].
    LinearBytes,
    Tokens,
}

impl Unit {
    /// A value with its unit.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Unit::Seconds => numbers::seconds(value),
            Unit::Bytes | Unit::LinearBytes => numbers::bytes(value.round() as u64),
            Unit::Share => format!("{value:.3}"),
            Unit::TokensPerSecond => format!("{}/s", numbers::ratio(value)),
            Unit::Tokens => numbers::count(value.round() as u64),
        }
    }

    /// The value of a tick: as short as it can be.
    fn tick_text(self, value: f64) -> String {
        match self {
            Unit::Seconds | Unit::Bytes | Unit::LinearBytes => {
                let text = self.text(value);
                let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
                format!("{} {unit}", without_zeros(number))
            }
            Unit::Tokens => self.text(value),
            Unit::Share | Unit::TokensPerSecond => without_zeros(&format!("{value:.3}")).to_owned(),
        }
    }

    /// Distance of ticks on a logarithmic axis, as a factor.
    fn base(self) -> f64 {
        if self == Unit::Bytes { 16.0 } else { 10.0 }
    }

    /// A distance of ticks that reads well: binary units for bytes.
    fn nice_step(self, step: f64) -> f64 {
        if self != Unit::LinearBytes {
            return nice_step(step);
        }
        let unit = 1024f64.powf((step.log2() / 10.0).floor().max(0.0));
        nice_step(step / unit) * unit
    }

    /// Whether values spread over so many magnitudes that the axis is logarithmic.
    fn is_logarithmic(self) -> bool {
        matches!(self, Unit::Seconds | Unit::Bytes)
    }
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// A horizontal axis.
pub(super) struct Axis {
    unit: Unit,
    /// Ends, as logarithms if the axis is logarithmic.
    from: f64,
    to: f64,
    left: i32,
    right: i32,
}

/// Most ticks that fit beside each other.
const TICKS_MAX: f64 = 7.0;

impl Axis {
    /// An axis that holds all values, between two pixels.
    pub(super) fn new(unit: Unit, values: &[f64], left: i32, right: i32) -> Self {
        let (from, to) = if unit.is_logarithmic() { log_ends(unit, values) } else { linear_ends(unit, values) };
        Self { unit, from, to, left, right }
    }

    /// Pixel of a value; none if the axis cannot show it (0 on a logarithmic one). Beyond an end, the end.
    pub(super) fn pixel(&self, value: f64) -> Option<i32> {
        let place =
            if self.unit.is_logarithmic() { (value > 0.0).then(|| value.log(self.unit.base()))? } else { value };
        let share = ((place - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        Some(self.left + (share * f64::from(self.right - self.left)).round() as i32)
    }

    /// Pixel of a value; the left end for one that the axis cannot show.
    pub(super) fn pixel_or_left(&self, value: f64) -> i32 {
        self.pixel(value).unwrap_or(self.left)
    }

    /// The pixel in its middle.
    pub(super) fn middle(&self) -> i32 {
        (self.left + self.right) / 2
    }

    /// Pixels and texts of the ticks.
    pub(super) fn ticks(&self) -> Vec<(i32, String)> {
        let step = if self.unit.is_logarithmic() {
            ((self.to - self.from) / TICKS_MAX).ceil().max(1.0)
        } else {
            self.unit.nice_step((self.to - self.from) / (TICKS_MAX - 2.0))
        };
        let count = ((self.to - self.from) / step + 1e-9).floor() as u32;
        let value = |index: u32| {
            let place = self.from + f64::from(index) * step;
            if self.unit.is_logarithmic() { self.unit.base().powf(place) } else { place }
        };
        (0..=count).map(value).map(|value| (self.pixel_or_left(value), self.unit.tick_text(value))).collect()
    }
}

fn log_ends(unit: Unit, values: &[f64]) -> (f64, f64) {
    let logs: Vec<f64> = values.iter().filter(|&&value| value > 0.0).map(|value| value.log(unit.base())).collect();
    let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if logs.is_empty() {
        return (0.0, 1.0);
    }
    let from = (low - 0.02).floor();
    (from, (high + 0.02).ceil().max(from + 1.0))
}

fn linear_ends(unit: Unit, values: &[f64]) -> (f64, f64) {
    if unit == Unit::Share {
        return (0.0, 1.0);
    }
    let high = values.iter().copied().fold(0.0, f64::max);
    (0.0, if high > 0.0 { high * 1.08 } else { 1.0 })
}

/// The next larger of 1, 2, 5 times a power of ten.
fn nice_step(step: f64) -> f64 {
    let magnitude = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * magnitude >= step * 0.999);
    factor.unwrap_or(10.0) * magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_logarithmic_axis_has_decades_and_holds_every_value() {
        let axis = Axis::new(Unit::Seconds, &[0.0, 3.0e-5, 1.2], 100, 400);
        assert_eq!(texts(&axis), ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
        assert_eq!(axis.pixel(1e-5), Some(100));
        assert_eq!(axis.pixel(10.0), Some(400));
        assert_eq!(axis.pixel(1e-2), Some(250));
        assert_eq!(axis.pixel(0.0), None);
    }

    #[test]
    fn bytes_have_binary_ticks_and_shares_go_from_0_to_1() {
        let axis = Axis::new(Unit::Bytes, &[20_000.0, 90e6], 0, 100);
        assert_eq!(texts(&axis), ["4 KiB", "64 KiB", "1 MiB", "16 MiB", "256 MiB"]);
        assert_eq!(texts(&Axis::new(Unit::Share, &[0.3], 0, 100)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(texts(&Axis::new(Unit::TokensPerSecond, &[110.0], 0, 100)), ["0", "50", "100"]);
    }
}
