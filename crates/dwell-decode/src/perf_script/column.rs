//! Numbers that are set to the right of a column, read eight digits at a time.

use std::ops::Range;

/// Bytes that are looked at: a number with more digits is read elsewhere.
const WINDOW: usize = 16;
const SPACES: u128 = u128::from_le_bytes([b' '; WINDOW]);
const ZEROS: u128 = u128::from_le_bytes([b'0'; WINDOW]);
/// What makes a zero of a space.
const SPACE_TO_ZERO: u128 = SPACES ^ ZEROS;

/// A column that holds one number behind one space at least. Places are counted from where the reader says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    place: Range<usize>,
    /// The bytes of the window that are in the column.
    mask: u128,
}

impl Column {
    pub(super) fn new(place: Range<usize>) -> Self {
        let outside = WINDOW.saturating_sub(place.len());
        Self { place, mask: u128::MAX.checked_shl(8 * outside as u32).unwrap_or(0) }
    }

    pub(super) fn end(&self) -> usize {
        self.place.end
    }

    /// The digits with zeros before them; none if the column is not spaces and then something.
    #[inline(always)]
    fn digits(&self, line: &[u8], from: usize) -> Option<u128> {
        let bytes = u128::from_le_bytes(*line.get(..from + self.place.end)?.last_chunk::<WINDOW>()?);
        let window = bytes & self.mask | SPACES & !self.mask;
        let others = window ^ SPACES;
        let spaces = others.trailing_zeros() as usize / 8;
        let least_spaces = (WINDOW + 1).saturating_sub(self.place.len());
        if spaces == WINDOW || spaces < least_spaces || !self.is_blank_before_window(line, from) {
            return None;
        }
        Some(window | SPACE_TO_ZERO & ((1 << (8 * spaces)) - 1))
    }

    #[inline]
    fn is_blank_before_window(&self, line: &[u8], from: usize) -> bool {
        let before = self.place.start..self.place.end.saturating_sub(WINDOW).max(self.place.start);
        line[from + before.start..from + before.end].iter().all(|byte| *byte == b' ')
    }

    #[inline]
    pub(super) fn hex(&self, line: &[u8], from: usize) -> Option<u64> {
        let digits = self.digits(line, from)?;
        Some(eight_hex(digits as u64)? << 32 | eight_hex((digits >> 64) as u64)?)
    }

    #[inline]
    pub(super) fn decimal(&self, line: &[u8], from: usize) -> Option<u64> {
        sixteen_decimal(self.digits(line, from)?)
    }

    /// The digits of a column that is full of them, as those behind a point are.
    #[inline]
    pub(super) fn full_decimal(&self, line: &[u8]) -> Option<u64> {
        let bytes = u128::from_le_bytes(*line.get(..self.place.end)?.last_chunk::<WINDOW>()?);
        sixteen_decimal(bytes & self.mask | ZEROS & !self.mask)
    }
}

#[inline]
fn sixteen_decimal(digits: u128) -> Option<u64> {
    Some(eight_decimal(digits as u64)? * 100_000_000 + eight_decimal((digits >> 64) as u64)?)
}

const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Eight digits, the first in the lowest byte: pairs are added up, then fours, then all.
#[inline]
fn eight_decimal(text: u64) -> Option<u64> {
    let is_decimal = text & each(0xf0) | (text.wrapping_add(each(6)) & each(0xf0)) >> 4 == each(0x33);
    let pairs = (text & each(0x0f)).wrapping_mul(10 << 8 | 1) >> 8 & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_ffff_0000_ffff;
    is_decimal.then_some(fours.wrapping_mul(10_000 << 32 | 1) >> 32)
}

/// The same of hexadecimal digits. Letters differ from digits in one bit, by which the two are checked each their way.
#[inline]
fn eight_hex(text: u64) -> Option<u64> {
    let text = text.swap_bytes();
    let letters = (text & each(0x40)) >> 6;
    let of_letters = letters * 0xff;
    let low = text & each(0x0f);
    let is_other = (text ^ each(0x30)) & each(0xf0) & !of_letters | (text ^ each(0x40)) & each(0xd0) & of_letters;
    let is_above = (low + (each(6) & !of_letters | each(9) & of_letters)) & each(0x10);
    let is_below_a = !(low + each(0x0f)) & each(0x10) & of_letters;
    let nibbles = low + 9 * letters;
    let bytes = (nibbles | nibbles >> 4) & 0x00ff_00ff_00ff_00ff;
    let words = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
    (is_other | is_above | is_below_a == 0).then_some((words | words >> 16) & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_digits_are_what_the_standard_library_says() {
        let decimal = |text: &str| eight_decimal(u64::from_le_bytes(text.as_bytes().try_into().unwrap()));
        let hex = |text: &str| eight_hex(u64::from_le_bytes(text.as_bytes().try_into().unwrap()));
        for text in ["00000000", "12345678", "99999999", "0000090a"] {
            assert_eq!((decimal(text), hex(text)), (text.parse().ok(), u64::from_str_radix(text, 16).ok()));
        }
        for text in ["deadbeef", "0aF9fA00", "ffffffff"] {
            assert_eq!((decimal(text), hex(text)), (None, u64::from_str_radix(text, 16).ok()));
        }
    }

    #[test]
    fn any_other_byte_at_any_place_is_no_digit() {
        for at in 0..8 {
            for byte in 0..=u8::MAX {
                let mut text = *b"12345678";
                text[at] = byte;
                let number = u64::from_le_bytes(text);
                assert_eq!(eight_decimal(number).is_some(), byte.is_ascii_digit(), "{byte}");
                assert_eq!(eight_hex(number).is_some(), byte.is_ascii_hexdigit(), "{byte}");
            }
        }
    }

    #[test]
    fn a_column_has_one_number_behind_a_space() {
        let line = b"0123456789abcdef    12  7f 123456789abcdef01";
        let read = |place: Range<usize>| Column::new(place).hex(line, 0);
        assert_eq!(
            (read(16..22), read(22..26), Column::new(16..22).decimal(line, 0)),
            (Some(0x12), Some(0x7f), Some(12))
        );
        assert_eq!((read(20..22), read(16..26), read(16..19), read(26..44)), (None, None, None, None));
        assert_eq!(read(26..43), Some(0x1234_5678_9abc_def0));
        assert_eq!(Column::new(20..22).full_decimal(line), Some(12));
    }
}
