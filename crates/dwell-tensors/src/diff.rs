//! Whether two streams hold the same tensors. When they came, and how they are stored, does not matter.

use std::collections::HashMap;

use serde::Serialize;

use crate::elements::for_each_number;
use crate::{PacketEntry, TensorFile, TensorsError};

/// Which tensor of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct TensorKey {
    /// Its name.
    pub name: String,
    /// Its forward pass.
    pub step: u64,
    /// How many tokens had been recorded before it.
    pub token_index: Option<u64>,
    /// 0 for the first tensor of that name, step and token, 1 for the next.
    pub occurrence: u64,
}

/// How one tensor differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorDiff {
    /// Which tensor.
    #[serde(flatten)]
    pub key: TensorKey,
    /// Another type or shape, in words; `None` if it is the elements that differ.
    pub reason: Option<String>,
    /// Largest difference of two elements; infinite where only one of them is a number.
    pub max_abs_diff: Option<f64>,
    /// Mean of the squared differences.
    pub mse: Option<f64>,
}

/// What [`diff`] found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DiffReport {
    /// Tensors in both streams.
    pub compared: u64,
    /// Those that are equal bit by bit.
    pub equal: u64,
    /// Those that differ by no more than the tolerance.
    pub within_tolerance: u64,
    /// Largest difference of two elements of tensors that were compared.
    pub max_abs_diff: f64,
    /// Those that differ by more.
    pub different: Vec<TensorDiff>,
    /// Tensors that the second stream lacks.
    pub only_in_first: Vec<TensorKey>,
    /// Tensors that the first stream lacks.
    pub only_in_second: Vec<TensorKey>,
}

impl DiffReport {
    /// Whether both streams hold the same tensors, within the tolerance.
    pub fn is_same(&self) -> bool {
        self.different.is_empty() && self.only_in_first.is_empty() && self.only_in_second.is_empty()
    }
}

/// Compares two streams. Elements may differ by `tolerance`.
pub fn diff(first: &TensorFile, second: &TensorFile, tolerance: f64) -> Result<DiffReport, TensorsError> {
    let mut report = DiffReport::default();
    let mut left: HashMap<TensorKey, usize> = keys(second).into_iter().zip(0..).collect();
    for (place, key) in keys(first).into_iter().enumerate() {
        let Some(other) = left.remove(&key) else {
            report.only_in_first.push(key);
            continue;
        };
        report.compared += 1;
        compare((first, place), (second, other), key, tolerance, &mut report)?;
    }
    let mut missing: Vec<_> = left.into_iter().collect();
    missing.sort_by_key(|(_, place)| *place);
    report.only_in_second = missing.into_iter().map(|(key, _)| key).collect();
    Ok(report)
}

fn keys(file: &TensorFile) -> Vec<TensorKey> {
    let mut seen: HashMap<(usize, u64, Option<u64>), u64> = HashMap::new();
    let key = |entry: &PacketEntry| {
        let occurrence = seen.entry((file.name_place(entry), entry.step, entry.token_index)).or_default();
        *occurrence += 1;
        TensorKey {
            name: file.name(entry).to_owned(),
            step: entry.step,
            token_index: entry.token_index,
            occurrence: *occurrence - 1,
        }
    };
    file.packets().iter().map(key).collect()
}

fn compare(
    (first, place): (&TensorFile, usize),
    (second, other_place): (&TensorFile, usize),
    key: TensorKey,
    tolerance: f64,
    report: &mut DiffReport,
) -> Result<(), TensorsError> {
    let (entry, other) = (&first.packets()[place], &second.packets()[other_place]);
    if entry.dtype != other.dtype || first.shape(entry) != second.shape(other) {
        let (shape, other_shape) = (first.shape(entry), second.shape(other));
        let reason = format!("{} {shape:?} in the first, {} {other_shape:?} in the second", entry.dtype, other.dtype);
        report.different.push(TensorDiff { key, reason: Some(reason), max_abs_diff: None, mse: None });
        return Ok(());
    }
    let (elements, other_elements) = (first.read_elements(place)?, second.read_elements(other_place)?);
    if elements == other_elements {
        report.equal += 1;
        return Ok(());
    }
    let (max_abs_diff, mse) = distance(entry, &elements, &other_elements);
    report.max_abs_diff = report.max_abs_diff.max(max_abs_diff);
    if max_abs_diff <= tolerance && tolerance > 0.0 {
        report.within_tolerance += 1;
    } else {
        let (max_abs_diff, mse) = (Some(max_abs_diff), Some(mse));
        report.different.push(TensorDiff { key, reason: None, max_abs_diff, mse });
    }
    Ok(())
}

/// Largest difference, and mean of the squares of all.
fn distance(entry: &PacketEntry, elements: &[u8], other_elements: &[u8]) -> (f64, f64) {
    let mut others = Vec::with_capacity(elements.len() / entry.dtype.size_bytes());
    for_each_number(entry.dtype, other_elements, |number| others.push(number));
    let (mut largest, mut squares) = (0_f64, 0_f64);
    let mut place = 0;
    for_each_number(entry.dtype, elements, |number| {
        let other = others[place];
        place += 1;
        let difference =
            if number == other || (number.is_nan() && other.is_nan()) { 0.0 } else { (number - other).abs() };
        let difference = if difference.is_nan() { f64::INFINITY } else { difference };
        largest = largest.max(difference);
        squares += difference * difference;
    });
    (largest, squares / others.len() as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use dwell_codec::{Codec, DType};

    use super::*;
    use crate::testing::{at, floats, stream_bytes, tensor};

    fn stream(codec: Codec, values: &[&[f32]]) -> (tempfile::TempDir, TensorFile) {
        let dir = tempfile::tempdir().unwrap();
        let batch = values.iter().zip(0..);
        let batch = batch
            .map(|(values, packet)| tensor(packet, "x", codec, DType::F32, &[values.len() as u64], &floats(values)));
        let file = TensorFile::open(&at(&dir, &stream_bytes(&[batch.collect()]).0)).unwrap();
        (dir, file)
    }

    #[test]
    fn codecs_do_not_matter() {
        let values: &[&[f32]] = &[&[0.0; 100], &[1.0, 2.0]];
        let report = diff(&stream(Codec::None, values).1, &stream(Codec::Zstd { level: 3 }, values).1, 0.0).unwrap();
        assert!(report.is_same());
        assert_eq!((report.compared, report.equal), (2, 2));
    }

    #[test]
    fn differences_are_measured_and_tolerated_if_asked_for() {
        let (_a, first) = stream(Codec::None, &[&[1.0, 2.0, f32::NAN, f32::INFINITY], &[1.0]]);
        let (_b, second) = stream(Codec::None, &[&[1.0, 2.5, f32::NAN, f32::INFINITY], &[1.0]]);
        let report = diff(&first, &second, 0.0).unwrap();
        assert_eq!((report.equal, report.different.len(), report.max_abs_diff), (1, 1, 0.5));
        assert_eq!((report.different[0].max_abs_diff, report.different[0].mse), (Some(0.5), Some(0.0625)));
        let tolerant = diff(&first, &second, 0.5).unwrap();
        assert!(tolerant.is_same() && tolerant.within_tolerance == 1);
    }

    #[test]
    fn what_only_one_has_and_what_has_another_shape_is_different() {
        let (_a, first) = stream(Codec::None, &[&[1.0], &[1.0, 2.0], &[3.0]]);
        let (_b, second) = stream(Codec::None, &[&[1.0], &[1.0]]);
        let report = diff(&first, &second, 1e9).unwrap();
        assert_eq!((report.compared, report.equal, report.only_in_first.len()), (2, 1, 1));
        assert_eq!(report.only_in_first[0].occurrence, 1);
        assert!(report.different[0].reason.as_ref().unwrap().contains("float32 [2] in the first"));
        assert_eq!(diff(&second, &first, 1e9).unwrap().only_in_second.len(), 1);
    }

    #[test]
    fn a_number_against_none_is_infinitely_far() {
        let (_a, first) = stream(Codec::None, &[&[f32::NAN]]);
        let (_b, second) = stream(Codec::None, &[&[0.0]]);
        assert_eq!(diff(&first, &second, 1e9).unwrap().different[0].max_abs_diff, Some(f64::INFINITY));
    }
}
