//! The float types that `bounded` takes, and the type it computes them in.

use std::ops::{Add, Mul, Sub};

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

/// Elements that go through the steps of the codec together; they stay in the L1 cache.
pub(super) const CHUNK: usize = 768;

/// A type that values are computed in.
pub(super) trait Work:
    Copy + Default + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// The largest finite value.
    const MAX: Self;
    /// No number.
    const NAN: Self;
    /// The nearest value; infinite beyond the largest.
    fn from_f64(value: f64) -> Self;
    /// The largest value that is not above a positive one.
    fn at_most(value: f64) -> Self;
    /// The same value.
    fn to_f64(self) -> f64;
    /// Whether it is a normal number.
    fn is_normal(self) -> bool;
    /// The value without its sign.
    fn magnitude(self) -> Self;
    /// 1 divided by it.
    fn inverse(self) -> Self;
    /// `self * inverse`, rounded to an integer; anything at all where that is no integer of 22 bits.
    fn quantise(self, inverse: Self) -> i32;
    /// `index * step`, the same on every machine.
    fn reconstruct(index: i32, step: Self) -> Self;
}

macro_rules! work {
    ($float:ty, $rounder:literal) => {
        impl Work for $float {
            const MAX: Self = Self::MAX;
            const NAN: Self = Self::NAN;

            fn from_f64(value: f64) -> Self {
                value as Self
            }

            fn at_most(value: f64) -> Self {
                let nearest = value as Self;
                if f64::from(nearest) > value { nearest.next_down() } else { nearest }
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }

            fn is_normal(self) -> bool {
                self.is_normal()
            }

            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }

            fn inverse(self) -> Self {
                1.0 / self
            }

            // Adding a large number leaves no bits for the fraction, and the integer in the lowest ones.
            #[inline(always)]
            fn quantise(self, inverse: Self) -> i32 {
                let rounder: Self = $rounder;
                (self * inverse + rounder).to_bits().wrapping_sub(rounder.to_bits()) as i32
            }

            #[inline(always)]
            fn reconstruct(index: i32, step: Self) -> Self {
                index as Self * step
            }
        }
    };
}

work!(f32, 12_582_912.0); // 1.5 * 2^23
work!(f64, 6_755_399_441_055_744.0); // 1.5 * 2^52

/// A type of elements. Slices are of equal numbers of elements, at most [`CHUNK`].
pub(super) trait Source {
    /// What its values are computed in.
    type Work: Work;
    /// Bytes of an element.
    const BYTES: usize;
    /// Whether few bits of mantissa make its rounding as coarse as usual steps.
    const IS_COARSE: bool;
    /// Elements to values.
    fn load(raw: &[u8], values: &mut [Self::Work]);
    /// Each value to the nearest that an element can have.
    fn round(values: &mut [Self::Work]);
    /// Values that went through [`Source::round`] to elements.
    fn store(values: &[Self::Work], raw: &mut [u8]);
}

macro_rules! exact_source {
    ($float:ident) => {
        impl Source for $float {
            type Work = Self;
            const BYTES: usize = size_of::<Self>();
            const IS_COARSE: bool = false;

            fn load(raw: &[u8], values: &mut [Self]) {
                for (value, element) in values.iter_mut().zip(raw.chunks_exact(Self::BYTES)) {
                    *value = element.try_into().map_or(0.0, Self::from_le_bytes);
                }
            }

            fn round(_values: &mut [Self]) {}

            fn store(values: &[Self], raw: &mut [u8]) {
                for (value, element) in values.iter().zip(raw.chunks_exact_mut(Self::BYTES)) {
                    element.copy_from_slice(&value.to_le_bytes());
                }
            }
        }
    };
}

exact_source!(f32);
exact_source!(f64);

/// `bfloat16`, the upper half of a single.
pub(super) struct Bf16;

impl Source for Bf16 {
    type Work = f32;
    const BYTES: usize = 2;
    const IS_COARSE: bool = true;

    fn load(raw: &[u8], values: &mut [f32]) {
        for (value, element) in values.iter_mut().zip(raw.chunks_exact(2)) {
            *value = f32::from_bits(u32::from(u16::from_le_bytes([element[0], element[1]])) << 16);
        }
    }

    // To nearest, ties to even. A NaN could be lost, but a reconstructed value is none.
    fn round(values: &mut [f32]) {
        for value in values {
            let bits = value.to_bits();
            *value = f32::from_bits(bits.wrapping_add(0x7fff).wrapping_add(bits >> 16 & 1) & 0xffff_0000);
        }
    }

    fn store(values: &[f32], raw: &mut [u8]) {
        for (value, element) in values.iter().zip(raw.chunks_exact_mut(2)) {
            element.copy_from_slice(&((value.to_bits() >> 16) as u16).to_le_bytes());
        }
    }
}

/// `float16`.
pub(super) struct F16;

impl Source for F16 {
    type Work = f32;
    const BYTES: usize = 2;
    const IS_COARSE: bool = true;

    fn load(raw: &[u8], values: &mut [f32]) {
        let mut bits = [0; CHUNK];
        for (bits, element) in bits.iter_mut().zip(raw.chunks_exact(2)) {
            *bits = u16::from_le_bytes([element[0], element[1]]);
        }
        bits[..values.len()].reinterpret_cast::<half::f16>().convert_to_f32_slice(values);
    }

    fn round(values: &mut [f32]) {
        let mut bits = [0_u16; CHUNK];
        let halves = bits[..values.len()].reinterpret_cast_mut::<half::f16>();
        halves.convert_from_f32_slice(values);
        halves.convert_to_f32_slice(values);
    }

    fn store(values: &[f32], raw: &mut [u8]) {
        let mut bits = [0_u16; CHUNK];
        let halves = &mut bits[..values.len()];
        halves.reinterpret_cast_mut::<half::f16>().convert_from_f32_slice(values);
        for (bits, element) in halves.iter().zip(raw.chunks_exact_mut(2)) {
            element.copy_from_slice(&bits.to_le_bytes());
        }
    }
}
