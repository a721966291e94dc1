//! Payloads of the public formats, read by decoders that are not ours.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::io::Read;

use common::{Random, elements};
use dwell_codec::{Codec, DType, Encoder};

fn tensor() -> Vec<u8> {
    let mut random = Random(1);
    let values: Vec<f64> = (0..100_000).map(|index| if index % 3 == 0 { 0.0 } else { random.normal() }).collect();
    elements(DType::F32, &values)
}

/// An LZ4 block, by its public description.
fn read_lz4_block(mut block: &[u8]) -> Vec<u8> {
    fn length(nibble: u8, block: &mut &[u8]) -> usize {
        let mut length = usize::from(nibble);
        let mut goes_on = nibble == 15;
        while goes_on {
            let (&more, rest) = block.split_first().unwrap();
            *block = rest;
            length += usize::from(more);
            goes_on = more == 255;
        }
        length
    }
    let mut out = Vec::new();
    while let Some((&token, rest)) = block.split_first() {
        block = rest;
        let literals = length(token >> 4, &mut block);
        out.extend_from_slice(&block[..literals]);
        block = &block[literals..];
        if block.is_empty() {
            break;
        }
        let offset = usize::from(u16::from_le_bytes([block[0], block[1]]));
        block = &block[2..];
        for _ in 0..length(token & 15, &mut block) + 4 {
            out.push(out[out.len() - offset]);
        }
    }
    out
}

#[test]
fn lz4_is_a_plain_block() {
    let raw = tensor();
    let mut payload = Vec::new();
    let used = Encoder::default().encode(Codec::Lz4, DType::F32, 1, &raw, &mut payload).codec;
    assert_eq!(used, Codec::Lz4);
    assert!(read_lz4_block(&payload) == raw);
}

#[test]
fn zstd_is_one_frame() {
    let raw = tensor();
    for level in [1, 3, 19] {
        let mut payload = Vec::new();
        let used = Encoder::default().encode(Codec::Zstd { level }, DType::F32, 1, &raw, &mut payload).codec;
        assert_eq!(used, Codec::Zstd { level });
        let mut back = Vec::new();
        ruzstd::decoding::StreamingDecoder::new(payload.as_slice()).unwrap().read_to_end(&mut back).unwrap();
        assert!(back == raw, "level {level}");
    }
}
