//! Turning rows of floats into the blocks of a tensor type.

use half::f16;

use crate::WeightType;

const SMALL_BLOCK: usize = 32;
const SUPER_BLOCK: usize = 256;
/// Largest value of the 6-bit scales and minima in a super-block.
const MOST_SIX_BITS: f32 = 63.0;

/// Append a row, which must be whole blocks.
pub(crate) fn append_row(weight_type: WeightType, row: &[f32], out: &mut Vec<u8>) {
    match weight_type {
        WeightType::F32 => row.iter().for_each(|value| out.extend(value.to_le_bytes())),
        WeightType::F16 => row.iter().for_each(|&value| append_half(value, out)),
        WeightType::Q8_0 => row.chunks_exact(SMALL_BLOCK).for_each(|block| append_q8_0(block, out)),
        WeightType::Q4_0 => row.chunks_exact(SMALL_BLOCK).for_each(|block| append_q4_0(block, out)),
        WeightType::Q4_1 => row.chunks_exact(SMALL_BLOCK).for_each(|block| append_q4_1(block, out)),
        WeightType::Q4_K => row.chunks_exact(SUPER_BLOCK).for_each(|block| append_q4_k(block, out)),
    }
}

fn append_half(value: f32, out: &mut Vec<u8>) {
    out.extend(f16::from_f32(value).to_le_bytes());
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The first half of the quants in the low nibbles, the second half in the high ones.
fn append_nibbles(quants: &[u8], out: &mut Vec<u8>) {
    let (low, high) = quants.split_at(quants.len() / 2);
    out.extend(low.iter().zip(high).map(|(low, high)| low | (high << 4)));
}

/// As `quantize_row_q8_0_ref` of ggml.
fn append_q8_0(block: &[f32], out: &mut Vec<u8>) {
    let largest = block.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
    let scale = largest / 127.0;
    append_half(scale, out);
    let inverse = inverse(scale);
    out.extend(block.iter().map(|value| (value * inverse).round() as i8 as u8));
}

/// As `quantize_row_q4_0_ref` of ggml: the value furthest from 0 becomes exactly -8 steps.
fn append_q4_0(block: &[f32], out: &mut Vec<u8>) {
    let furthest =
        block.iter().fold(0.0, |furthest: f32, &value| if value.abs() > furthest.abs() { value } else { furthest });
    let scale = furthest / -8.0;
    append_half(scale, out);
    let inverse = inverse(scale);
    let quants: Vec<u8> = block.iter().map(|value| ((value * inverse + 8.5) as u8).min(15)).collect();
    append_nibbles(&quants, out);
}

/// As `quantize_row_q4_1_ref` of ggml.
fn append_q4_1(block: &[f32], out: &mut Vec<u8>) {
    let (lowest, highest) = range(block);
    let scale = (highest - lowest) / 15.0;
    append_half(scale, out);
    append_half(lowest, out);
    let inverse = inverse(scale);
    let quants: Vec<u8> = block.iter().map(|value| (((value - lowest) * inverse + 0.5) as u8).min(15)).collect();
    append_nibbles(&quants, out);
}

/// A super-block of 8 blocks, each with a 6-bit scale and minimum.
///
/// ggml searches for the scales with the least error; here a block simply spans its range, which is as valid.
fn append_q4_k(block: &[f32], out: &mut Vec<u8>) {
    let blocks: Vec<(f32, f32)> = block.chunks_exact(SMALL_BLOCK).map(scale_and_depth).collect();
    let scale_unit = blocks.iter().fold(0.0, |most: f32, (scale, _)| most.max(*scale)) / MOST_SIX_BITS;
    let depth_unit = blocks.iter().fold(0.0, |most: f32, (_, depth)| most.max(*depth)) / MOST_SIX_BITS;
    append_half(scale_unit, out);
    append_half(depth_unit, out);

    let six_bits = |value: f32, unit: f32| (value * inverse(unit)).round().min(MOST_SIX_BITS) as u8;
    let mut scales = [0; 8];
    let mut depths = [0; 8];
    for (index, (scale, depth)) in blocks.iter().enumerate() {
        scales[index] = six_bits(*scale, scale_unit);
        depths[index] = six_bits(*depth, depth_unit);
    }
    append_six_bits(&scales, &depths, out);

    for (pair, values) in block.chunks_exact(2 * SMALL_BLOCK).enumerate() {
        let quants: Vec<u8> = values
            .iter()
            .enumerate()
            .map(|(position, value)| {
                let index = 2 * pair + position / SMALL_BLOCK;
                let depth = f32::from(depths[index]) * depth_unit;
                let steps = (value + depth) * inverse(f32::from(scales[index]) * scale_unit);
                (steps + 0.5).clamp(0.0, 15.0) as u8
            })
            .collect();
        append_nibbles(&quants, out);
    }
}

/// Step between quants, and how far below 0 the lowest value lies.
fn scale_and_depth(block: &[f32]) -> (f32, f32) {
    let (lowest, highest) = range(block);
    let depth = (-lowest).max(0.0);
    ((highest + depth).max(0.0) / 15.0, depth)
}

/// Eight scales and eight minima of 6 bits in 12 bytes, in ggml's order: the first four of each in the low bits of
/// bytes 0 to 7, the nibbles of the others in bytes 8 to 11 and their upper two bits on top of bytes 0 to 7.
fn append_six_bits(scales: &[u8; 8], depths: &[u8; 8], out: &mut Vec<u8>) {
    let with_top = |values: &[u8; 8], index: usize| values[index] | ((values[index + 4] >> 4) << 6);
    out.extend((0..4).map(|index| with_top(scales, index)));
    out.extend((0..4).map(|index| with_top(depths, index)));
    out.extend((4..8).map(|index| (scales[index] & 0x0f) | ((depths[index] & 0x0f) << 4)));
}

fn range(block: &[f32]) -> (f32, f32) {
    block.iter().fold((f32::MAX, f32::MIN), |(lowest, highest), &value| (lowest.min(value), highest.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    fn weights(count: usize) -> Vec<f32> {
        let mut random = SplitMix64::new(3);
        (0..count).map(|_| random.next_normal() * 0.02).collect()
    }

    fn encode(weight_type: WeightType, row: &[f32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        append_row(weight_type, row, &mut bytes);
        bytes
    }

    fn half(bytes: &[u8]) -> f32 {
        f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
    }

    fn nibble(bytes: &[u8], position: usize, half_block: usize) -> f32 {
        f32::from(if position < half_block { bytes[position] & 0x0f } else { bytes[position - half_block] >> 4 })
    }

    /// A decoder that follows ggml's `dequantize_row_*`, not the encoder above.
    fn decode(weight_type: WeightType, bytes: &[u8], position: usize) -> f32 {
        match weight_type {
            WeightType::F32 => f32::from_le_bytes(bytes[4 * position..][..4].try_into().unwrap()),
            WeightType::F16 => half(&bytes[2 * position..]),
            WeightType::Q8_0 => half(bytes) * f32::from(bytes[2 + position] as i8),
            WeightType::Q4_0 => half(bytes) * (nibble(&bytes[2..], position, 16) - 8.0),
            WeightType::Q4_1 => half(bytes) * nibble(&bytes[4..], position, 16) + half(&bytes[2..]),
            WeightType::Q4_K => {
                let (scales, quants) = (&bytes[4..16], &bytes[16..]);
                let index = position / 32;
                let (scale, depth) = if index < 4 {
                    (scales[index] & 63, scales[index + 4] & 63)
                } else {
                    let low = scales[index + 4];
                    ((low & 0x0f) | ((scales[index - 4] >> 6) << 4), (low >> 4) | ((scales[index] >> 6) << 4))
                };
                let quant = nibble(&quants[32 * (index / 2)..], position % 64, 32);
                half(bytes) * f32::from(scale) * quant - half(&bytes[2..]) * f32::from(depth)
            }
        }
    }

    #[test]
    fn a_half_is_the_nearest_and_a_tie_goes_to_the_even_one() {
        let bits_of = |value: f32| u16::from_le_bytes(encode(WeightType::F16, &[value]).try_into().unwrap());
        for bits in 0..0x7bff_u16 {
            let (low, high) = (f16::from_bits(bits).to_f32(), f16::from_bits(bits + 1).to_f32());
            let middle = low + (high - low) / 2.0;
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            assert_eq!((bits_of(low), bits_of(middle)), (bits, even), "{middle}");
            assert_eq!(bits_of(f32::from_bits(middle.to_bits() - 1)), bits, "below {middle}");
            assert_eq!(bits_of(f32::from_bits(middle.to_bits() + 1)), bits + 1, "above {middle}");
        }
        assert_eq!([65_519.9, 65_520.0, f32::NEG_INFINITY].map(bits_of), [0x7bff, 0x7c00, 0xfc00]);
    }

    #[test]
    fn a_block_has_the_bytes_of_its_type() {
        for weight_type in WeightType::ALL {
            let ggml_type = weight_type.ggml_type();
            let row = weights(512);
            assert_eq!(encode(weight_type, &row).len() as u64, ggml_type.row_bytes(512).unwrap(), "{weight_type:?}");
        }
    }

    #[test]
    fn decoded_values_are_within_a_step_of_the_weights() {
        for (weight_type, most_error) in [
            (WeightType::F32, 0.0),
            (WeightType::F16, 0.0001),
            (WeightType::Q8_0, 0.0003),
            (WeightType::Q4_0, 0.0045),
            (WeightType::Q4_1, 0.0045),
            (WeightType::Q4_K, 0.0045),
        ] {
            let block = weights(weight_type.ggml_type().block_values as usize);
            let bytes = encode(weight_type, &block);
            for (position, weight) in block.iter().enumerate() {
                let error = (decode(weight_type, &bytes, position) - weight).abs();
                assert!(error <= most_error, "{weight_type:?} at {position}: {weight} is off by {error}");
            }
        }
    }

    #[test]
    fn a_block_of_zeros_decodes_to_zeros() {
        for weight_type in WeightType::ALL {
            let zeros = vec![0.0; weight_type.ggml_type().block_values as usize];
            let bytes = encode(weight_type, &zeros);
            for position in 0..zeros.len() {
                assert_eq!(decode(weight_type, &bytes, position), 0.0, "{weight_type:?}");
            }
        }
    }

    #[test]
    fn a_block_that_is_all_above_zero_keeps_its_values() {
        let block: Vec<f32> = (0..256).map(|index| 1.0 + index as f32 / 256.0).collect();
        let bytes = encode(WeightType::Q4_K, &block);
        for (position, value) in block.iter().enumerate() {
            assert!((decode(WeightType::Q4_K, &bytes, position) - value).abs() < 0.1, "at {position}");
        }
    }
}
