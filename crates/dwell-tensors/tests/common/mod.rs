//! Tensors whose elements are known.

#![allow(dead_code, unused_imports, reason = "every test file uses a part")]

#[path = "../../../../tests/skip.rs"]
mod skip;

use dwell_tensors::{DType, Elements, TensorHead};

pub use skip::skip;

/// Elements that somebody else holds.
pub struct Foreign(pub Vec<u8>);

impl Elements for Foreign {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The head of a tensor of bytes.
pub fn head(name: &str, step: u64, bytes: usize) -> TensorHead {
    TensorHead {
        name: name.to_owned(),
        layer: None,
        step,
        token_index: None,
        timestamp_ns: step as i64,
        dtype: DType::U8,
        shape: vec![bytes as u64],
    }
}

/// The head of a tensor of floats.
pub fn float_head(name: &str, step: u64, elements: usize) -> TensorHead {
    TensorHead { dtype: DType::F32, shape: vec![elements as u64], ..head(name, step, 0) }
}

/// Floats as bytes.
pub fn floats(count: usize, value: impl Fn(usize) -> f32) -> Vec<u8> {
    (0..count).flat_map(|place| value(place).to_le_bytes()).collect()
}

/// Bytes that follow from a seed and compress badly (xorshift).
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
