//! Streams from and to other forms.

mod from_packets;
mod packet_codec;
mod sidecar;
mod to_packets;

use std::path::Path;

use dwell_codec::{Codec, Encoder};

use crate::container::{Row, RowWriter};
use crate::{TensorFile, TensorHead, TensorsError};

pub use from_packets::{FromPackets, from_packets};
pub use packet_codec::PacketCodec;
pub use sidecar::sidecar_path;
pub use to_packets::{PacketOptions, to_packets};

/// Writes a stream anew with another codec. Packet numbers, tokens and drops stay as they are; elements that are
/// stored lossily lose no more than before if the new codec is lossless.
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
        writer.push(entry.packet, file.head(entry), &file.read_elements(place)?)?;
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
    fn push(&mut self, packet: u64, head: TensorHead, elements: &[u8]) -> Result<(), TensorsError> {
        let mut payload = Vec::new();
        let row_length = head.shape.last().map_or(1, |length| *length as usize);
        let encoded = self.encoder.encode(self.codec, head.dtype, row_length, elements, &mut payload);
        let crc32c = crc32c::crc32c(&payload);
        let payload_bytes = payload.len() as u64;
        self.writer.push(Row::Tensor { packet, head, encoded, crc32c, payload_bytes }, &payload)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests;
