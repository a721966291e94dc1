//! How small activations could be: the entropy of their elements.

use std::collections::HashMap;

use dwell_codec::DType;

/// Bits of some tensors, and the least that a code of a given kind needs for them.
#[derive(Default)]
pub(crate) struct Limits {
    raw_bits: f64,
    /// Each element by itself, by how often its value occurs in its tensor.
    element_bits: f64,
    /// The upper byte (rotated, so that it is the exponent) by how often it occurs in its channel; the rest by itself.
    channel_bits: f64,
}

impl Limits {
    pub(crate) fn add(&mut self, other: &Self) {
        self.raw_bits += other.raw_bits;
        self.element_bits += other.element_bits;
        self.channel_bits += other.channel_bits;
    }

    pub(crate) fn ratio(&self) -> f64 {
        self.raw_bits / self.element_bits
    }

    pub(crate) fn ratio_by_channel(&self) -> f64 {
        self.raw_bits / self.channel_bits
    }
}

/// The limits of one tensor. Singles are too many for their values to occur twice: their lower bytes count one by one.
pub(crate) fn limits(dtype: DType, row_len: usize, raw: &[u8]) -> Limits {
    let width = dtype.size_bytes();
    let rotated: Vec<[u8; 4]> = raw.chunks_exact(width).map(|element| rotate(element).to_le_bytes()).collect();
    let plane = |index: usize| entropy_bits(rotated.iter().map(|bytes| u32::from(bytes[index])));
    let lower: f64 = (4 - width..3).map(plane).sum();
    let element_bits = if width == 2 {
        entropy_bits(rotated.iter().map(|bytes| u32::from_le_bytes(*bytes)))
    } else {
        plane(3) + lower
    };
    let channels = (0..row_len).map(|channel| rotated.iter().skip(channel).step_by(row_len.max(1)));
    let upper: f64 = channels.map(|elements| entropy_bits(elements.map(|bytes| u32::from(bytes[3])))).sum();
    Limits { raw_bits: 8.0 * raw.len() as f64, element_bits, channel_bits: upper + lower }
}

/// The element at the top of 32 bits, rotated by one bit so that its exponent comes first and its sign last.
fn rotate(element: &[u8]) -> u32 {
    match *element {
        [low, high] => u32::from(u16::from_le_bytes([low, high]).rotate_left(1)) << 16,
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).rotate_left(1),
        _ => 0,
    }
}

fn entropy_bits(symbols: impl Iterator<Item = u32>) -> f64 {
    let mut counts: HashMap<u32, u32> = HashMap::new();
    let mut total = 0.0;
    for symbol in symbols {
        *counts.entry(symbol).or_default() += 1;
        total += 1.0;
    }
    counts.values().map(|&count| f64::from(count)).map(|count| count * f64::log2(total / count)).sum()
}
