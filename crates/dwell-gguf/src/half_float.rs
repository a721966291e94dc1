//! 16-bit floats, which the standard library does not have yet.

/// The nearest 16-bit float, ties to even, as its bits.
pub(crate) fn f16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    // 65520 is halfway between the largest 16-bit float and the next power of two.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    // Below 2^-14 the result is a multiple of 2^-24.
    if magnitude < 0x3880_0000 {
        let steps = f32::from_bits(magnitude) * 16_777_216.0;
        return sign | steps.round_ties_even() as u16;
    }
    let rebased = magnitude - 0x3800_0000;
    let round_up = 0x0fff + ((rebased >> 13) & 1);
    sign | ((rebased + round_up) >> 13) as u16
}

/// The value of a 16-bit float.
#[cfg(test)]
pub(crate) fn f16_value(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((bits >> 10) & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1024.0 + fraction) * 2f32.powi(exponent - 25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_16_bit_float_comes_back_as_itself() {
        for bits in 0..=u16::MAX {
            let value = f16_value(bits);
            if !value.is_nan() {
                assert_eq!(f16_bits(value), bits, "{value}");
            }
        }
        assert!(f16_value(f16_bits(f32::NAN)).is_nan());
    }

    #[test]
    fn a_value_between_two_goes_to_the_nearer_and_a_tie_to_the_even_one() {
        for bits in 0..0x7bff_u16 {
            let (low, high) = (f16_value(bits), f16_value(bits + 1));
            let middle = low + (high - low) / 2.0;
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            assert_eq!(f16_bits(middle), even, "{middle}");
            assert_eq!(f16_bits(f32::from_bits(middle.to_bits() - 1)), bits, "below {middle}");
            assert_eq!(f16_bits(f32::from_bits(middle.to_bits() + 1)), bits + 1, "above {middle}");
        }
    }

    #[test]
    fn values_beyond_the_range_are_infinite() {
        assert_eq!(f16_bits(65_519.9), 0x7bff);
        assert_eq!(f16_bits(65_520.0), 0x7c00);
        assert_eq!(f16_bits(f32::NEG_INFINITY), 0xfc00);
    }
}
