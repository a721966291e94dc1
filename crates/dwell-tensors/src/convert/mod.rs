//! Streams from and to other forms.

mod from_packets;
mod packet_codec;
mod sidecar;
mod to_packets;

use std::path::Path;

use dwell_codec::{Codec, Encoded, Encoder};

use crate::container::{Row, RowWriter};
use crate::{TensorFile, TensorHead, TensorsError};

pub use from_packets::{FromPackets, from_packets};
pub use packet_codec::PacketCodec;
pub use sidecar::sidecar_path;
pub use to_packets::{PacketOptions, to_packets};

/// Writes a stream anew with another codec. Packet numbers, tokens and drops stay as they are. Errors are those against
/// what was captured: elements that lost something before keep theirs, and what they lose now is added.
pub fn reencode(file: &TensorFile, path: &Path, codec: Codec) -> Result<u64, TensorsError> {
    let mut writer =
        StreamCopy { writer: RowWriter::create(path, file.metadata())?, encoder: Encoder::default(), codec };
    let mut tokens = file.tokens().iter().peekable();
    let mut dropped = file.dropped_rows().iter().peekable();
    for (place, entry) in file.packets().iter().enumerate() {
        while let Some(row) = dropped.next_if(|row| row.packet < entry.packet) {
            writer.writer.push(row.into(), &[])?;
        }
        while let Some(mark) = tokens.next_if(|mark| mark.packet <= entry.packet) {
            writer.writer.push(Row::Token(mark.clone()), &[])?;
        }
        writer.push(entry.packet, file.head(entry), &file.read_elements(place)?, Some(file.encoded(entry)))?;
    }
    for row in dropped {
        writer.writer.push(row.into(), &[])?;
    }
    for mark in tokens {
        writer.writer.push(Row::Token(mark.clone()), &[])?;
    }
    writer.writer.finish()?;
    Ok(file.packets().len() as u64)
}

/// A stream that is written from elements.
struct StreamCopy {
    writer: RowWriter,
    encoder: Encoder,
    codec: Codec,
}

impl StreamCopy {
    /// Adds a tensor. What it lost `before`, when it was encoded for the stream that it comes from, is not forgotten.
    fn push(
        &mut self,
        packet: u64,
        head: TensorHead,
        elements: &[u8],
        before: Option<Encoded>,
    ) -> Result<(), TensorsError> {
        let mut payload = Vec::new();
        let encoded = self.encoder.encode(self.codec, head.dtype, head.row_length(), elements, &mut payload);
        let encoded = before.map_or(encoded, |before| after(before, encoded));
        let crc32c = crc32c::crc32c(&payload);
        let payload_bytes = payload.len() as u64;
        self.writer.push(Row::Tensor { packet, head, encoded, crc32c, payload_bytes }, &payload)
    }
}

/// How elements are stored that were encoded twice: their errors are at most the sum, and so are the roots of their
/// mean squares, and the angles between vectors.
fn after(before: Encoded, now: Encoded) -> Encoded {
    let joined = |one: Option<f64>, other: Option<f64>, join: fn(f64, f64) -> f64| match (one, other) {
        (Some(one), Some(other)) => Some(join(one, other)),
        (one, other) => one.or(other),
    };
    Encoded {
        max_error: joined(before.max_error, now.max_error, |one, other| one + other),
        mse: joined(before.mse, now.mse, |one, other| (one.sqrt() + other.sqrt()).powi(2)),
        min_cosine: joined(before.min_cosine, now.min_cosine, cosine_of_both),
        ..now
    }
}

/// The cosine of the sum of two angles, given by their cosines.
fn cosine_of_both(one: f64, other: f64) -> f64 {
    (one.clamp(-1.0, 1.0).acos() + other.clamp(-1.0, 1.0).acos()).min(std::f64::consts::PI).cos()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests;
