//! The index as bytes: lists of texts and shapes, then one column after the other, all little-endian.

use std::collections::HashMap;
use std::sync::Arc;

use dwell_codec::{Codec, DType};

use super::index::{BatchSpan, DroppedRow, Figures, Index, PacketEntry};
use super::{MAX_DIMENSIONS, MAX_TEXT_BYTES};
use crate::TokenMark;
use crate::head::raw_bytes_of;

/// Stands for a figure that was not measured; as a number it would be NaN.
const NO_FIGURE: u64 = u64::MAX;
/// Which of a tensor's cells have a value: bits of a column of their own, because every number could be one.
const HAS_TOKEN_INDEX: u8 = 1;
const HAS_LAYER: u8 = 2;
const HAS_FIGURES: u8 = 4;

/// The index of a stream as bytes.
pub(super) fn index_to_bytes(index: &Index) -> Vec<u8> {
    let mut out = Out(Vec::new());
    out.texts(index.names.iter().map(|name| name.as_ref()));
    out.u64(index.shapes.len() as u64);
    for shape in &index.shapes {
        out.u64(shape.len() as u64);
        shape.iter().for_each(|&length| out.u64(length));
    }
    let codecs: Vec<_> = index.codecs.iter().map(Codec::to_string).collect();
    out.texts(codecs.iter().map(String::as_str));
    put_figures(&mut out, &index.figures);
    put_packets(&mut out, &index.packets);
    put_tokens(&mut out, &index.tokens);
    put_dropped(&mut out, index);
    put_batches(&mut out, &index.batches);
    out.0
}

fn put_figures(out: &mut Out, figures: &[Figures]) {
    out.u64(figures.len() as u64);
    for figures in figures {
        for value in [figures.bound, figures.max_error, figures.mse, figures.min_cosine] {
            out.u64(value.map_or(NO_FIGURE, f64::to_bits));
        }
    }
}

fn put_packets(out: &mut Out, packets: &[PacketEntry]) {
    out.u64(packets.len() as u64);
    packets.iter().for_each(|entry| out.u64(entry.packet));
    packets.iter().for_each(|entry| out.u64(entry.step));
    packets.iter().for_each(|entry| out.u64(entry.token_index.unwrap_or(0)));
    packets.iter().for_each(|entry| out.u64(entry.timestamp_ns as u64));
    packets.iter().for_each(|entry| out.u64(entry.payload_offset));
    packets.iter().for_each(|entry| out.u64(entry.payload_bytes));
    packets.iter().for_each(|entry| out.u64(entry.raw_bytes));
    packets.iter().for_each(|entry| out.u32(entry.crc32c));
    packets.iter().for_each(|entry| out.u32(entry.layer.unwrap_or(0) as u32));
    packets.iter().for_each(|entry| out.u32(entry.name));
    packets.iter().for_each(|entry| out.u32(entry.shape));
    packets.iter().for_each(|entry| out.u32(entry.codec));
    packets.iter().for_each(|entry| out.u32(entry.figures.unwrap_or(0)));
    packets.iter().for_each(|entry| out.0.push(dtype_number(entry.dtype)));
    packets.iter().for_each(|entry| out.0.push(cells_of(entry)));
}

fn cells_of(entry: &PacketEntry) -> u8 {
    let bit = |has: bool, bit: u8| if has { bit } else { 0 };
    bit(entry.token_index.is_some(), HAS_TOKEN_INDEX)
        | bit(entry.layer.is_some(), HAS_LAYER)
        | bit(entry.figures.is_some(), HAS_FIGURES)
}

fn put_tokens(out: &mut Out, tokens: &[TokenMark]) {
    out.texts(tokens.iter().map(|mark| mark.token_text.as_str()));
    for mark in tokens {
        out.u64(mark.token_index);
        out.u64(mark.token_id as u64);
        out.u64(mark.packet);
        out.u64(mark.timestamp_ns as u64);
    }
}

fn put_dropped(out: &mut Out, index: &Index) {
    let places: HashMap<&str, u64> = index.names.iter().map(AsRef::as_ref).zip(0..).collect();
    out.u64(index.dropped.len() as u64);
    for row in &index.dropped {
        let name = places.get(row.name.as_ref()).copied().unwrap_or(u64::MAX);
        for number in [name, row.packet, row.count, row.raw_bytes, row.timestamp_ns as u64, row.step] {
            out.u64(number);
        }
    }
}

fn put_batches(out: &mut Out, batches: &[BatchSpan]) {
    out.u64(batches.len() as u64);
    for span in batches {
        for number in [span.offset, span.bytes, span.used_bytes, span.packets_end, span.tokens_end, span.dropped_end] {
            out.u64(number);
        }
    }
}

fn dtype_number(dtype: DType) -> u8 {
    DType::ALL.iter().position(|known| *known == dtype).map_or(u8::MAX, |place| place as u8)
}

/// The index that these bytes are; `None` if they are none, or point outside of the first `data_bytes` of the file. In
/// the first version of the index, figures are without cosines.
pub(super) fn index_from_bytes(bytes: &[u8], data_bytes: u64, has_cosines: bool) -> Option<Index> {
    let mut from = In(bytes);
    let names: Vec<Arc<str>> = from.texts()?.into_iter().map(Arc::from).collect();
    let shapes = (0..from.count(8)?).map(|_| from.shape()).collect::<Option<_>>()?;
    let codecs = from.texts()?.into_iter().map(|text| text.parse().ok()).collect::<Option<_>>()?;
    let figures = take_figures(&mut from, has_cosines)?;
    let packets = take_packets(&mut from)?;
    let tokens = take_tokens(&mut from)?;
    let dropped = take_dropped(&mut from, &names)?;
    let batches = take_batches(&mut from)?;
    let index = Index { names, shapes, codecs, figures, packets, tokens, dropped, batches };
    (from.0.is_empty() && is_consistent(&index, data_bytes)).then_some(index)
}

/// Whether every place in the index is one of its lists, and every byte range inside the batches.
fn is_consistent(index: &Index, data_bytes: u64) -> bool {
    let is_inside = |offset: u64, bytes: u64| offset.checked_add(bytes).is_some_and(|end| end <= data_bytes);
    index.packets.iter().all(|entry| {
        let has_places = (entry.name as usize) < index.names.len()
            && (entry.shape as usize) < index.shapes.len()
            && (entry.codec as usize) < index.codecs.len()
            && entry.figures.is_none_or(|place| (place as usize) < index.figures.len());
        has_places
            && is_inside(entry.payload_offset, entry.payload_bytes)
            && raw_bytes_of(entry.dtype, index.shape(entry)) == Some(entry.raw_bytes)
    }) && index.batches.iter().all(|span| {
        is_inside(span.offset, span.bytes)
            && span.used_bytes <= span.bytes
            && span.packets_end <= index.packets.len() as u64
            && span.tokens_end <= index.tokens.len() as u64
            && span.dropped_end <= index.dropped.len() as u64
    }) && is_ascending(&index.batches)
}

/// Whether each batch begins where the one before has ended, in the file and in the lists.
fn is_ascending(batches: &[BatchSpan]) -> bool {
    batches.windows(2).all(|pair| {
        pair[0].offset + pair[0].bytes <= pair[1].offset
            && pair[0].packets_end <= pair[1].packets_end
            && pair[0].tokens_end <= pair[1].tokens_end
            && pair[0].dropped_end <= pair[1].dropped_end
    })
}

fn take_figures(from: &mut In<'_>, has_cosines: bool) -> Option<Vec<Figures>> {
    let figure = |bits: u64| (bits != NO_FIGURE).then(|| f64::from_bits(bits));
    let count = from.count(if has_cosines { 32 } else { 24 })?;
    let figures = (0..count).map(|_| {
        Some(Figures {
            bound: figure(from.u64()?),
            max_error: figure(from.u64()?),
            mse: figure(from.u64()?),
            min_cosine: if has_cosines { figure(from.u64()?) } else { None },
        })
    });
    figures.collect()
}

fn take_packets(from: &mut In<'_>) -> Option<Vec<PacketEntry>> {
    let count = from.count(7 * 8 + 6 * 4 + 2)?;
    let mut long = [const { &[] as &[[u8; 8]] }; 7];
    for column in &mut long {
        *column = from.column(count)?;
    }
    let mut short = [const { &[] as &[[u8; 4]] }; 6];
    for column in &mut short {
        *column = from.column(count)?;
    }
    let (dtypes, cells) = (from.take(count)?, from.take(count)?);
    let u64_at = |column: usize, place: usize| u64::from_le_bytes(long[column][place]);
    let u32_at = |column: usize, place: usize| u32::from_le_bytes(short[column][place]);
    let entry = |place: usize| {
        let has = |bit: u8| cells[place] & bit != 0;
        Some(PacketEntry {
            packet: u64_at(0, place),
            step: u64_at(1, place),
            token_index: has(HAS_TOKEN_INDEX).then(|| u64_at(2, place)),
            timestamp_ns: u64_at(3, place) as i64,
            payload_offset: u64_at(4, place),
            payload_bytes: u64_at(5, place),
            raw_bytes: u64_at(6, place),
            crc32c: u32_at(0, place),
            layer: has(HAS_LAYER).then(|| u32_at(1, place) as i32),
            name: u32_at(2, place),
            shape: u32_at(3, place),
            codec: u32_at(4, place),
            figures: has(HAS_FIGURES).then(|| u32_at(5, place)),
            dtype: *DType::ALL.get(usize::from(dtypes[place]))?,
        })
    };
    (0..count).map(entry).collect()
}

fn take_tokens(from: &mut In<'_>) -> Option<Vec<TokenMark>> {
    let texts = from.texts()?;
    let mark = |text: &str, from: &mut In<'_>| {
        Some(TokenMark {
            token_index: from.u64()?,
            token_id: from.u64()? as i64,
            token_text: text.to_owned(),
            packet: from.u64()?,
            timestamp_ns: from.u64()? as i64,
        })
    };
    texts.into_iter().map(|text| mark(text, from)).collect()
}

fn take_dropped(from: &mut In<'_>, names: &[Arc<str>]) -> Option<Vec<DroppedRow>> {
    let count = from.count(48)?;
    let rows = (0..count).map(|_| {
        Some(DroppedRow {
            name: names.get(usize::try_from(from.u64()?).ok()?)?.clone(),
            packet: from.u64()?,
            count: from.u64()?,
            raw_bytes: from.u64()?,
            timestamp_ns: from.u64()? as i64,
            step: from.u64()?,
        })
    });
    rows.collect()
}

fn take_batches(from: &mut In<'_>) -> Option<Vec<BatchSpan>> {
    let count = from.count(48)?;
    let spans = (0..count).map(|_| {
        Some(BatchSpan {
            offset: from.u64()?,
            bytes: from.u64()?,
            used_bytes: from.u64()?,
            packets_end: from.u64()?,
            tokens_end: from.u64()?,
            dropped_end: from.u64()?,
        })
    });
    spans.collect()
}

struct Out(Vec<u8>);

impl Out {
    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// How many, the length of each, then their bytes.
    fn texts<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a str> + Clone) {
        self.u64(texts.len() as u64);
        texts.clone().for_each(|text| self.u64(text.len() as u64));
        texts.for_each(|text| self.0.extend_from_slice(text.as_bytes()));
    }
}

/// Bytes that are yet to be read. Nothing is allocated that they do not hold.
struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// A number of items that need at least so many bytes each.
    fn count(&mut self, item_bytes: usize) -> Option<usize> {
        let count = usize::try_from(self.u64()?).ok()?;
        (count.checked_mul(item_bytes)? <= self.0.len()).then_some(count)
    }

    fn column<const N: usize>(&mut self, count: usize) -> Option<&'a [[u8; N]]> {
        Some(self.take(count.checked_mul(N)?)?.as_chunks().0)
    }

    fn texts(&mut self) -> Option<Vec<&'a str>> {
        let count = self.count(8)?;
        let lengths: &[[u8; 8]] = self.column(count)?;
        let text = |length: &[u8; 8]| {
            let length =
                usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= MAX_TEXT_BYTES)?;
            std::str::from_utf8(self.take(length)?).ok()
        };
        lengths.iter().map(text).collect()
    }

    fn shape(&mut self) -> Option<Arc<[u64]>> {
        let count = self.count(8).filter(|count| *count <= MAX_DIMENSIONS)?;
        let lengths: &[[u8; 8]] = self.column(count)?;
        Some(lengths.iter().map(|length| u64::from_le_bytes(*length)).collect())
    }
}
