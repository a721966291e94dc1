//! A bound holds on what a decoder gives back, measured here again from nothing but the elements.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Random, elements, round_trip, values};
use dwell_codec::{Bound, Codec, DType};
use proptest::prelude::*;

const FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];

/// The figure that a bound stands for, by definition.
fn figure(bound: Bound, values: &[f64]) -> f64 {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let count = finite.len() as f64;
    let mean = finite.iter().sum::<f64>() / count;
    match bound {
        Bound::Absolute(limit) | Bound::Mse(limit) => limit,
        Bound::Range(part) => {
            let largest = finite.iter().copied().fold(f64::MIN, f64::max);
            part * (largest - finite.iter().copied().fold(f64::MAX, f64::min))
        }
        Bound::RelativeMse(part) => part * finite.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count,
    }
}

/// Checks everything that is promised of one tensor; returns its ratio.
fn assert_held(bound: Bound, dtype: DType, given: &[f64]) -> f64 {
    let raw = elements(dtype, given);
    let before = values(dtype, &raw);
    let (encoded, payload, back) = round_trip(Codec::Bounded(bound), dtype, 64, &raw);
    let what = format!("{bound} {dtype} as {}, {} elements", encoded.codec, given.len());
    if encoded.codec.is_lossless() {
        assert!(back == raw, "{what}");
        return raw.len() as f64 / payload.len().max(1) as f64;
    }
    let (mut max_error, mut squares, mut finite) = (0.0_f64, 0.0, 0);
    let size = dtype.size_bytes();
    for (index, (before, after)) in before.iter().zip(values(dtype, &back)).enumerate() {
        if before.is_finite() {
            let error = (before - after).abs();
            max_error = if error <= max_error { max_error } else { error };
            squares += error * error;
            finite += 1;
        } else {
            assert_eq!(back[index * size..][..size], raw[index * size..][..size], "{what}: bits of {before}");
        }
    }
    let mse = squares / f64::from(finite);
    assert_eq!(encoded.max_error, Some(max_error), "{what}");
    assert!((encoded.mse.unwrap() - mse).abs() <= 1e-12 * mse, "{what}: {:?} is {mse}", encoded.mse);
    let limit = figure(bound, &before);
    let claimed = encoded.bound.unwrap();
    assert!((claimed - limit).abs() <= 1e-9 * limit, "{what}: {claimed} for {limit}");
    match bound {
        Bound::Absolute(_) | Bound::Range(_) => assert!(max_error <= claimed, "{what}: {max_error} > {claimed}"),
        Bound::Mse(_) | Bound::RelativeMse(_) => assert!(mse <= claimed, "{what}: {mse} > {claimed}"),
    }
    raw.len() as f64 / payload.len() as f64
}

fn bounds(scale: f64) -> Vec<Bound> {
    let mut bounds = Vec::new();
    for part in [1e-1, 1e-3, 1e-5] {
        bounds.extend([Bound::Range(part), Bound::RelativeMse(part)]);
        bounds.extend([Bound::Absolute(part * scale), Bound::Mse(part * part * scale * scale)]);
    }
    bounds
}

fn assert_held_by_all(scale: f64, values: &[f64]) {
    for dtype in FLOATS {
        for bound in bounds(scale) {
            assert_held(bound, dtype, values);
        }
    }
}

#[test]
fn normal() {
    let mut random = Random(1);
    for (count, scale) in [(1, 1.0), (7, 1.0), (5000, 1e-3), (70_000, 30.0)] {
        let values: Vec<f64> = (0..count).map(|_| random.normal() * scale).collect();
        assert_held_by_all(scale, &values);
    }
}

#[test]
fn heavy_tailed() {
    let mut random = Random(2);
    let values: Vec<f64> = (0..70_000).map(|_| random.cauchy()).collect();
    assert_held_by_all(1.0, &values);
}

#[test]
fn constant() {
    for value in [0.0, -0.0, 1.5, -1e30, 6e-8] {
        assert_held_by_all(1.0, &[value; 2000]);
    }
}

#[test]
fn denormal() {
    let mut random = Random(3);
    // Denormal in half, single, double precision.
    for scale in [1e-7, 1e-40, 1e-310] {
        let values: Vec<f64> = (0..5000).map(|_| random.normal() * scale).collect();
        assert_held_by_all(scale, &values);
    }
}

#[test]
fn laden_with_nan_and_infinities() {
    let mut random = Random(4);
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN, -0.0];
    for odd_in in [2, 5, 1000] {
        let values: Vec<f64> = (0..20_000)
            .map(|index| if index % odd_in == 0 { odd[random.below(odd.len())] } else { random.normal() })
            .collect();
        assert_held_by_all(1.0, &values);
    }
    assert_held_by_all(1.0, &[f64::NAN; 3000]);
    assert_held_by_all(1.0, &[f64::INFINITY; 3000]);
}

#[test]
fn nan_payloads_keep_their_bits() {
    let mut random = Random(5);
    let mut raw: Vec<u8> = (0..10_000).flat_map(|_| (random.normal() as f32).to_le_bytes()).collect();
    raw[4000..4004].copy_from_slice(&0x7f81_2345_u32.to_le_bytes());
    raw[8000..8004].copy_from_slice(&0xffff_0001_u32.to_le_bytes());
    let (encoded, _, back) = round_trip(Codec::Bounded(Bound::Range(1e-3)), DType::F32, 100, &raw);
    assert!(!encoded.codec.is_lossless());
    assert_eq!(back[4000..4004], raw[4000..4004]);
    assert_eq!(back[8000..8004], raw[8000..8004]);
}

#[test]
fn channels_of_mixed_scale() {
    let mut random = Random(6);
    let values: Vec<f64> = (0..80_000).map(|index| random.normal() * f64::from(index % 64 - 40).exp2()).collect();
    assert_held_by_all(1.0, &values);
    // A few massive channels, as residual streams have.
    let values: Vec<f64> =
        (0..80_000).map(|index| random.normal() * if index % 576 == 3 { 3e4 } else { 1.0 }).collect();
    assert_held_by_all(1.0, &values);
}

#[test]
fn values_at_the_edge_of_the_type() {
    let mut random = Random(7);
    let values: Vec<f64> = (0..4000).map(|_| f64::MAX * (random.uniform() - 0.5) * 2.0).collect();
    assert_held_by_all(f64::MAX, &values);
    let values: Vec<f64> = (0..4000).map(|_| f64::from(f32::MAX) * (random.uniform() - 0.5) * 2.0).collect();
    assert_held_by_all(f64::from(f32::MAX), &values);
}

#[test]
fn the_rate_of_normal_numbers_is_near_theory() {
    let mut random = Random(8);
    let values: Vec<f64> = (0..300_000).map(|_| random.normal()).collect();
    // A uniform quantiser needs log2(sqrt(2 pi e) / step) bits, with a step of sqrt(12 MSE): 5.24 bits for 1e-3.
    let bits = 16.0 / assert_held(Bound::RelativeMse(1e-3), DType::Bf16, &values);
    assert!((5.2..5.35).contains(&bits), "{bits}");
    // An error of 1e-2 is a step of 2e-2: 7.69 bits.
    let bits = 32.0 / assert_held(Bound::Absolute(1e-2), DType::F32, &values);
    assert!((7.65..7.85).contains(&bits), "{bits}");
}

#[test]
fn steps_that_are_all_as_likely_are_counted() {
    let mut random = Random(10);
    let values: Vec<f64> = (0..300_000).map(|_| random.uniform()).collect();
    // 50 thousand steps of 2e-5 are 15.61 bits; the first 255 of them hold next to nothing.
    let bits = 32.0 / assert_held(Bound::Absolute(1e-5), DType::F32, &values);
    assert!((15.6..15.9).contains(&bits), "{bits}");
}

#[test]
fn types_without_a_bound_are_kept_exactly() {
    let raw = Random(9).bytes(40_000).iter().map(|byte| byte % 5).collect::<Vec<u8>>();
    for &dtype in DType::ALL.iter().filter(|dtype| !FLOATS.contains(dtype)) {
        let (encoded, _, back) = round_trip(Codec::Bounded(Bound::Absolute(1.0)), dtype, 10, &raw);
        assert!(encoded.codec.is_lossless() && back == raw, "{dtype}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bits_within_any_bound(
        dtype in proptest::sample::select(FLOATS.to_vec()),
        (seed, length, exponents) in (any::<u64>(), 1_usize..2000, 0.0_f64..60.0),
        (kind, figure) in (0_usize..4, -40.0_f64..20.0),
    ) {
        let mut random = Random(seed);
        let values: Vec<f64> =
            (0..length).map(|_| random.normal() * (random.uniform() * exponents - exponents / 2.0).exp2()).collect();
        let figure = figure.exp2();
        let bound = [Bound::Absolute(figure), Bound::Range(figure), Bound::Mse(figure), Bound::RelativeMse(figure)][kind];
        assert_held(bound, dtype, &values);
    }
}
