//! Lossy within a bound: values are rounded to steps, the numbers of the steps are coded like bytes of floats.
//!
//! Bounds relative to a range or a variance apply to each vector (the last dimension), and each vector has its own step size:
//! a bound for the whole tensor would follow its largest vector and destroy the others. Outliers of a vector are stored
//! exactly and excluded from its range and variance.
//!
//! An element that no step is near enough to, or whose step has no symbol, is kept exactly too: NaN, infinities, values
//! whose type rounds the step away, and the far ends of heavy tails. The encoder computes what a decoder will, rounded
//! to the type of the elements, and measures the error on that.

mod decode;
mod encode;
mod loss;
mod plan;
mod quantise;
mod scale;
mod source;
mod spread;
mod vectors;

pub(crate) use encode::Lossy;

use crate::codec::Bound;
use crate::dtype::DType;
use crate::huffman::DecodeTable;
use plan::SYMBOLS;
use source::{Bf16, F16};

/// The version that is written: each vector has a scale.
const VERSION: u8 = 2;

/// The version in which all vectors have the same steps. Still read.
const SAME_STEPS_VERSION: u8 = 1;

/// Buffers that encoding and decoding keep.
#[derive(Default)]
pub(crate) struct BoundedScratch {
    /// The scales of a block's vectors, the upper byte's plane first.
    scales: [Vec<u8>; 2],
    symbols: Vec<u8>,
    low: [Vec<u8>; 2],
    exact: Vec<u8>,
    /// The planes of a block, coded.
    coded: Vec<u8>,
    stream: Vec<u8>,
    table: DecodeTable,
}

impl BoundedScratch {
    /// Room for the planes of a block.
    fn resize(&mut self, elements: usize, vectors: usize, low_planes: usize) {
        self.scales.iter_mut().for_each(|plane| plane.resize(vectors, 0));
        self.symbols.resize(elements, 0);
        self.low[..low_planes].iter_mut().for_each(|plane| plane.resize(elements, 0));
    }
}

/// Calls for every element that is kept exactly, which are few: most runs of symbols are passed at once.
#[inline(always)]
fn for_exact(symbols: &[u8], mut call: impl FnMut(usize)) {
    for (number, run) in symbols.chunks(EXACT_RUN).enumerate() {
        if run.iter().fold(false, |found, &symbol| found | (u32::from(symbol) == SYMBOLS)) {
            let exact = run.iter().enumerate().filter(|(_, symbol)| u32::from(**symbol) == SYMBOLS);
            exact.for_each(|(index, _)| call(number * EXACT_RUN + index));
        }
    }
}

const EXACT_RUN: usize = 64;

/// Appends a payload that keeps the bound; `row_len` elements make a vector. `None`, with anything appended, if it cannot
/// be kept or does not pay.
pub(crate) fn encode(
    bound: Bound,
    dtype: DType,
    row_len: usize,
    raw: &[u8],
    scratch: &mut BoundedScratch,
    out: &mut Vec<u8>,
) -> Option<Lossy> {
    match dtype {
        DType::F16 => encode::encode::<F16>(bound, row_len, raw, scratch, out),
        DType::Bf16 => encode::encode::<Bf16>(bound, row_len, raw, scratch, out),
        DType::F32 => encode::encode::<f32>(bound, row_len, raw, scratch, out),
        DType::F64 => encode::encode::<f64>(bound, row_len, raw, scratch, out),
        _ => None,
    }
}

/// Fills `out`; `None` if the payload does not fit it.
pub(crate) fn decode(dtype: DType, payload: &[u8], scratch: &mut BoundedScratch, out: &mut [u8]) -> Option<()> {
    match dtype {
        DType::F16 => decode::decode::<F16>(payload, scratch, out),
        DType::Bf16 => decode::decode::<Bf16>(payload, scratch, out),
        DType::F32 => decode::decode::<f32>(payload, scratch, out),
        DType::F64 => decode::decode::<f64>(payload, scratch, out),
        _ => None,
    }
}
