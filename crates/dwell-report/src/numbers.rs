//! Numbers as text, in one place.

use dwell_analysis::Unit;

/// Bytes with a binary unit and three digits: `1.23 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{} {}", three_digits(value), UNITS[unit]) }
}

/// A time span with a unit that keeps three digits: `12.3 ms`.
pub fn seconds(value: f64) -> String {
    match value {
        0.0 => "0 s".to_owned(),
        value if value < 1e-6 => format!("{} ns", three_digits(value * 1e9)),
        value if value < 1e-3 => format!("{} µs", three_digits(value * 1e6)),
        value if value < 1.0 => format!("{} ms", three_digits(value * 1e3)),
        value if value < 1e3 => format!("{} s", three_digits(value)),
        value if value < 6e4 => format!("{} min", three_digits(value / 60.0)),
        value => format!("{} h", three_digits(value / 3600.0)),
    }
}

/// A count with groups of three: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A ratio with three digits.
pub fn ratio(value: f64) -> String {
    if value >= 1000.0 { count(value.round() as u64) } else { three_digits(value) }
}

/// A number with at least three digits.
pub fn three_digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 || value == 0.0 => format!("{value:.2}"),
        value if value >= 0.001 => format!("{value:.places$}", places = (2.0 - value.log10().floor()) as usize),
        value => format!("{value:.2e}"),
    }
}

/// A figure as its unit asks for, with a sign if it is below zero.
pub fn of_unit(unit: Unit, value: f64) -> String {
    match unit {
        _ if value < 0.0 => format!("−{}", of_unit(unit, -value)),
        Unit::Seconds => seconds(value),
        Unit::Nanoseconds => seconds(value / 1e9),
        Unit::Bytes => bytes(value.round() as u64),
        Unit::BytesPerSecond => format!("{}/s", bytes(value.round() as u64)),
        Unit::PerSecond => format!("{}/s", ratio(value)),
        Unit::Ratio if value < 10.0 => format!("{value:.3}"),
        Unit::None | Unit::Ratio | Unit::Mebibytes | Unit::Pages => ratio(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_a_unit() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(98_362_432), "93.8 MiB");
        assert_eq!(seconds(0.001_234), "1.23 ms");
        assert_eq!(seconds(0.0), "0 s");
        assert_eq!([999.0, 29_253.0, 86_400.0].map(seconds), ["999 s", "488 min", "24.0 h"]);
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(ratio(12_345.6), "12,346");
        let figures = [(Unit::Nanoseconds, 1.5e6), (Unit::Ratio, 0.5), (Unit::Bytes, 999.4), (Unit::None, 2.0)];
        assert_eq!(figures.map(|(unit, value)| of_unit(unit, value)), ["1.50 ms", "0.500", "999 B", "2.00"]);
    }
}
