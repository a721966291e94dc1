//! Parquet's hybrid of run-length encoding and bit packing, for numbers of few bits: definition levels and places in a
//! dictionary.

/// Numbers that are packed together: so many of them take whole bytes, whatever their width.
const GROUP: usize = 8;
/// Widest numbers of which a group fits into 128 bits.
const NARROW_BITS: u32 = 16;

/// Bits that the numbers below `count` need.
pub(crate) fn bits_of(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// Appends numbers of so many bits. Runs of at least eight cost a few bytes; the rest is packed.
pub(crate) fn encode(numbers: &[u32], bits: u32, out: &mut Vec<u8>) {
    let (mut packed_from, mut at) = (0, 0);
    while at + GROUP <= numbers.len() {
        match run_of_whole_groups(&numbers[at..]) {
            0 => at += GROUP,
            run => {
                pack(&numbers[packed_from..at], bits, out);
                repeat(numbers[at], run, bits, out);
                at += run;
                packed_from = at;
            }
        }
    }
    match &numbers[packed_from..] {
        [] => {}
        // Padding a few equal numbers to a group would take more bytes than a run.
        tail @ [first, ..] if tail.iter().all(|number| number == first) => repeat(*first, tail.len(), bits, out),
        tail => pack(tail, bits, out),
    }
}

/// Length of the run at the front if it fills a group, else 0.
#[inline]
fn run_of_whole_groups(numbers: &[u32]) -> usize {
    let first = numbers[0];
    if numbers[..GROUP].iter().any(|number| *number != first) {
        return 0;
    }
    numbers.iter().position(|number| *number != first).unwrap_or(numbers.len())
}

/// Appends a run.
pub(crate) fn repeat(number: u32, count: usize, bits: u32, out: &mut Vec<u8>) {
    put_varint((count as u64) << 1, out);
    out.extend_from_slice(&number.to_le_bytes()[..bits.div_ceil(8) as usize]);
}

/// Packs numbers, padded with zeros to whole groups: a reader knows how many there are.
fn pack(numbers: &[u32], bits: u32, out: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    let (groups, rest) = numbers.as_chunks::<GROUP>();
    put_varint((numbers.len().div_ceil(GROUP) as u64) << 1 | 1, out);
    match bits {
        8 => out.extend(groups.iter().flatten().map(|number| *number as u8)),
        16 => out.extend(groups.iter().flatten().flat_map(|number| (*number as u16).to_le_bytes())),
        _ => groups.iter().for_each(|group| pack_group(group, bits, out)),
    }
    if !rest.is_empty() {
        let mut group = [0; GROUP];
        group[..rest.len()].copy_from_slice(rest);
        pack_group(&group, bits, out);
    }
}

#[inline]
fn pack_group(group: &[u32; GROUP], bits: u32, out: &mut Vec<u8>) {
    if bits <= NARROW_BITS {
        let mut packed = 0;
        for (shift, number) in (0..).step_by(bits.max(1) as usize).zip(group) {
            packed |= u128::from(*number) << shift;
        }
        return out.extend_from_slice(&packed.to_le_bytes()[..bits as usize]);
    }
    let (mut held, mut held_bits) = (0u64, 0);
    for number in group {
        held |= u64::from(*number) << held_bits;
        held_bits += bits;
        while held_bits >= 8 {
            out.push(held as u8);
            held >>= 8;
            held_bits -= 8;
        }
    }
}

/// Appends a number in groups of 7 bits.
pub(crate) fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(numbers: &[u32], bits: u32) -> Vec<u8> {
        let mut out = Vec::new();
        encode(numbers, bits, &mut out);
        out
    }

    #[test]
    fn numbers_are_packed_from_the_lowest_bit() {
        // The example of the format's specification.
        assert_eq!(encoded(&[0, 1, 2, 3, 4, 5, 6, 7], 3), [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
    }

    #[test]
    fn runs_cost_their_length_and_one_number() {
        assert_eq!(encoded(&[5; 100], 3), [100 << 1 & 0x7f | 0x80, 1, 5]);
        assert_eq!(encoded(&[7; 3], 9), [3 << 1, 7, 0]);
        assert_eq!(encoded(&[0; 20], 0), [20 << 1]);
    }

    #[test]
    fn a_run_between_others_ends_their_group() {
        let numbers: Vec<u32> = (0..8).chain([1; 11]).chain([2, 0]).collect();
        assert_eq!(
            encoded(&numbers, 3),
            [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010, 11 << 1, 1, 0b11, 0b0000_0010, 0, 0]
        );
    }

    #[test]
    fn wide_numbers_are_packed_like_narrow_ones() {
        let numbers = [0x1_ffff, 0, 1, 0x1_0001, 5, 6, 7, 0x1_fffe];
        let mut bits = 0u64;
        let bytes = encoded(&numbers, 17);
        for (place, expected) in numbers.iter().enumerate() {
            let at = place * 17;
            bits = bytes[1 + at / 8..].iter().take(4).rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
            assert_eq!((bits >> (at % 8)) as u32 & 0x1_ffff, *expected);
        }
        assert_ne!(bits, 0);
    }

    #[test]
    fn as_many_bits_as_the_greatest_number_has() {
        assert_eq!([0, 1, 2, 3, 4, 5, 256, 257].map(bits_of), [0, 0, 1, 2, 2, 3, 8, 9]);
    }
}
