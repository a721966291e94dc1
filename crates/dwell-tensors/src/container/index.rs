//! What is in a stream, without the elements.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use dwell_codec::{Codec, DType, Encoded};

use super::footer::sealed_footer;
use super::frame::BatchFrame;
use super::index_bytes::index_to_bytes;
use super::row::Row;
use crate::{TensorHead, TokenMark};

/// Where one tensor lies and what it is; texts and shapes are kept once for all ([`crate::TensorFile::head`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketEntry {
    /// Number given at hand-over; gaps are drops.
    pub packet: u64,
    /// The forward pass.
    pub step: u64,
    /// How many tokens had been recorded before it was computed.
    pub token_index: Option<u64>,
    /// When it was handed over, CLOCK_MONOTONIC.
    pub timestamp_ns: i64,
    /// Where its payload begins in the file.
    pub payload_offset: u64,
    /// Length of its payload.
    pub payload_bytes: u64,
    /// Length of its elements.
    pub raw_bytes: u64,
    /// Checksum of the payload.
    pub crc32c: u32,
    /// The layer, where the name has one.
    pub layer: Option<i32>,
    /// The type of its elements.
    pub dtype: DType,
    pub(super) name: u32,
    pub(super) shape: u32,
    pub(super) codec: u32,
    /// Place in [`Index::figures`], of lossy packets alone.
    pub(super) figures: Option<u32>,
}

/// What a lossy codec measured; all `None` for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) bound: Option<f64>,
    pub(super) max_error: Option<f64>,
    pub(super) mse: Option<f64>,
    pub(super) min_cosine: Option<f64>,
}

/// Tensors of one name that were dropped, as one row of the stream tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedRow {
    /// Name of the tensors.
    pub name: Arc<str>,
    /// Number of the last one dropped.
    pub packet: u64,
    /// How many.
    pub count: u64,
    /// Bytes of their elements.
    pub raw_bytes: u64,
    /// When the last was dropped, CLOCK_MONOTONIC.
    pub timestamp_ns: i64,
    /// Its forward pass.
    pub step: u64,
}

impl From<&DroppedRow> for Row {
    fn from(row: &DroppedRow) -> Self {
        Self::Dropped {
            name: row.name.to_string(),
            packet: row.packet,
            count: row.count,
            raw_bytes: row.raw_bytes,
            timestamp_ns: row.timestamp_ns,
            step: row.step,
        }
    }
}

/// Where one batch lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSpan {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its length, padding included.
    pub bytes: u64,
    /// Its length without the padding.
    pub used_bytes: u64,
    /// How many tensors there are up to its end.
    pub packets_end: u64,
    /// How many tokens there are up to its end.
    pub tokens_end: u64,
    pub(super) dropped_end: u64,
}

/// Everything that is in a stream, without the elements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    pub(crate) names: Vec<Arc<str>>,
    pub(super) shapes: Vec<Arc<[u64]>>,
    pub(crate) codecs: Vec<Codec>,
    pub(super) figures: Vec<Figures>,
    pub(crate) packets: Vec<PacketEntry>,
    pub(crate) tokens: Vec<TokenMark>,
    pub(crate) dropped: Vec<DroppedRow>,
    pub(crate) batches: Vec<BatchSpan>,
}

impl Index {
    /// The name of an entry.
    pub(crate) fn name(&self, entry: &PacketEntry) -> &str {
        self.names.get(entry.name as usize).map_or("", |name| name)
    }

    /// Place of an entry's name in `names`.
    pub(crate) fn name_place(entry: &PacketEntry) -> usize {
        entry.name as usize
    }

    /// The dimensions of an entry.
    pub(crate) fn shape(&self, entry: &PacketEntry) -> &[u64] {
        self.shapes.get(entry.shape as usize).map_or(&[], |shape| shape)
    }

    /// How the elements of an entry are stored.
    pub(crate) fn encoded(&self, entry: &PacketEntry) -> Encoded {
        let codec = self.codecs.get(entry.codec as usize).copied().unwrap_or(Codec::None);
        let figures = entry.figures.and_then(|place| self.figures.get(place as usize)).copied().unwrap_or_default();
        let Figures { bound, max_error, mse, min_cosine } = figures;
        Encoded { codec, bound, max_error, mse, min_cosine }
    }

    /// What the producer of an entry said about it.
    pub(crate) fn head(&self, entry: &PacketEntry) -> TensorHead {
        TensorHead {
            name: self.name(entry).to_owned(),
            layer: entry.layer,
            step: entry.step,
            token_index: entry.token_index,
            timestamp_ns: entry.timestamp_ns,
            dtype: entry.dtype,
            shape: self.shape(entry).to_vec(),
        }
    }

    /// Where the last batch ends; `None` before the first.
    pub(crate) fn end(&self) -> Option<u64> {
        self.batches.last().map(|span| span.offset + span.bytes)
    }

    /// Forgets all batches but the first so many.
    pub(crate) fn keep_batches(&mut self, count: usize) {
        self.batches.truncate(count);
        let ends = self.batches.last().map(|span| (span.packets_end, span.tokens_end, span.dropped_end));
        let (packets, tokens, dropped) = ends.unwrap_or_default();
        self.packets.truncate(packets as usize);
        self.tokens.truncate(tokens as usize);
        self.dropped.truncate(dropped as usize);
        self.forget_unused();
    }

    /// Lists grow in the order of first use, so what is used is their beginning.
    fn forget_unused(&mut self) {
        let used = |place: fn(&PacketEntry) -> Option<u32>| {
            self.packets.iter().filter_map(place).max().map_or(0, |last| last as usize + 1)
        };
        let shapes = used(|entry| Some(entry.shape));
        let codecs = used(|entry| Some(entry.codec));
        let figures = used(|entry| entry.figures);
        let places: HashMap<&str, usize> = self.names.iter().map(AsRef::as_ref).zip(1..).collect();
        let dropped_names = self.dropped.iter().filter_map(|row| places.get(row.name.as_ref())).max().copied();
        let names = used(|entry| Some(entry.name)).max(dropped_names.unwrap_or(0));
        self.names.truncate(names);
        self.shapes.truncate(shapes);
        self.codecs.truncate(codecs);
        self.figures.truncate(figures);
    }

    /// How many packets were dropped, as the stream tells.
    pub(crate) fn dropped_packets(&self) -> u64 {
        self.dropped.iter().fold(0, |sum, row| sum.saturating_add(row.count))
    }

    /// How many packet numbers up to the highest one no tensor has, and how many tensors have the number of another.
    pub(crate) fn missing_and_repeated_packets(&self) -> (u64, u64) {
        let mut numbers: Vec<u64> = self.packets.iter().map(|entry| entry.packet).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let last = numbers.last().copied().max(self.dropped.iter().map(|row| row.packet).max());
        let handed_over = last.map_or(0, |last| last.saturating_add(1));
        let repeated = self.packets.len() - numbers.len();
        (handed_over.saturating_sub(numbers.len() as u64), repeated as u64)
    }

    /// Whether two files hold the same, told by their indices.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        // As bytes, because a measured error may be NaN.
        index_to_bytes(self) == index_to_bytes(other)
    }
}

/// An [`Index`] that grows as batches are written or scanned.
#[derive(Default)]
pub(crate) struct IndexBuilder {
    index: Index,
    names: HashMap<Arc<str>, u32>,
    shapes: HashMap<Arc<[u64]>, u32>,
}

impl IndexBuilder {
    /// Takes in a batch that begins at `batch_offset` of the file.
    pub(crate) fn add(&mut self, rows: &[Row], batch_offset: u64, frame: &BatchFrame) {
        self.add_span(rows, batch_offset, frame.head.len() as u64, frame.bytes());
    }

    /// The same of a batch of which only the lengths are known: of what is before the payloads, and of all.
    pub(super) fn add_span(&mut self, rows: &[Row], offset: u64, head_bytes: u64, bytes: u64) {
        let mut payload_offset = offset + head_bytes;
        for row in rows {
            self.add_row(row, payload_offset);
            payload_offset += row.payload_bytes();
        }
        self.index.batches.push(BatchSpan {
            offset,
            bytes,
            used_bytes: payload_offset - offset,
            packets_end: self.index.packets.len() as u64,
            tokens_end: self.index.tokens.len() as u64,
            dropped_end: self.index.dropped.len() as u64,
        });
    }

    /// What there is so far.
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Gives the index away.
    pub(crate) fn into_index(self) -> Index {
        self.index
    }

    /// What ends the file: the end-of-stream marker, the index and the trailer, padded to pages.
    pub(crate) fn finish(&self) -> Vec<u8> {
        sealed_footer(&self.index)
    }

    fn add_row(&mut self, row: &Row, payload_offset: u64) {
        match row {
            Row::Tensor { packet, head, encoded, crc32c, payload_bytes } => {
                let entry = PacketEntry {
                    packet: *packet,
                    step: head.step,
                    token_index: head.token_index,
                    timestamp_ns: head.timestamp_ns,
                    payload_offset,
                    payload_bytes: *payload_bytes,
                    raw_bytes: row.raw_bytes(),
                    crc32c: *crc32c,
                    layer: head.layer,
                    dtype: head.dtype,
                    name: intern(&mut self.names, &mut self.index.names, head.name.as_str()),
                    shape: intern(&mut self.shapes, &mut self.index.shapes, head.shape.as_slice()),
                    codec: self.codec_place(encoded.codec),
                    figures: self.figures_place(encoded),
                };
                self.index.packets.push(entry);
            }
            Row::Token(mark) => self.index.tokens.push(mark.clone()),
            Row::Dropped { name, packet, count, raw_bytes, timestamp_ns, step } => {
                let place = intern(&mut self.names, &mut self.index.names, name.as_str());
                self.index.dropped.push(DroppedRow {
                    name: self.index.names[place as usize].clone(),
                    packet: *packet,
                    count: *count,
                    raw_bytes: *raw_bytes,
                    timestamp_ns: *timestamp_ns,
                    step: *step,
                });
            }
        }
    }

    /// A stream has a handful of codecs, so they are looked through.
    fn codec_place(&mut self, codec: Codec) -> u32 {
        let known = self.index.codecs.iter().position(|known| *known == codec);
        known.unwrap_or_else(|| {
            self.index.codecs.push(codec);
            self.index.codecs.len() - 1
        }) as u32
    }

    fn figures_place(&mut self, encoded: &Encoded) -> Option<u32> {
        let Encoded { bound, max_error, mse, min_cosine, .. } = *encoded;
        let figures = Figures { bound, max_error, mse, min_cosine };
        if figures == Figures::default() {
            return None;
        }
        self.index.figures.push(figures);
        Some(self.index.figures.len() as u32 - 1)
    }
}

impl From<Index> for IndexBuilder {
    fn from(index: Index) -> Self {
        let names = index.names.iter().cloned().zip(0..).collect();
        let shapes = index.shapes.iter().cloned().zip(0..).collect();
        Self { index, names, shapes }
    }
}

/// The place of a value in a list that holds each value once.
fn intern<T: ?Sized + Hash + Eq>(places: &mut HashMap<Arc<T>, u32>, values: &mut Vec<Arc<T>>, value: &T) -> u32
where
    for<'a> Arc<T>: From<&'a T>,
{
    if let Some(&place) = places.get(value) {
        return place;
    }
    let place = values.len() as u32;
    let value: Arc<T> = Arc::from(value);
    values.push(value.clone());
    places.insert(value, place);
    place
}
