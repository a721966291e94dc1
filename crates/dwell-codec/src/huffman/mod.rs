//! Canonical Huffman codes over bytes, of at most [`MAX_CODE_BITS`] bits, in [`STREAMS`] streams side by side.

mod decode;
mod encode;
mod lengths;
mod table;

pub(crate) use decode::{DecodeTable, decode_streams};
pub(crate) use encode::{EncodeTable, encode_streams};
pub(crate) use lengths::code_lengths;
pub(crate) use table::{read_lengths, write_lengths};

/// The longest code. Five of them and a started byte fit into 64 bits, and the decoder's table into the L1 cache.
pub(crate) const MAX_CODE_BITS: u32 = 11;

/// Streams that a decoder reads at once, to hide the time that each lookup takes.
pub(crate) const STREAMS: usize = 4;

/// Bits of each symbol's code, 0 for one that does not occur.
pub(crate) type Lengths = [u8; 256];

/// How often each byte occurs.
pub(crate) type Counts = [u32; 256];

/// Counts bytes. Four tables, so that a run of one byte does not wait for itself.
pub(crate) fn count(symbols: &[u8]) -> Counts {
    let mut tables = [[0_u32; 256]; 4];
    let mut groups = symbols.chunks_exact(4);
    for group in &mut groups {
        for (table, &symbol) in tables.iter_mut().zip(group) {
            table[usize::from(symbol)] = table[usize::from(symbol)].wrapping_add(1);
        }
    }
    for &symbol in groups.remainder() {
        tables[0][usize::from(symbol)] += 1;
    }
    std::array::from_fn(|symbol| tables.iter().map(|table| table[symbol]).sum())
}

/// Bits that the symbols need at least, each coded by itself.
pub(crate) fn entropy_bits(counts: &Counts) -> f64 {
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let of_one = |count: u32| f64::from(count) * (total as f64 / f64::from(count)).log2();
    counts.iter().filter(|&&count| count > 0).map(|&count| of_one(count)).sum()
}

/// The canonical code of every symbol, its first bit lowest.
fn canonical_codes(lengths: &Lengths) -> [u16; 256] {
    let mut of_length = [0_u16; MAX_CODE_BITS as usize + 1];
    for &length in lengths.iter().filter(|&&length| length > 0) {
        of_length[usize::from(length)] += 1;
    }
    let mut next = [0_u16; MAX_CODE_BITS as usize + 1];
    for length in 1..=MAX_CODE_BITS as usize {
        next[length] = (next[length - 1] + if length > 1 { of_length[length - 1] } else { 0 }) << 1;
    }
    let mut codes = [0_u16; 256];
    for (code, &length) in codes.iter_mut().zip(lengths).filter(|(_, length)| **length > 0) {
        let value = &mut next[usize::from(length)];
        *code = value.reverse_bits() >> (16 - u32::from(length));
        *value += 1;
    }
    codes
}

/// The parts of a plane that the streams hold, in order; some are empty where there are few symbols.
fn part_len(symbols: usize) -> usize {
    symbols.div_ceil(STREAMS)
}
