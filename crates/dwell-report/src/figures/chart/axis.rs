//! Axes: from values to a share of their length, with ticks and a title that has the unit.

use crate::figures::scene::text_width;

/// Size of labels at ticks, in points.
pub(in crate::figures) const LABEL_PT: f64 = 7.0;
/// Size of titles of axes, in points.
pub(in crate::figures) const TITLE_PT: f64 = 7.5;
/// Height that a label at a tick of an upright axis takes at least.
const LABEL_ROOM_PT: f64 = 15.0;
/// Part of an axis from 0 that stays free beyond the greatest value.
const HEADROOM: f64 = 1.05;

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::figures) enum Quantity {
    Bytes,
    BytesPerSecond,
    Seconds,
    /// A share, shown in percent.
    Percent,
    /// A number whose unit, if it has one, is in the title already.
    Number,
}

impl Quantity {
    /// What values are divided by, and the unit that they then have.
    fn unit(self, most: f64) -> (f64, &'static str) {
        const BINARY: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        const RATES: [&str; 5] = ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"];
        const TIMES: [(f64, &str); 3] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
        let power =
            (0..BINARY.len() - 1).find(|power| most < 1024f64.powi(*power as i32 + 1)).unwrap_or(BINARY.len() - 1);
        match self {
            Self::Bytes => (1024f64.powi(power as i32), BINARY[power]),
            Self::BytesPerSecond => (1024f64.powi(power as i32), RATES[power]),
            Self::Seconds => TIMES.into_iter().find(|(unit, _)| most >= *unit).unwrap_or((1e-9, "ns")),
            Self::Percent => (0.01, "%"),
            Self::Number => (1.0, ""),
        }
    }
}

/// Where values lie between the ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::figures) struct Scale {
    from: f64,
    to: f64,
    is_logarithmic: bool,
}

impl Scale {
    /// Equal distances for equal differences.
    pub(in crate::figures) fn linear(from: f64, to: f64) -> Self {
        Self { from, to: if to > from { to } else { from + 1.0 }, is_logarithmic: false }
    }

    /// Equal distances for equal ratios; both ends are above 0.
    pub(in crate::figures) fn logarithmic(from: f64, to: f64) -> Self {
        Self { from: from.ln(), to: if to > from { to.ln() } else { from.ln() + 1.0 }, is_logarithmic: true }
    }

    /// 0 at the beginning and 1 at the end; values beyond an end lie at it.
    pub(in crate::figures) fn share(&self, value: f64) -> f64 {
        let place = if self.is_logarithmic { value.max(f64::MIN_POSITIVE).ln() } else { value };
        ((place - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

/// A value with a label.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::figures) struct Tick {
    pub(in crate::figures) value: f64,
    pub(in crate::figures) label: String,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::figures) struct Axis {
    pub(in crate::figures) scale: Scale,
    pub(in crate::figures) ticks: Vec<Tick>,
    /// With the unit; empty for none.
    pub(in crate::figures) title: String,
}

impl Axis {
    /// From 0 to beyond the greatest value, with as many ticks as its length in points has room for.
    pub(in crate::figures) fn from_zero(title: &str, quantity: Quantity, most: f64, room_pt: f64) -> Self {
        let to = if most > 0.0 { most * HEADROOM } else { 1.0 };
        Self::between(title, quantity, 0.0, to, room_pt)
    }

    /// Between two values.
    pub(in crate::figures) fn between(title: &str, quantity: Quantity, from: f64, to: f64, room_pt: f64) -> Self {
        let (unit, symbol) = quantity.unit(from.abs().max(to.abs()));
        let title = if symbol.is_empty() { title.to_owned() } else { format!("{title} ({symbol})") };
        let ticks = linear_ticks(from / unit, to / unit, room_pt / LABEL_ROOM_PT);
        let ticks = ticks.into_iter().map(|tick| Tick { value: tick.value * unit, ..tick }).collect();
        Self { scale: Scale::linear(from, to), ticks, title }
    }

    /// From 0 % to 100 %.
    pub(in crate::figures) fn percent(title: &str, room_pt: f64) -> Self {
        Self::between(title, Quantity::Percent, 0.0, 1.0, room_pt)
    }

    /// Powers of ten around all values above 0.
    pub(in crate::figures) fn decades(title: &str, least: f64, most: f64, ticks_max: usize) -> Self {
        let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        let step = (last - first).max(1).div_euclid(ticks_max.max(1) as i32) + 1;
        let label = |power: i32| Tick { value: 10f64.powi(power), label: power_of_ten(power) };
        let ticks = (first..=last).filter(|power| power.rem_euclid(step) == 0).map(label);
        let ticks = ticks.filter(|tick| tick.value >= least * 0.999 && tick.value <= most * 1.001).collect();
        Self { scale: Scale::logarithmic(least, most), ticks, title: title.to_owned() }
    }

    /// Powers of two of bytes around all values above 0; labels have the unit.
    pub(in crate::figures) fn byte_powers(title: &str, least: f64, most: f64, room_pt: f64) -> Self {
        let (first, last) = (least.log2().floor(), most.log2().ceil().max(least.log2().floor() + 1.0));
        let step = ((last - first) / (room_pt / LABEL_ROOM_PT).max(1.0)).ceil().max(1.0);
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|nice| *nice >= step).unwrap_or(10.0);
        let powers = (0..).map(|place| (first / step).ceil() * step + f64::from(place) * step);
        let tick = |power: f64| Tick { value: power.exp2(), label: power_of_two(power as u32) };
        let ticks = powers.take_while(|power| *power <= last).map(tick).collect();
        Self { scale: Scale::logarithmic(first.exp2(), last.exp2()), ticks, title: title.to_owned() }
    }

    /// Width of the widest label.
    pub(in crate::figures) fn labels_width(&self) -> f64 {
        self.ticks.iter().map(|tick| text_width(&tick.label, LABEL_PT)).fold(0.0, f64::max)
    }
}

/// Multiples of 1, 2 or 5 times a power of ten between two values, at most so many.
fn linear_ticks(from: f64, to: f64, ticks_max: f64) -> Vec<Tick> {
    let step = nice_step((to - from) / ticks_max.max(1.0));
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    let first = (from / step - 1e-9).ceil();
    let values = (0..).map(|place| (first + f64::from(place)) * step).take_while(|value| *value <= to + step * 1e-9);
    let label = |value: f64| {
        let text = format!("{:.decimals$}", value.abs());
        match value {
            value if value < -step / 2.0 => format!("−{text}"),
            value if value < step / 2.0 => "0".to_owned(),
            _ => text,
        }
    };
    values.map(|value| Tick { value, label: label(value) }).collect()
}

/// The next larger of 1, 2, 5 times a power of ten.
fn nice_step(step: f64) -> f64 {
    let magnitude = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * magnitude >= step * 0.999);
    factor.unwrap_or(10.0) * magnitude
}

fn power_of_ten(power: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    match power {
        0 => "1".to_owned(),
        1 => "10".to_owned(),
        _ => {
            let digits = power.unsigned_abs().to_string();
            let raised = digits.bytes().filter_map(|digit| DIGITS.get(usize::from(digit - b'0')));
            format!("10{}{}", if power < 0 { "⁻" } else { "" }, raised.collect::<String>())
        }
    }
}

fn power_of_two(power: u32) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (power / 10).min(UNITS.len() as u32 - 1);
    format!("{} {}", 1u64 << (power - 10 * unit).min(63), UNITS[unit as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn a_linear_axis_has_round_numbers_of_a_unit_that_its_title_names() {
        let axis = Axis::from_zero("Resident memory", Quantity::Bytes, 100.0 * 1024.0 * 1024.0, 90.0);
        assert_eq!(
            (axis.title.as_str(), labels(&axis)),
            ("Resident memory (MiB)", vec!["0", "20", "40", "60", "80", "100"])
        );
        assert_eq!(axis.scale.share(0.0), 0.0);
        assert!((axis.scale.share(100.0 * 1024.0 * 1024.0) - 1.0 / HEADROOM).abs() < 1e-9);
        assert_eq!(axis.scale.share(1e12), 1.0, "beyond the end is at it");
        let axis = Axis::between("Time", Quantity::Seconds, -0.1, 0.2, 60.0);
        assert_eq!((axis.title.as_str(), labels(&axis)), ("Time (ms)", vec!["−100", "0", "100", "200"]));
        assert_eq!(labels(&Axis::percent("Share", 90.0)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::from_zero("Ratio", Quantity::Number, 0.9, 40.0)), ["0", "0.5"]);
    }

    #[test]
    fn a_logarithmic_axis_has_powers_and_equal_distances() {
        let axis = Axis::decades("Time (s)", 1e-5, 10.0, 4);
        assert_eq!(labels(&axis), ["10⁻⁴", "10⁻²", "1"]);
        assert!((axis.scale.share(1e-2) - 0.5).abs() < 1e-9);
        assert_eq!(axis.scale.share(0.0), 0.0);
        let axis = Axis::byte_powers("Touched", 3000.0, 9e6, 60.0);
        assert_eq!(labels(&axis), ["32 KiB", "1 MiB"]);
        assert_eq!([power_of_ten(-12), power_of_two(10)], ["10⁻¹²", "1 KiB"]);
    }
}
