//! Lossless: the bytes of floats apart, the exponents first.
//!
//! An element is rotated left by one bit, so that its upper byte is the exponent (of a half: the exponent and three bits
//! of the mantissa) and the sign lies lowest. Each byte of all elements of a block is a plane of its own: exponents
//! take few values and are coded in few bits, the other planes are mostly noise and stored as they are. Where channels
//! differ in scale, each channel's usual upper byte is taken off first.

use crate::dtype::DType;
use crate::huffman::DecodeTable;
use crate::plane::{BLOCK_ELEMENTS, decode_plane, encode_plane};
use crate::references::References;

const VERSION: u8 = 1;

/// Buffers that encoding and decoding keep.
#[derive(Default)]
pub(crate) struct FloatScratch {
    plane: Vec<u8>,
    planes: Vec<u8>,
    stream: Vec<u8>,
    table: DecodeTable,
}

/// Appends floats of `width` bytes. `row_len` of them make a row.
pub(crate) fn encode(width: usize, row_len: usize, raw: &[u8], scratch: &mut FloatScratch, out: &mut Vec<u8>) {
    out.push(VERSION);
    let references = References::choose(width, row_len, raw);
    references.write(out);
    let mut start = 0;
    for block in raw.chunks(BLOCK_ELEMENTS * width) {
        let elements = block.len() / width;
        for index in (0..width).rev() {
            scratch.plane.resize(elements, 0);
            split(width, index, block, &mut scratch.plane);
            if index == width - 1 {
                references.take_off(start, &mut scratch.plane);
            }
            encode_plane(&scratch.plane, &mut scratch.stream, out);
        }
        start += elements;
    }
}

/// Fills `out`; `None` if the payload does not fit it.
pub(crate) fn decode(dtype: DType, mut payload: &[u8], scratch: &mut FloatScratch, out: &mut [u8]) -> Option<()> {
    let width = dtype.float_bytes().filter(|width| out.len().is_multiple_of(*width))?;
    let (&version, rest) = payload.split_first()?;
    payload = rest;
    if version != VERSION {
        return None;
    }
    let references = References::read(&mut payload, out.len() / width)?;
    let mut start = 0;
    for block in out.chunks_mut(BLOCK_ELEMENTS * width) {
        let elements = block.len() / width;
        scratch.planes.resize(elements * width, 0);
        for (index, plane) in scratch.planes.chunks_exact_mut(elements).enumerate().rev() {
            decode_plane(&mut payload, &mut scratch.table, plane)?;
            if index == width - 1 {
                references.put_back(start, plane);
            }
        }
        merge(width, &scratch.planes, block);
        start += elements;
    }
    payload.is_empty().then_some(())
}

macro_rules! split_words {
    ($word:ty, $index:expr, $block:expr, $plane:expr) => {
        for (symbol, element) in $plane.iter_mut().zip($block.chunks_exact(size_of::<$word>())) {
            let word = element.try_into().map_or(0, <$word>::from_le_bytes).rotate_left(1);
            *symbol = (word >> (8 * $index)) as u8;
        }
    };
}

/// One plane of a block.
pub(crate) fn split(width: usize, index: usize, block: &[u8], plane: &mut [u8]) {
    match width {
        2 => split_words!(u16, index, block, plane),
        4 => split_words!(u32, index, block, plane),
        8 => split_words!(u64, index, block, plane),
        _ => plane.copy_from_slice(block),
    }
}

/// A block from its planes, the lowest byte's first.
fn merge(width: usize, planes: &[u8], block: &mut [u8]) {
    let elements = block.len() / width;
    let plane = |index: usize| &planes[index * elements..][..elements];
    match width {
        2 => {
            let bytes = plane(0).iter().zip(plane(1));
            for (element, (&low, &high)) in block.chunks_exact_mut(2).zip(bytes) {
                element.copy_from_slice(&u16::from_le_bytes([low, high]).rotate_right(1).to_le_bytes());
            }
        }
        4 => {
            let bytes = plane(0).iter().zip(plane(1)).zip(plane(2).iter().zip(plane(3)));
            for (element, ((&a, &b), (&c, &d))) in block.chunks_exact_mut(4).zip(bytes) {
                element.copy_from_slice(&u32::from_le_bytes([a, b, c, d]).rotate_right(1).to_le_bytes());
            }
        }
        8 => {
            for (at, element) in block.chunks_exact_mut(8).enumerate() {
                let word: [u8; 8] = std::array::from_fn(|index| planes[index * elements + at]);
                element.copy_from_slice(&u64::from_le_bytes(word).rotate_right(1).to_le_bytes());
            }
        }
        _ => block.copy_from_slice(planes),
    }
}
