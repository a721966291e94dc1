//! Elements as numbers.

use dwell_codec::DType;
use half::{bf16, f16};

/// How the bits of an 8-bit float are meant.
#[derive(Clone, Copy)]
struct SmallFloat {
    mantissa_bits: u32,
    bias: i32,
    /// What the largest exponent stands for.
    top: Top,
}

#[derive(Clone, Copy, PartialEq)]
enum Top {
    /// Infinity and NaN, as IEEE has it.
    Special,
    /// Numbers, but NaN where all bits are set.
    NumbersButLast,
    /// Numbers; NaN is the pattern of -0.
    Numbers,
}

const E4M3FN: SmallFloat = SmallFloat { mantissa_bits: 3, bias: 7, top: Top::NumbersButLast };
const E4M3FNUZ: SmallFloat = SmallFloat { mantissa_bits: 3, bias: 8, top: Top::Numbers };
const E5M2: SmallFloat = SmallFloat { mantissa_bits: 2, bias: 15, top: Top::Special };
const E5M2FNUZ: SmallFloat = SmallFloat { mantissa_bits: 2, bias: 16, top: Top::Numbers };

/// Calls `each` with every number of some elements; complex numbers are two.
pub(crate) fn for_each_number(dtype: DType, elements: &[u8], mut each: impl FnMut(f64)) {
    match dtype {
        DType::Bool | DType::U8 => elements.iter().for_each(|byte| each(f64::from(*byte))),
        DType::I8 => elements.iter().for_each(|byte| each(f64::from(*byte as i8))),
        DType::U16 => numbers(elements, |bytes| each(f64::from(u16::from_le_bytes(bytes)))),
        DType::I16 => numbers(elements, |bytes| each(f64::from(i16::from_le_bytes(bytes)))),
        DType::U32 => numbers(elements, |bytes| each(f64::from(u32::from_le_bytes(bytes)))),
        DType::I32 => numbers(elements, |bytes| each(f64::from(i32::from_le_bytes(bytes)))),
        DType::U64 => numbers(elements, |bytes| each(u64::from_le_bytes(bytes) as f64)),
        DType::I64 => numbers(elements, |bytes| each(i64::from_le_bytes(bytes) as f64)),
        DType::F8E4M3Fn => elements.iter().for_each(|byte| each(small_float(*byte, E4M3FN))),
        DType::F8E4M3Fnuz => elements.iter().for_each(|byte| each(small_float(*byte, E4M3FNUZ))),
        DType::F8E5M2 => elements.iter().for_each(|byte| each(small_float(*byte, E5M2))),
        DType::F8E5M2Fnuz => elements.iter().for_each(|byte| each(small_float(*byte, E5M2FNUZ))),
        DType::F8E8M0Fnu => elements.iter().for_each(|byte| each(power_of_two(*byte))),
        DType::F16 => numbers(elements, |bytes| each(f16::from_le_bytes(bytes).to_f64())),
        DType::Bf16 => numbers(elements, |bytes| each(bf16::from_le_bytes(bytes).to_f64())),
        DType::F32 | DType::C64 => numbers(elements, |bytes| each(f64::from(f32::from_le_bytes(bytes)))),
        DType::F64 | DType::C128 => numbers(elements, |bytes| each(f64::from_le_bytes(bytes))),
    }
}

fn numbers<const N: usize>(elements: &[u8], mut each: impl FnMut([u8; N])) {
    elements.as_chunks().0.iter().for_each(|bytes| each(*bytes));
}

fn small_float(byte: u8, format: SmallFloat) -> f64 {
    let exponent_bits = 7 - format.mantissa_bits;
    let top_exponent = (1 << exponent_bits) - 1;
    let exponent = i32::from(byte & 0x7f) >> format.mantissa_bits;
    let mantissa = i32::from(byte) & ((1 << format.mantissa_bits) - 1);
    let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
    match format.top {
        Top::Numbers if byte == 0x80 => return f64::NAN,
        Top::NumbersButLast if byte & 0x7f == 0x7f => return f64::NAN,
        Top::Special if exponent == top_exponent && mantissa == 0 => return sign * f64::INFINITY,
        Top::Special if exponent == top_exponent => return f64::NAN,
        _ => {}
    }
    let unit = f64::from(1 << format.mantissa_bits);
    let fraction = f64::from(mantissa) / unit;
    let scale = |exponent: i32| 2_f64.powi(exponent - format.bias);
    if exponent == 0 { sign * fraction * scale(1) } else { sign * (1.0 + fraction) * scale(exponent) }
}

fn power_of_two(byte: u8) -> f64 {
    if byte == 0xff { f64::NAN } else { 2_f64.powi(i32::from(byte) - 127) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(dtype: DType, elements: &[u8]) -> Vec<f64> {
        let mut found = Vec::new();
        for_each_number(dtype, elements, |number| found.push(number));
        found
    }

    #[test]
    fn small_floats_have_the_values_of_their_standards() {
        assert_eq!(all(DType::F8E4M3Fn, &[0x7e, 0x01, 0x38, 0xb8]), [448.0, 2_f64.powi(-9), 1.0, -1.0]);
        assert_eq!(all(DType::F8E5M2, &[0x7b, 0x01, 0x3c, 0xfc]), [57344.0, 2_f64.powi(-16), 1.0, -f64::INFINITY]);
        assert_eq!(all(DType::F8E4M3Fnuz, &[0x7f, 0x01, 0x40]), [240.0, 2_f64.powi(-10), 1.0]);
        assert_eq!(all(DType::F8E5M2Fnuz, &[0x7f, 0x01, 0x40]), [57344.0, 2_f64.powi(-17), 1.0]);
        assert_eq!(all(DType::F8E8M0Fnu, &[127, 128]), [1.0, 2.0]);
        for (dtype, nan) in [(DType::F8E4M3Fn, 0x7f), (DType::F8E5M2, 0x7d), (DType::F8E4M3Fnuz, 0x80)] {
            assert!(all(dtype, &[nan])[0].is_nan(), "{dtype}");
        }
    }

    #[test]
    fn every_type_has_a_number_for_each_element() {
        for &dtype in DType::ALL {
            let parts = if matches!(dtype, DType::C64 | DType::C128) { 2 } else { 1 };
            assert_eq!(all(dtype, &vec![0; dtype.size_bytes() * 3]).len(), 3 * parts, "{dtype}");
        }
    }
}
