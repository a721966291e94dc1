//! Payloads that are damaged or made to harm: an error, never a panic, never more memory than the elements call for.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;
#[path = "../../../tests/counting_allocator.rs"]
mod counting_allocator;

use common::{Random, elements};
use counting_allocator::most_held_during;
use dwell_codec::{Codec, DType, Decoder, Encoder};

const CODECS: [&str; 6] = ["none", "lz4", "zstd:1", "float", "bounded:range:1e-3", "bounded:nmse:1e-6"];
const FLOATS: [DType; 5] = [DType::F16, DType::Bf16, DType::F32, DType::F64, DType::F8E5M2];

/// Decodes with a bound on memory; whether it was taken for whole is for the caller.
fn decode(codec: Codec, dtype: DType, payload: &[u8], out: &mut [u8]) -> bool {
    let (taken, most) = most_held_during(|| Decoder::default().decode(codec, dtype, payload, out).is_ok());
    // Tables and a context of the zstd library are there for any tensor.
    assert!(most <= 4 * out.len() + 256 * 1024, "{codec}: {most} bytes for {} of elements", out.len());
    taken
}

fn tensor(dtype: DType, random: &mut Random) -> Vec<u8> {
    match dtype {
        DType::F8E5M2 => (0..9000).map(|_| (random.normal() * 20.0) as i8 as u8).collect(),
        _ => elements(dtype, &(0..9000).map(|_| random.normal()).collect::<Vec<_>>()),
    }
}

/// Elements, their payload, and its codec.
fn encoded(codec: &str, dtype: DType, random: &mut Random) -> (Vec<u8>, Vec<u8>, Codec) {
    let raw = tensor(dtype, random);
    let mut payload = Vec::new();
    let used = Encoder::default().encode(codec.parse().unwrap(), dtype, 100, &raw, &mut payload).codec;
    (raw, payload, used)
}

#[test]
fn noise_is_refused_or_decoded() {
    let mut random = Random(1);
    for round in 0..20_000 {
        let codec: Codec = CODECS[round % CODECS.len()].parse().unwrap();
        let dtype = FLOATS[random.below(FLOATS.len())];
        let length = random.below(300);
        let mut payload = random.bytes(length);
        // A right version, a kind of plane and a length of vectors, so that some get further.
        if let Some(head) = payload.get_mut(..18).filter(|_| round % 2 == 0) {
            head[..2].copy_from_slice(&[1 + (round / 6 % 2) as u8, (round / 12 % 18) as u8]);
            head[14..].copy_from_slice(&(round as u32 % 1000).to_le_bytes());
        }
        let mut out = vec![0; random.below(2000)];
        decode(codec, dtype, &payload, &mut out);
    }
}

#[test]
fn every_truncation_is_refused() {
    let mut random = Random(2);
    for text in CODECS {
        for dtype in FLOATS {
            let (mut out, mut payload, used) = encoded(text, dtype, &mut random);
            assert!(decode(used, dtype, &payload, &mut out), "{text} {dtype}");
            for cut in (0..payload.len()).step_by(97).chain([payload.len() - 1]) {
                assert!(!decode(used, dtype, &payload[..cut], &mut out), "{text} {dtype} cut at {cut}");
            }
            payload.push(0);
            assert!(!decode(used, dtype, &payload, &mut out), "{text} {dtype} with a byte more");
            let mut other = vec![0; out.len() + dtype.size_bytes()];
            assert!(
                !decode(used, dtype, &payload[..payload.len() - 1], &mut other),
                "{text} {dtype}, one element more"
            );
        }
    }
}

#[test]
fn flipped_bits_do_no_harm() {
    let mut random = Random(3);
    for text in CODECS {
        for dtype in FLOATS {
            let (mut out, mut payload, used) = encoded(text, dtype, &mut random);
            for round in 0..600 {
                let reach = if round % 2 == 0 { payload.len().min(200) } else { payload.len() };
                let (byte, bit) = (random.below(reach), random.below(8));
                payload[byte] ^= 1 << bit;
                decode(used, dtype, &payload, &mut out);
                payload[byte] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn a_payload_of_another_type_is_no_panic() {
    let mut random = Random(4);
    for text in CODECS {
        let (out, payload, used) = encoded(text, DType::F32, &mut random);
        for &dtype in DType::ALL {
            decode(used, dtype, &payload, &mut vec![0; out.len() + 1]);
            decode(used, dtype, &payload, &mut vec![0; out.len()]);
        }
    }
}
