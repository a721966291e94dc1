//! A bound holds on what a decoder gives back, measured here again from nothing but the elements.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Random, elements, round_trip, values};
use dwell_codec::{Bound, Codec, DType};
use proptest::prelude::*;

const FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];

/// Elements of a vector, where a test does not say otherwise.
const VECTOR: usize = 64;

/// The magnitude above which values of a vector are outliers, by definition.
fn outliers_above(vector: &[f64]) -> f64 {
    let finite: Vec<f64> = vector.iter().map(|value| value.abs()).filter(|size| size.is_finite()).collect();
    let mut limit = f64::MAX;
    for _ in 0..4 {
        let kept: Vec<f64> = finite.iter().copied().filter(|size| *size <= limit).collect();
        let threshold = 16.0 * kept.iter().sum::<f64>() / kept.len() as f64;
        let outliers = finite.iter().filter(|size| **size > threshold).count();
        if kept.iter().all(|size| *size <= threshold) || outliers > (finite.len() / 32).max(1) {
            break;
        }
        limit = threshold;
    }
    limit
}

/// The figure that a bound stands for in one vector, and how many values it is of, by definition.
fn figure(bound: Bound, vector: &[f64]) -> (f64, f64) {
    let limit = outliers_above(vector);
    let kept: Vec<f64> = vector.iter().copied().filter(|value| value.abs() <= limit).collect();
    if kept.is_empty() {
        return (0.0, 0.0);
    }
    let count = kept.len() as f64;
    let mean = kept.iter().sum::<f64>() / count;
    let figure = match bound {
        Bound::Absolute(limit) | Bound::Mse(limit) => limit,
        Bound::Range(part) => {
            let largest = kept.iter().copied().fold(f64::MIN, f64::max);
            part * (largest - kept.iter().copied().fold(f64::MAX, f64::min))
        }
        Bound::RelativeMse(part) => part * kept.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count,
    };
    (figure, count)
}

/// The cosine between the finite values of a vector and what became of them; 1 where there are none.
fn cosine(before: &[f64], after: &[f64]) -> f64 {
    let pairs = || before.iter().zip(after).filter(|(before, _)| before.is_finite());
    let dot: f64 = pairs().map(|(before, after)| before * after).sum();
    let norm: f64 = pairs().map(|(before, _)| before * before).sum();
    let norm_after: f64 = pairs().map(|(_, after)| after * after).sum();
    match (norm > 0.0, norm_after > 0.0) {
        (true, true) => dot / (norm * norm_after).sqrt(),
        (true, false) => 0.0,
        (false, _) => 1.0,
    }
}

/// Checks what is promised of one vector; returns whether it lost anything, and its figure.
fn assert_vector_held(bound: Bound, before: &[f64], after: &[f64], what: &str) -> (bool, f64) {
    let (limit, kept) = figure(bound, before);
    let is_relative = matches!(bound, Bound::Range(_) | Bound::RelativeMse(_));
    let outliers_above = if is_relative { outliers_above(before) } else { f64::MAX };
    let (mut max_error, mut squares) = (0.0_f64, 0.0);
    for (before, after) in before.iter().zip(after).filter(|(before, _)| before.is_finite()) {
        let error = (before - after).abs();
        assert!(error == 0.0 || before.abs() <= outliers_above, "{what}: the outlier {before} became {after}");
        max_error = if error <= max_error { max_error } else { error };
        squares += error * error;
    }
    match bound {
        Bound::Absolute(_) | Bound::Range(_) => {
            assert!(max_error <= limit * (1.0 + 1e-9), "{what}: {max_error} > {limit}");
        }
        Bound::RelativeMse(_) => {
            assert!(squares <= limit * kept * (1.0 + 1e-9), "{what}: {squares} > {limit} of {kept}");
        }
        Bound::Mse(_) => {}
    }
    (max_error > 0.0, limit)
}

/// Checks everything that is promised of one tensor; returns its ratio.
fn assert_held(bound: Bound, dtype: DType, vector_len: usize, given: &[f64]) -> f64 {
    let raw = elements(dtype, given);
    let before = values(dtype, &raw);
    let (encoded, payload, back) = round_trip(Codec::Bounded(bound), dtype, vector_len, &raw);
    let what = format!("{bound} {dtype} as {}, {} elements in vectors of {vector_len}", encoded.codec, given.len());
    let ratio = raw.len() as f64 / payload.len().max(1) as f64;
    if encoded.codec.is_lossless() {
        assert!(back == raw, "{what}");
        return ratio;
    }
    let after = values(dtype, &back);
    let size = dtype.size_bytes();
    for (index, value) in before.iter().enumerate().filter(|(_, value)| !value.is_finite()) {
        assert_eq!(back[index * size..][..size], raw[index * size..][..size], "{what}: bits of {value}");
    }
    let claimed = encoded.bound.unwrap();
    let (mut largest, mut min_cosine) = (0.0_f64, 1.0_f64);
    for (before, after) in before.chunks(vector_len).zip(after.chunks(vector_len)) {
        let (has_lost, limit) = assert_vector_held(bound, before, after, &what);
        assert!(!has_lost || limit <= claimed * (1.0 + 1e-9), "{what}: {claimed} for {limit}");
        largest = largest.max(limit);
        min_cosine = min_cosine.min(cosine(before, after));
    }
    assert!(claimed <= largest * (1.0 + 1e-9), "{what}: {claimed} for {largest}");
    assert!(
        (encoded.min_cosine.unwrap() - min_cosine).abs() <= 1e-6,
        "{what}: {:?} is {min_cosine}",
        encoded.min_cosine
    );
    let errors =
        before.iter().zip(&after).filter(|(before, _)| before.is_finite()).map(|(one, other)| (one - other).abs());
    let mse = errors.clone().map(|error| error * error).sum::<f64>() / errors.clone().count() as f64;
    assert_eq!(encoded.max_error, Some(errors.fold(0.0, f64::max)), "{what}");
    assert!((encoded.mse.unwrap() - mse).abs() <= 1e-12 * mse, "{what}: {:?} is {mse}", encoded.mse);
    assert!(!matches!(bound, Bound::Mse(_)) || mse <= claimed, "{what}: {mse} > {claimed}");
    ratio
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
            assert_held(bound, dtype, VECTOR, values);
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
    let bits = 16.0 / assert_held(Bound::RelativeMse(1e-3), DType::Bf16, 3000, &values);
    assert!((5.2..5.35).contains(&bits), "{bits}");
    // An error of 1e-2 is a step of 2e-2: 7.69 bits.
    let bits = 32.0 / assert_held(Bound::Absolute(1e-2), DType::F32, 3000, &values);
    assert!((7.65..7.85).contains(&bits), "{bits}");
}

#[test]
fn steps_that_are_all_as_likely_are_counted() {
    let mut random = Random(10);
    let values: Vec<f64> = (0..300_000).map(|_| random.uniform()).collect();
    // 50 thousand steps of 2e-5 are 15.61 bits; the first 255 of them hold next to nothing.
    let bits = 32.0 / assert_held(Bound::Absolute(1e-5), DType::F32, VECTOR, &values);
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

/// Normal vectors whose scales differ by 2^8, as those of the positions of a prompt do, and massive activations in one.
fn with_massive_activations(vectors: usize, vector_len: usize) -> Vec<f64> {
    let mut random = Random(11);
    let mut values = Vec::new();
    for _ in 0..vectors {
        let scale = (random.uniform() * 8.0 - 4.0).exp2();
        values.extend((0..vector_len).map(|_| random.normal() * scale));
    }
    (values[3], values[vector_len - 1]) = (22_516.0, -1_483.5);
    values
}

#[test]
fn massive_activations_leave_every_other_value_as_it_was() {
    let (vectors, vector_len) = (700, 576);
    let given = with_massive_activations(vectors, vector_len);
    for (bound, dtype, least_ratio, least_cosine) in [
        (Bound::Range(1e-3), DType::F32, 3.3, 0.9999),
        (Bound::RelativeMse(1e-3), DType::F32, 5.5, 0.999),
        (Bound::RelativeMse(1e-3), DType::Bf16, 2.8, 0.999),
        (Bound::RelativeMse(1e-3), DType::F16, 2.8, 0.999),
    ] {
        let raw = elements(dtype, &given);
        let (before, size) = (values(dtype, &raw), dtype.size_bytes());
        let (encoded, payload, back) = round_trip(Codec::Bounded(bound), dtype, vector_len, &raw);
        let what = format!("{bound} {dtype}");
        for massive in [3, vector_len - 1] {
            assert_eq!(back[massive * size..][..size], raw[massive * size..][..size], "{what}");
        }
        let after = values(dtype, &back);
        for (position, (before, after)) in before.chunks(vector_len).zip(after.chunks(vector_len)).enumerate() {
            // Of the vector with the massive ones, the others alone: together, they would count for nothing.
            let found = cosine(&before[4..vector_len - 1], &after[4..vector_len - 1]);
            assert!(found > least_cosine, "{what}: {found} at {position}");
        }
        assert!(encoded.min_cosine.unwrap() > least_cosine, "{what}: {:?}", encoded.min_cosine);
        let ratio = raw.len() as f64 / payload.len() as f64;
        assert!(ratio > least_ratio, "{what}: {ratio}");
    }
}

#[test]
fn an_absolute_bound_is_the_same_for_all_vectors() {
    let given = with_massive_activations(300, 576);
    let raw = elements(DType::F32, &given);
    let (encoded, _, back) = round_trip(Codec::Bounded(Bound::Absolute(0.25)), DType::F32, 576, &raw);
    assert_eq!(encoded.bound, Some(0.25));
    // In a vector of scale 1/16 everything becomes 0, and the summary says so.
    let lost = values(DType::F32, &back).chunks(576).filter(|vector| vector.iter().all(|value| *value == 0.0)).count();
    assert!(lost > 0 && encoded.min_cosine == Some(0.0), "{lost} {:?}", encoded.min_cosine);
}

#[test]
fn tensors_without_vectors() {
    for dtype in FLOATS {
        for bound in bounds(1.0) {
            assert_held(bound, dtype, 1, &[]);
            assert_held(bound, dtype, 5, &[]);
            for value in [0.0, -0.0, 1.5, f64::NAN, f64::INFINITY, 1e-40] {
                assert_held(bound, dtype, 1, &[value]);
                assert_held(bound, dtype, 1, &[value; 300]);
                assert_held(bound, dtype, 300, &[value; 300]);
            }
        }
    }
}

#[test]
fn zeros_between_other_vectors_cost_next_to_nothing() {
    let mut random = Random(12);
    let vector = |index: usize, random: &mut Random| -> Vec<f64> {
        (0..576).map(|_| if index.is_multiple_of(2) { 0.0 } else { random.normal() }).collect()
    };
    let given: Vec<f64> = (0..200).flat_map(|index| vector(index, &mut random)).collect();
    let ratio = assert_held(Bound::RelativeMse(1e-3), DType::F32, 576, &given);
    assert!(ratio > 7.5, "{ratio}");
}

#[test]
fn vectors_longer_than_a_block_are_held_in_parts() {
    let mut random = Random(13);
    let given: Vec<f64> =
        (0..2 * 128_256).map(|index| random.normal() * if index < 64_128 { 1.0 } else { 100.0 }).collect();
    for bound in [Bound::Range(1e-3), Bound::RelativeMse(1e-3)] {
        let ratio = assert_held(bound, DType::F32, 64_128, &given);
        let raw = elements(DType::F32, &given);
        let (_, payload, _) = round_trip(Codec::Bounded(bound), DType::F32, 128_256, &raw);
        assert!((raw.len() as f64 / payload.len() as f64 - ratio).abs() < 1e-9, "{bound}");
    }
}

/// A value that codecs stumble over, or a normal one.
fn any_value(random: &mut Random, scale: f64, odd_in: usize) -> f64 {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e-7, -1e-40, 1e-310, 3e4 * scale, -1e6 * scale];
    if random.below(odd_in) == 0 { odd[random.below(odd.len())] } else { random.normal() * scale }
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
        assert_held(bound, dtype, VECTOR, &values);
    }

    #[test]
    fn any_vectors_within_any_bound(
        dtype in proptest::sample::select(FLOATS.to_vec()),
        (seed, vectors, vector_len) in (any::<u64>(), 1_usize..12, 1_usize..700),
        (exponents, odd_in) in (0.0_f64..60.0, 2_usize..200),
        (kind, figure) in (0_usize..4, -30.0_f64..4.0),
    ) {
        let mut random = Random(seed);
        let mut values = Vec::new();
        for _ in 0..vectors {
            let scale = (random.uniform() * exponents - exponents / 2.0).exp2();
            values.extend((0..vector_len).map(|_| any_value(&mut random, scale, odd_in)));
        }
        let figure = figure.exp2();
        let bound = [Bound::Absolute(figure), Bound::Range(figure), Bound::Mse(figure), Bound::RelativeMse(figure)][kind];
        assert_held(bound, dtype, vector_len, &values);
    }
}
