//! From a payload back to elements.

use crate::bounded::{self, BoundedScratch};
use crate::codec::Codec;
use crate::dtype::DType;
use crate::float::{self, FloatScratch};

/// A payload that does not hold what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The payload cannot be of this codec and these elements.
    #[error("decoding {codec}: {found}; the payload is damaged or of another tensor")]
    Damaged {
        /// The codec.
        codec: String,
        /// What was wrong with it.
        found: String,
    },
}

/// Decodes payloads one after the other; keeps its buffers between them. One for each thread.
#[derive(Default)]
pub struct Decoder {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    float: FloatScratch,
    bounded: BoundedScratch,
}

impl Decoder {
    /// Fills `out`, which has exactly the size of the elements. Takes no more memory than a few times that.
    pub fn decode(&mut self, codec: Codec, dtype: DType, payload: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
        let damaged = |found: String| DecodeError::Damaged { codec: codec.to_string(), found };
        let filled = match codec {
            Codec::None if payload.len() == out.len() => {
                out.copy_from_slice(payload);
                payload.len()
            }
            Codec::None => payload.len(),
            Codec::Lz4 => lz4_flex::block::decompress_into(payload, out).map_err(|error| damaged(error.to_string()))?,
            Codec::Zstd { .. } => self.zstd(payload, out).map_err(|error| damaged(error.to_string()))?,
            Codec::Float | Codec::Bounded(_) => {
                let filled = match codec {
                    Codec::Float => float::decode(dtype, payload, &mut self.float, out),
                    _ => bounded::decode(dtype, payload, &mut self.bounded, out),
                };
                return filled.ok_or_else(|| damaged(format!("its parts are not {} bytes of {dtype}", out.len())));
            }
        };
        if filled == out.len() { Ok(()) } else { Err(damaged(format!("{filled} bytes instead of {}", out.len()))) }
    }

    fn zstd(&mut self, payload: &[u8], out: &mut [u8]) -> std::io::Result<usize> {
        let decompressor = match &mut self.zstd {
            Some(kept) => kept,
            none => none.insert(zstd::bulk::Decompressor::new()?),
        };
        decompressor.decompress_to_buffer(payload, out)
    }
}
