//! From elements to a payload.

use crate::bounded::{self, BoundedScratch};
use crate::codec::{Bound, Codec};
use crate::dtype::DType;
use crate::float::{self, FloatScratch};

/// What became of one tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoded {
    /// The codec that was used: the one asked for, or one that the tensor needed instead.
    pub codec: Codec,
    /// The bound in force for this tensor, as an absolute error or mean squared error; the largest of any vector where
    /// each has its own. Lossy only.
    pub bound: Option<f64>,
    /// The largest error that a decoder will see; lossy only.
    pub max_error: Option<f64>,
    /// The mean of the squared errors that a decoder will see; lossy only.
    pub mse: Option<f64>,
    /// The smallest cosine between a vector, one row of the last dimension, and what a decoder will give for it; lossy
    /// only. Values that are not finite are left out.
    pub min_cosine: Option<f64>,
}

impl Encoded {
    /// Elements that come back bit for bit.
    pub fn lossless(codec: Codec) -> Self {
        Self { codec, bound: None, max_error: None, mse: None, min_cosine: None }
    }
}

/// Room that [`Encoder::encode`] wants in its buffer for a tensor of `raw_bytes`. In the end no payload is longer than the
/// elements, but lz4 and zstd need room for the worst case while they work.
pub fn max_payload_bytes(raw_bytes: usize) -> usize {
    raw_bytes + raw_bytes / 8 + 1024
}

/// Encodes tensors one after the other; keeps its buffers between them. One for each thread.
#[derive(Default)]
pub struct Encoder {
    /// A context for one level, kept because making it costs more than a small tensor.
    zstd: Option<(i32, zstd::bulk::Compressor<'static>)>,
    float: FloatScratch,
    bounded: BoundedScratch,
}

impl Encoder {
    /// Appends the payload to `out` and says which codec it is of. A codec that cannot hold its promise, or that
    /// would need more than the elements themselves, gives way: `bounded` to `float`, `float` to `zstd:1` where the
    /// elements are no floats, and all of them to `none`.
    ///
    /// `row_len` is the length of the last dimension, 1 for a single number: elements that far apart are of one channel, and
    /// that many in a row are one vector.
    pub fn encode(&mut self, codec: Codec, dtype: DType, row_len: usize, raw: &[u8], out: &mut Vec<u8>) -> Encoded {
        let start = out.len();
        let encoded = match codec {
            Codec::None => None,
            Codec::Lz4 => lz4(raw, out),
            Codec::Zstd { level } => self.zstd(level, raw, out),
            Codec::Float => self.float(dtype, row_len, raw, out),
            Codec::Bounded(bound) => self.bounded(bound, dtype, row_len, raw, out).or_else(|| {
                out.truncate(start);
                self.float(dtype, row_len, raw, out)
            }),
        };
        match encoded {
            Some(encoded) if out.len() - start < raw.len() => encoded,
            _ => {
                out.truncate(start);
                out.extend_from_slice(raw);
                Encoded::lossless(Codec::None)
            }
        }
    }

    fn zstd(&mut self, level: i32, raw: &[u8], out: &mut Vec<u8>) -> Option<Encoded> {
        // A level that has no text could not be read back.
        let level = level.clamp(*Codec::ZSTD_LEVELS.start(), *Codec::ZSTD_LEVELS.end());
        if self.zstd.as_ref().is_none_or(|(kept, _)| *kept != level) {
            self.zstd = Some((level, zstd::bulk::Compressor::new(level).ok()?));
        }
        let (_, compressor) = self.zstd.as_mut()?;
        append_to(out, zstd::zstd_safe::compress_bound(raw.len()), |room| {
            compressor.compress_to_buffer(raw, room).ok()
        })?;
        Some(Encoded::lossless(Codec::Zstd { level }))
    }

    fn bounded(
        &mut self,
        bound: Bound,
        dtype: DType,
        row_len: usize,
        raw: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Encoded> {
        if !raw.len().is_multiple_of(dtype.size_bytes()) {
            return None;
        }
        let lossy = bounded::encode(bound, dtype, row_len, raw, &mut self.bounded, out)?;
        Some(Encoded {
            codec: Codec::Bounded(bound),
            bound: Some(lossy.bound),
            max_error: Some(lossy.max_error),
            mse: Some(lossy.mse),
            min_cosine: Some(lossy.min_cosine),
        })
    }

    fn float(&mut self, dtype: DType, row_len: usize, raw: &[u8], out: &mut Vec<u8>) -> Option<Encoded> {
        let width = dtype.float_bytes().filter(|_| raw.len().is_multiple_of(dtype.size_bytes()));
        let Some(width) = width else { return self.zstd(1, raw, out) };
        let floats_per_row = row_len.saturating_mul(dtype.size_bytes() / width);
        float::encode(width, floats_per_row, raw, &mut self.float, out);
        Some(Encoded::lossless(Codec::Float))
    }
}

fn lz4(raw: &[u8], out: &mut Vec<u8>) -> Option<Encoded> {
    let longest = lz4_flex::block::get_maximum_output_size(raw.len());
    append_to(out, longest, |room| lz4_flex::block::compress_into(raw, room).ok())?;
    Some(Encoded::lossless(Codec::Lz4))
}

/// Appends what `write` leaves in `room_bytes` behind the end; it says how much that is.
fn append_to(out: &mut Vec<u8>, room_bytes: usize, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<()> {
    let start = out.len();
    out.resize(start + room_bytes, 0);
    let written = write(&mut out[start..]);
    out.truncate(start + written.unwrap_or(0));
    written.map(|_| ())
}
