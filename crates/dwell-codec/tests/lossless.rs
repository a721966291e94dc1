//! Lossless codecs give every bit back.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Random, elements, round_trip};
use dwell_codec::{Codec, DType};
use proptest::prelude::*;

const LOSSLESS: [Codec; 5] =
    [Codec::None, Codec::Lz4, Codec::Zstd { level: 1 }, Codec::Zstd { level: 19 }, Codec::Float];

fn assert_exact(codec: Codec, dtype: DType, row_len: usize, raw: &[u8]) {
    let (encoded, _, back) = round_trip(codec, dtype, row_len, raw);
    assert!(back == raw, "{codec} (as {}) {dtype} row {row_len}, {} bytes", encoded.codec, raw.len());
}

#[test]
fn every_type_and_length() {
    let mut random = Random(1);
    let lengths = [0, 1, 2, 3, 4, 5, 19, 20, 21, 127, 128, 1000, 65_535, 65_536, 65_537, 140_001];
    for &dtype in DType::ALL {
        for elements in lengths {
            let noise = random.bytes(elements * dtype.size_bytes());
            let few_values: Vec<u8> = noise.iter().map(|byte| 0x38 + byte % 7).collect();
            for codec in [Codec::None, Codec::Lz4, Codec::Zstd { level: 1 }, Codec::Float] {
                for raw in [&noise, &few_values] {
                    assert_exact(codec, dtype, elements / 40 + 1, raw);
                }
            }
        }
    }
}

#[test]
fn every_half() {
    let raw: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    // Once all patterns in order, once each beside many zeros, so that planes are coded.
    let sparse: Vec<u8> = (0..=u16::MAX).flat_map(|bits| [0, 0, 0, bits].map(u16::to_le_bytes)).flatten().collect();
    for dtype in [DType::F16, DType::Bf16] {
        for codec in FAST {
            assert_exact(codec, dtype, 256, &raw);
            assert_exact(codec, dtype, 1024, &sparse);
        }
    }
}

const FAST: [Codec; 2] = [Codec::Float, Codec::Zstd { level: 1 }];

#[test]
fn numbers_that_equal_others_or_nothing() {
    let singles = [0x0000_0000_u32, 0x8000_0000, 1, 0x8000_0001, 0x007f_ffff, 0x7f80_0000, 0xff80_0000, 0x7f80_0001]
        .into_iter()
        .chain([0x7fc0_1234, 0xffff_ffff, 0x7f7f_ffff, 0x3f80_0000]);
    let raw: Vec<u8> = singles.cycle().take(100_000).flat_map(u32::to_le_bytes).collect();
    let (encoded, _, back) = round_trip(Codec::Float, DType::F32, 12, &raw);
    assert_eq!(encoded.codec, Codec::Float);
    assert!(back == raw);
    let doubles = [0_u64, 1 << 63, 1, 0x7ff0_0000_0000_0001, 0xfff8_0000_dead_beef, 0x7ff0_0000_0000_0000];
    let raw: Vec<u8> = doubles.into_iter().cycle().take(70_001).flat_map(u64::to_le_bytes).collect();
    assert_exact(Codec::Float, DType::F64, 6, &raw);
}

#[test]
fn exponents_of_normal_numbers_take_few_bits() {
    let mut random = Random(2);
    let values: Vec<f64> = (0..200_000).map(|_| random.normal()).collect();
    // The exponent of a normal number has 2.5 bits of entropy, the other bits of each type are noise.
    for (dtype, least) in [(DType::Bf16, 1.49), (DType::F16, 1.17), (DType::F32, 1.19), (DType::F64, 1.12)] {
        let raw = elements(dtype, &values);
        let (encoded, payload, back) = round_trip(Codec::Float, dtype, 500, &raw);
        assert_eq!(encoded.codec, Codec::Float, "{dtype}");
        assert!(back == raw, "{dtype}");
        let ratio = raw.len() as f64 / payload.len() as f64;
        assert!(ratio > least && ratio < least + 0.04, "{dtype}: {ratio}");
    }
}

#[test]
fn channels_of_different_scale_are_told_apart() {
    let mut random = Random(3);
    let row_len = 400;
    let values: Vec<f64> =
        (0..row_len * 300).map(|index| random.normal() * ((index % row_len) as f64 / 20.0).exp2()).collect();
    let raw = elements(DType::Bf16, &values);
    let (_, with_rows, back) = round_trip(Codec::Float, DType::Bf16, row_len, &raw);
    assert!(back == raw);
    let (_, without, back) = round_trip(Codec::Float, DType::Bf16, 1, &raw);
    assert!(back == raw);
    // 20 octaves, all as likely, are 4.3 bits; one octave more or less is 2.5.
    let saved_bits = (without.len() - with_rows.len()) as f64 * 8.0 / values.len() as f64;
    assert!(saved_bits > 1.5, "{saved_bits}");
}

#[test]
fn what_does_not_vary_costs_nothing() {
    let raw = elements(DType::F32, &vec![1.5; 1_000_000]);
    let (encoded, payload, back) = round_trip(Codec::Float, DType::F32, 1000, &raw);
    assert_eq!(encoded.codec, Codec::Float);
    assert!(back == raw);
    assert!(payload.len() < 200, "{}", payload.len());
    // Singles that were halves before: their lower planes are empty.
    let mut random = Random(4);
    let values: Vec<f64> = (0..100_000).map(|_| half::bf16::from_f64(random.normal()).to_f64()).collect();
    let (_, payload, _) = round_trip(Codec::Float, DType::F32, 100, &elements(DType::F32, &values));
    assert!(payload.len() < 100_000 * 12 / 8, "{}", payload.len());
}

#[test]
fn noise_is_kept_as_it_is() {
    let raw = Random(5).bytes(100_000);
    for codec in LOSSLESS {
        for dtype in [DType::U8, DType::F8E4M3Fn, DType::F16, DType::F64] {
            let (encoded, payload, _) = round_trip(codec, dtype, 10, &raw);
            assert_eq!((encoded.codec, payload.len()), (Codec::None, raw.len()), "{codec} {dtype}");
        }
    }
}

#[test]
fn integers_under_float_are_left_to_zstd() {
    let raw: Vec<u8> = (0..50_000_i64).flat_map(i64::to_le_bytes).collect();
    let (encoded, _, back) = round_trip(Codec::Float, DType::I64, 1, &raw);
    assert_eq!(encoded.codec, Codec::Zstd { level: 1 });
    assert!(back == raw);
}

#[test]
fn the_codec_that_was_used_can_be_named() {
    for level in [i32::MIN, 0, 20, 99] {
        let (encoded, _, _) = round_trip(Codec::Zstd { level }, DType::U8, 1, &[0; 1000]);
        assert_eq!(encoded.codec.to_string().parse(), Ok(encoded.codec), "{level}");
    }
}

#[test]
fn bytes_that_are_no_whole_elements_survive() {
    let raw = vec![7; 1001];
    for &dtype in DType::ALL {
        for codec in LOSSLESS.into_iter().chain(["bounded:abs:1".parse().unwrap()]) {
            assert_exact(codec, dtype, 10, &raw);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_of_any_type(
        dtype in proptest::sample::select(DType::ALL),
        codec in proptest::sample::select(LOSSLESS.to_vec()),
        row_len in 0_usize..600,
        (spread, seed, length) in (1_u64..=256, any::<u64>(), 0_usize..3000),
    ) {
        let mut random = Random(seed);
        let raw: Vec<u8> = (0..length * dtype.size_bytes()).map(|_| (random.next() % spread) as u8).collect();
        assert_exact(codec, dtype, row_len, &raw);
    }
}
