//! The metrics, one file each: what the figures are, and how either definitions obtain them.

pub mod inter_access_interval;
pub mod locality;
pub mod read_frequency;
pub mod retention;
pub mod suitability;
pub mod working_set;
pub mod write_once;

/// Nanoseconds in a second.
pub(crate) const NS_PER_S: f64 = 1e9;

/// The share, or none of nothing.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Unweighted mean; none of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}
