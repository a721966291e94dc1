//! What a stream holds, name by name.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{CodecLoss, Stored, TensorFile};

/// Figures of the tensors of one name, or of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NameStats {
    /// The name; empty for all together.
    pub name: String,
    /// How many tensors.
    pub packets: u64,
    /// How many more were dropped.
    pub dropped_packets: u64,
    /// Bytes of their elements.
    pub raw_bytes: u64,
    /// Bytes of them as they are stored.
    pub stored_bytes: u64,
    /// Types of their elements.
    pub dtypes: BTreeSet<String>,
    /// How they are stored.
    pub codecs: BTreeSet<String>,
    /// Largest error of any element; `None` if every tensor is stored exactly.
    pub max_error: Option<f64>,
    /// Mean of the squared errors of all elements; `None` if every tensor is stored exactly.
    pub mse: Option<f64>,
    /// Smallest cosine between a vector, one row of a tensor's last dimension, and what is stored of it; `None` if every
    /// tensor is stored exactly, or was stored by a version that did not measure it.
    pub min_cosine: Option<f64>,
    /// The first forward pass.
    pub min_step: Option<u64>,
    /// The last forward pass.
    pub max_step: Option<u64>,
    #[serde(skip)]
    elements: f64,
    #[serde(skip)]
    squared_errors: f64,
}

impl NameStats {
    /// Bytes of elements for each stored one; `None` if nothing is stored.
    pub fn ratio(&self) -> Option<f64> {
        (self.stored_bytes > 0).then(|| self.raw_bytes as f64 / self.stored_bytes as f64)
    }
}

/// Figures of a whole stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamStats {
    /// All tensors.
    pub total: NameStats,
    /// Those of each name, in the order in which the names first came.
    pub names: Vec<NameStats>,
    /// What lossy codecs lost, and where most; `None` if every tensor is stored exactly.
    pub codec_loss: Option<CodecLoss>,
}

/// The figures of a stream. Elements are not read: errors are those measured when they were encoded.
pub fn stats(file: &TensorFile) -> StreamStats {
    let mut total = NameStats::default();
    let names = file.names().into_iter();
    let mut names: Vec<_> = names.map(|name| NameStats { name: name.to_owned(), ..NameStats::default() }).collect();
    for entry in file.packets() {
        let encoded = file.encoded(entry);
        let codec = encoded.codec.to_string();
        for stats in [&mut total, &mut names[file.name_place(entry)]] {
            stats.packets += 1;
            stats.raw_bytes = stats.raw_bytes.saturating_add(entry.raw_bytes);
            stats.stored_bytes = stats.stored_bytes.saturating_add(entry.payload_bytes);
            stats.min_step = Some(stats.min_step.map_or(entry.step, |step| step.min(entry.step)));
            stats.max_step = Some(stats.max_step.map_or(entry.step, |step| step.max(entry.step)));
            let elements = entry.raw_bytes as f64 / entry.dtype.size_bytes() as f64;
            stats.elements += elements;
            stats.squared_errors += encoded.mse.map_or(0.0, |mse| mse * elements);
            stats.max_error = joined(stats.max_error, encoded.max_error, f64::max);
            stats.min_cosine = joined(stats.min_cosine, encoded.min_cosine, f64::min);
            // Sets are looked up before they are added to, because most texts are there already.
            if !stats.codecs.contains(&codec) {
                stats.codecs.insert(codec.clone());
            }
            if !stats.dtypes.contains(entry.dtype.name()) {
                stats.dtypes.insert(entry.dtype.name().to_owned());
            }
        }
    }
    let dropped = file.dropped();
    for stats in &mut names {
        stats.dropped_packets = dropped.get(&stats.name).map_or(0, |(packets, _)| *packets);
    }
    total.dropped_packets = file.index().dropped_packets();
    for stats in names.iter_mut().chain([&mut total]) {
        let has_errors = stats.max_error.is_some() && stats.elements > 0.0;
        stats.mse = has_errors.then(|| stats.squared_errors / stats.elements);
    }
    StreamStats { total, names, codec_loss: Stored::of(file.index()).codec_loss }
}

fn joined(one: Option<f64>, other: Option<f64>, join: fn(f64, f64) -> f64) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(join(one, other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use dwell_codec::{Bound, Codec, DType};

    use super::*;
    use crate::WorstTensor;
    use crate::container::Row;
    use crate::testing::{at, dropped, stream_bytes, tensor};

    #[test]
    fn errors_are_weighted_by_elements_and_the_worst_tensor_is_named() {
        let mut batch = vec![
            tensor(0, "a", Codec::None, DType::F32, &[2], &[0; 8]),
            tensor(1, "a", Codec::None, DType::F32, &[6], &[0; 24]),
            tensor(2, "b", Codec::None, DType::U8, &[4], &[0; 4]),
            dropped("b", 3),
        ];
        for ((row, _), (max_error, mse)) in batch.iter_mut().zip([(0.5, 0.04), (0.25, 0.0)]) {
            let Row::Tensor { encoded, .. } = row else { panic!() };
            encoded.codec = Codec::Bounded(Bound::Absolute(0.5));
            (encoded.max_error, encoded.mse) = (Some(max_error), Some(mse));
            encoded.min_cosine = Some(1.0 - max_error);
        }
        let dir = tempfile::tempdir().unwrap();
        let file = TensorFile::open(&at(&dir, &stream_bytes(&[batch]).0)).unwrap();
        let StreamStats { total, names, codec_loss } = stats(&file);
        assert_eq!((names[0].max_error, names[0].mse), (Some(0.5), Some(0.01)));
        assert_eq!((names[1].max_error, names[1].mse, names[1].dropped_packets), (None, None, 3));
        assert_eq!((total.packets, total.raw_bytes, total.dropped_packets), (3, 36, 3));
        assert_eq!(total.codecs.len(), 2);
        assert_eq!((names[0].min_cosine, names[1].min_cosine, total.min_cosine), (Some(0.5), None, Some(0.5)));
        let loss = codec_loss.unwrap();
        assert_eq!((loss.codecs, loss.packets), (vec!["bounded:abs:5e-1".to_owned()], 2));
        let worst = |value| Some(WorstTensor { value, name: "a".to_owned(), step: 0, packet: 0 });
        assert_eq!((loss.max_error, loss.min_cosine), (worst(0.5), worst(0.5)));
    }
}
