//! What the tests share: numbers that look random and do not change, and tensors of known kinds.

#![allow(dead_code, reason = "each test binary uses a part")]

use dwell_codec::{Codec, DType, Decoder, Encoded, Encoder, max_payload_bytes};

/// A small generator (splitmix64), so that a failure can be repeated.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A standard normal number (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// A standard Cauchy number: no mean, no variance.
    pub fn cauchy(&mut self) -> f64 {
        (std::f64::consts::PI * (self.uniform() - 0.5)).tan()
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// Values as elements of a float type.
pub fn elements(dtype: DType, values: &[f64]) -> Vec<u8> {
    let of = |&value: &f64| match dtype {
        DType::F16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
        DType::Bf16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
        _ => unreachable!("{dtype} is no float of the tests"),
    };
    values.iter().flat_map(of).collect()
}

/// Elements of a float type as values.
pub fn values(dtype: DType, raw: &[u8]) -> Vec<f64> {
    let of = |element: &[u8]| match dtype {
        DType::F16 => half::f16::from_le_bytes(element.try_into().unwrap()).to_f64(),
        DType::Bf16 => half::bf16::from_le_bytes(element.try_into().unwrap()).to_f64(),
        DType::F32 => f32::from_le_bytes(element.try_into().unwrap()).into(),
        DType::F64 => f64::from_le_bytes(element.try_into().unwrap()),
        _ => unreachable!("{dtype} is no float of the tests"),
    };
    raw.chunks_exact(dtype.size_bytes()).map(of).collect()
}

/// Encodes into a buffer that holds something already, decodes, and checks what holds for every codec.
pub fn round_trip(codec: Codec, dtype: DType, row_len: usize, raw: &[u8]) -> (Encoded, Vec<u8>, Vec<u8>) {
    let mut out = Vec::with_capacity(6 + max_payload_bytes(raw.len()));
    out.extend_from_slice(b"before");
    let room = out.capacity();
    let encoded = Encoder::default().encode(codec, dtype, row_len, raw, &mut out);
    assert_eq!(out.capacity(), room, "{codec} {dtype}: more room than {} bytes call for", raw.len());
    assert_eq!(&out[..6], b"before", "{codec} {dtype}");
    let payload = out.split_off(6);
    assert!(payload.len() <= raw.len(), "{codec} {dtype}: {} bytes became {}", raw.len(), payload.len());
    assert_eq!(encoded.codec.is_lossless(), encoded.max_error.is_none());
    assert_eq!(encoded.codec.is_lossless(), encoded.min_cosine.is_none());
    let mut back = vec![0xa5; raw.len()];
    Decoder::default().decode(encoded.codec, dtype, &payload, &mut back).unwrap();
    (encoded, payload, back)
}
