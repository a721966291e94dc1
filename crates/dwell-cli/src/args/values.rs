//! Values that several commands take.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// A value of the vocabulary, by its name.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(
    names: &'static [&'static str],
    from_name: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names).try_map(move |name| from_name(&name).ok_or("it is not known"))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self == Switch::On
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AutoSwitch {
    Auto,
    On,
    Off,
}

/// A number of bytes: `512MiB`, `2GB`, `1048576`.
pub(crate) fn byte_count(text: &str) -> Result<u64, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| "a number is needed, as in 2GiB".to_owned())?;
    let unit_bytes = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1_048_576.0,
        "g" | "gib" => 1_073_741_824.0,
        "t" | "tib" => 1_099_511_627_776.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(format!("{unit:?} is no unit; KiB, MiB, GiB, kB, MB, GB are some")),
    };
    let bytes = number * unit_bytes;
    if bytes >= 1.0 && bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err("it must be above 0".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        assert_eq!(byte_count("512MiB"), Ok(512 << 20));
        assert_eq!(byte_count("1.5 GiB"), Ok(3 << 29));
        assert_eq!(byte_count("2GB"), Ok(2_000_000_000));
        assert_eq!(byte_count("4096"), Ok(4096));
        for text in ["", "GiB", "0", "2 pounds", "-1", "1e400"] {
            assert!(byte_count(text).is_err(), "{text}");
        }
    }
}
