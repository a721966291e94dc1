//! Lossy within a bound: values are rounded to steps, the numbers of the steps are coded like bytes of floats.
//!
//! An element that no step is near enough to, or whose step has no symbol, is kept exactly: NaN, infinities, values
//! whose type rounds the step away, and the far ends of heavy tails. The encoder computes what a decoder will, rounded
//! to the type of the elements, and measures the error on that.

mod decode;
mod encode;
mod plan;
mod quantise;
mod source;
mod spread;

pub(crate) use encode::Lossy;

use crate::codec::Bound;
use crate::dtype::DType;
use crate::huffman::DecodeTable;
use plan::SYMBOLS;
use source::{Bf16, F16};

const VERSION: u8 = 1;

/// Buffers that encoding and decoding keep.
#[derive(Default)]
pub(crate) struct BoundedScratch {
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
    fn resize(&mut self, elements: usize, low_planes: usize) {
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

/// Appends a payload that keeps the bound. `None`, with anything appended, if it cannot be kept or does not pay.
pub(crate) fn encode(
    bound: Bound,
    dtype: DType,
    raw: &[u8],
    scratch: &mut BoundedScratch,
    out: &mut Vec<u8>,
) -> Option<Lossy> {
    match dtype {
        DType::F16 => encode::encode::<F16>(bound, raw, scratch, out),
        DType::Bf16 => encode::encode::<Bf16>(bound, raw, scratch, out),
        DType::F32 => encode::encode::<f32>(bound, raw, scratch, out),
        DType::F64 => encode::encode::<f64>(bound, raw, scratch, out),
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
