//! Which codec, as a value and as text.

use std::fmt;
use std::str::FromStr;

use dwell_events::Hint;

/// How the elements of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Codec {
    /// As they are.
    None,
    /// LZ4, for data with repetitions; activations have none.
    Lz4,
    /// Zstandard.
    Zstd {
        /// 1 (fast) to 19 (small).
        level: i32,
    },
    /// Lossless for floats: exponents apart from mantissas, each part coded by its own statistics.
    Float,
    /// Lossy within a bound that is checked while encoding; what cannot be held to it is kept exactly.
    Bounded(Bound),
}

/// What a lossy codec promises. A vector is one row of a tensor's last dimension. NaN, infinities and, under a bound
/// that is a part of something, the outliers of a vector come back as they were.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// No value is further off than this.
    Absolute(f64),
    /// No value is further off than this part of its vector's range, largest minus smallest value.
    Range(f64),
    /// The mean of a tensor's squared errors is at most this.
    Mse(f64),
    /// The mean of a vector's squared errors is at most this part of its variance.
    RelativeMse(f64),
}

impl Codec {
    /// The level of `zstd` when none is given.
    pub const DEFAULT_ZSTD_LEVEL: i32 = 3;
    /// The levels that `zstd` takes.
    pub const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = 1..=19;

    /// Whether every tensor comes back bit for bit.
    pub fn is_lossless(self) -> bool {
        !matches!(self, Self::Bounded(_))
    }
}

impl Bound {
    /// The bound's kind in text, and its figure.
    fn parts(self) -> (&'static str, f64) {
        match self {
            Self::Absolute(limit) => ("abs", limit),
            Self::Range(part) => ("range", part),
            Self::Mse(limit) => ("mse", limit),
            Self::RelativeMse(part) => ("nmse", part),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, figure) = self.parts();
        write!(out, "{kind}:{figure:e}")
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("none"),
            Self::Lz4 => out.write_str("lz4"),
            Self::Zstd { level } => write!(out, "zstd:{level}"),
            Self::Float => out.write_str("float"),
            Self::Bounded(bound) => write!(out, "bounded:{bound}"),
        }
    }
}

/// A text that names no codec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the codec {text:?}: {reason}")]
pub struct UnknownCodec {
    /// What was asked for.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Hint for UnknownCodec {
    fn hints(&self) -> Vec<String> {
        vec![
            "lossless: none, lz4, zstd, zstd:1 to zstd:19, float".to_owned(),
            "lossy: bounded:abs:X, bounded:range:X, bounded:mse:X, bounded:nmse:X, as in bounded:range:1e-3".to_owned(),
        ]
    }
}

impl FromStr for Codec {
    type Err = UnknownCodec;

    fn from_str(text: &str) -> Result<Self, UnknownCodec> {
        let unfit = |reason: String| UnknownCodec { text: text.to_owned(), reason };
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        match (name, rest) {
            ("none", None) => Ok(Self::None),
            ("lz4", None) => Ok(Self::Lz4),
            ("float", None) => Ok(Self::Float),
            ("zstd", None) => Ok(Self::Zstd { level: Self::DEFAULT_ZSTD_LEVEL }),
            ("zstd", Some(level)) => parse_level(level).map_err(unfit),
            ("bounded", Some(bound)) => parse_bound(bound).map(Self::Bounded).map_err(unfit),
            ("bounded", None) => Err(unfit("needs a bound".to_owned())),
            ("none" | "lz4" | "float", Some(_)) => Err(unfit(format!("{name} takes no setting"))),
            _ => Err(unfit("no such codec".to_owned())),
        }
    }
}

fn parse_level(text: &str) -> Result<Codec, String> {
    let level = text.parse().ok().filter(|level| Codec::ZSTD_LEVELS.contains(level));
    level.map(|level| Codec::Zstd { level }).ok_or_else(|| format!("{text:?} is not a level from 1 to 19"))
}

fn parse_bound(text: &str) -> Result<Bound, String> {
    let (kind, figure) = text.split_once(':').ok_or("needs a kind of bound and a figure")?;
    let figure: f64 = figure.parse().map_err(|_| format!("{figure:?} is not a number"))?;
    if !(figure.is_finite() && figure > 0.0) {
        return Err(format!("a bound of {figure} cannot be held; it must be above 0"));
    }
    match kind {
        "abs" => Ok(Bound::Absolute(figure)),
        "range" => Ok(Bound::Range(figure)),
        "mse" => Ok(Bound::Mse(figure)),
        "nmse" => Ok(Bound::RelativeMse(figure)),
        _ => Err(format!("no bound of kind {kind:?}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn text_and_value_are_the_same() {
        for text in ["none", "lz4", "zstd:1", "zstd:19", "float", "bounded:abs:1e-3", "bounded:nmse:2.5e-1"] {
            assert_eq!(text.parse::<Codec>().unwrap().to_string(), text);
        }
        assert_eq!("zstd".parse(), Ok(Codec::Zstd { level: Codec::DEFAULT_ZSTD_LEVEL }));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let texts = ["", "zip", "zstd:0", "zstd:x", "float:1", "bounded", "bounded:abs", "bounded:abs:0"];
        for text in texts.into_iter().chain(["bounded:abs:-1", "bounded:abs:nan", "bounded:rel:1"]) {
            assert!(text.parse::<Codec>().is_err(), "{text}");
        }
    }
}
