//! What codecs made of the tensors of a stream, and what they lost.

use serde::Serialize;

use crate::container::{Index, PacketEntry};

/// What codecs made of the tensors of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stored {
    /// Bytes of the elements of all tensors.
    pub raw_bytes: u64,
    /// Bytes of them as they are stored.
    pub stored_bytes: u64,
    /// What was lost; `None` if every tensor comes back bit for bit.
    pub codec_loss: Option<CodecLoss>,
}

/// What lossy codecs lost, measured while they encoded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CodecLoss {
    /// The codecs. Empty if a lossless one has stored what had lost something before.
    pub codecs: Vec<String>,
    /// Tensors that are not stored exactly.
    pub packets: u64,
    /// The largest error of any element, and where.
    pub max_error: Option<WorstTensor>,
    /// The smallest cosine between a vector, one row of a tensor's last dimension, and what is stored of it, and where.
    /// `None` in streams of versions that did not measure it.
    pub min_cosine: Option<WorstTensor>,
}

/// The tensor in which a figure is worst.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorstTensor {
    /// The figure.
    pub value: f64,
    /// Name of the tensor.
    pub name: String,
    /// Its forward pass.
    pub step: u64,
    /// Its number.
    pub packet: u64,
}

impl Stored {
    /// Bytes of elements for each stored one; `None` if nothing is stored.
    pub fn ratio(&self) -> Option<f64> {
        (self.stored_bytes > 0).then(|| self.raw_bytes as f64 / self.stored_bytes as f64)
    }

    /// From what is known of each tensor.
    pub(crate) fn of(index: &Index) -> Self {
        let sum = |bytes_of: fn(&PacketEntry) -> u64| {
            index.packets.iter().fold(0_u64, |sum, entry| sum.saturating_add(bytes_of(entry)))
        };
        let (raw_bytes, stored_bytes) = (sum(|entry| entry.raw_bytes), sum(|entry| entry.payload_bytes));
        Self { raw_bytes, stored_bytes, codec_loss: codec_loss(index) }
    }
}

fn codec_loss(index: &Index) -> Option<CodecLoss> {
    let mut loss = CodecLoss::default();
    let (mut max_error, mut min_cosine) = (Worst::default(), Worst::default());
    for entry in &index.packets {
        let encoded = index.encoded(entry);
        if encoded.codec.is_lossless() && encoded.max_error.is_none() {
            continue;
        }
        loss.packets += 1;
        max_error.add(entry, encoded.max_error, |found, worst| found > worst);
        min_cosine.add(entry, encoded.min_cosine, |found, worst| found < worst);
    }
    if loss.packets == 0 {
        return None;
    }
    loss.codecs = index.codecs.iter().filter(|codec| !codec.is_lossless()).map(ToString::to_string).collect();
    (loss.max_error, loss.min_cosine) = (max_error.named(index), min_cosine.named(index));
    Some(loss)
}

/// The worst figure so far.
#[derive(Default)]
struct Worst<'a>(Option<(f64, &'a PacketEntry)>);

impl<'a> Worst<'a> {
    fn add(&mut self, entry: &'a PacketEntry, figure: Option<f64>, is_worse: fn(f64, f64) -> bool) {
        if let Some(figure) = figure
            && self.0.is_none_or(|(worst, _)| is_worse(figure, worst))
        {
            self.0 = Some((figure, entry));
        }
    }

    fn named(&self, index: &Index) -> Option<WorstTensor> {
        self.0.map(|(value, entry)| WorstTensor {
            value,
            name: index.name(entry).to_owned(),
            step: entry.step,
            packet: entry.packet,
        })
    }
}
