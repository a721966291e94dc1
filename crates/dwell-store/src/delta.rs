//! Parquet's packed differences (`DELTA_BINARY_PACKED`) of numbers of 64 bits.
//!
//! ```text
//! head: numbers of a block · parts of a block · numbers · the first one
//! block: least difference · bits of each part · what each difference has above the least, packed
//! ```

use crate::hybrid::put_varint;

/// Differences of a block.
const BLOCK: usize = 128;
/// Differences that are packed with the same number of bits.
const PART: usize = 32;
const PARTS: usize = BLOCK / PART;

/// Appends numbers. Differences wrap, so that any numbers may follow each other.
pub(crate) fn encode(numbers: &[u64], out: &mut Vec<u8>) {
    put_varint(BLOCK as u64, out);
    put_varint(PARTS as u64, out);
    put_varint(numbers.len() as u64, out);
    let Some((&first, rest)) = numbers.split_first() else { return put_signed(0, out) };
    put_signed(first as i64, out);
    let mut before = first;
    for block in rest.chunks(BLOCK) {
        let mut differences = [0; BLOCK];
        for (difference, number) in differences.iter_mut().zip(block) {
            *difference = number.wrapping_sub(before) as i64;
            before = *number;
        }
        encode_block(&differences[..block.len()], out);
    }
}

fn encode_block(differences: &[i64], out: &mut Vec<u8>) {
    let least = differences.iter().copied().fold(i64::MAX, i64::min);
    put_signed(least, out);
    let mut above = [0; BLOCK];
    for (above, difference) in above.iter_mut().zip(differences) {
        *above = difference.wrapping_sub(least) as u64;
    }
    let parts = above.as_chunks::<PART>().0;
    let bits: [u32; PARTS] =
        std::array::from_fn(|part| u64::BITS - parts[part].iter().fold(0, |all, it| all | it).leading_zeros());
    out.extend(bits.map(|bits| bits as u8));
    for (part, bits) in parts.iter().zip(bits).take(differences.len().div_ceil(PART)) {
        pack(part, bits, out);
    }
}

/// Packs numbers of so many bits, from the lowest bit on.
#[inline]
fn pack(part: &[u64; PART], bits: u32, out: &mut Vec<u8>) {
    if bits == 0 {
        return;
    }
    let (mut packed, mut words) = ([0u8; PART * 8], 0);
    let (mut held, mut held_bits) = (0u64, 0);
    for number in part {
        held |= number << held_bits;
        held_bits += bits;
        if held_bits >= u64::BITS {
            packed[words..words + 8].copy_from_slice(&held.to_le_bytes());
            words += 8;
            held_bits -= u64::BITS;
            held = number.checked_shr(bits - held_bits).unwrap_or(0);
        }
    }
    if held_bits > 0 {
        packed[words..words + 8].copy_from_slice(&held.to_le_bytes());
    }
    out.extend_from_slice(&packed[..PART * bits as usize / 8]);
}

fn put_signed(number: i64, out: &mut Vec<u8>) {
    put_varint((number << 1 ^ number >> 63) as u64, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification_have_these_bytes() {
        // 1, 2, 3, 4, 5: differences of 1, so the least is 1 and nothing is above it.
        let mut out = Vec::new();
        encode(&[1, 2, 3, 4, 5], &mut out);
        assert_eq!(out, [128, 1, 4, 5, 2, 2, 0, 0, 0, 0]);
        // 7, 5, 3, 1, 2, 3, 4, 5: differences -2, -2, -2, 1, 1, 1, 1, above the least 0, 0, 0, 3, 3, 3, 3 in two bits.
        out.clear();
        encode(&[7, 5, 3, 1, 2, 3, 4, 5], &mut out);
        assert_eq!(out, [&[128, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0b1100_0000, 0b0011_1111][..], &[0; 6]].concat());
    }

    #[test]
    fn numbers_of_64_bits_are_packed_whole() {
        let mut out = Vec::new();
        encode(&[0, 1 << 63, u64::MAX], &mut out);
        let (head, packed) = out.split_at(out.len() - PART * 8);
        assert_eq!(&head[head.len() - PARTS..], [64, 0, 0, 0]);
        let above: Vec<u64> = packed.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        assert_eq!(above[..3], [0, u64::MAX, 0]);
    }
}
