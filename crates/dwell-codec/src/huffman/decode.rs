//! Bits to symbols.

use super::{Lengths, MAX_CODE_BITS, STREAMS, canonical_codes, part_len};

const ENTRIES: usize = 1 << MAX_CODE_BITS;

/// Symbols between two reads: that many codes are in any 57 bits.
const GROUP: usize = 5;

/// For any next bits, the symbol (low byte) and the length of its code (high byte).
pub(crate) struct DecodeTable {
    entries: Box<[u16; ENTRIES]>,
}

impl Default for DecodeTable {
    fn default() -> Self {
        Self { entries: Box::new([0; ENTRIES]) }
    }
}

impl DecodeTable {
    /// Fills the table for a whole code.
    pub(crate) fn fill(&mut self, lengths: &Lengths) {
        let codes = canonical_codes(lengths);
        for (symbol, (&code, &length)) in codes.iter().zip(lengths).enumerate().filter(|(_, (_, length))| **length > 0)
        {
            let entry = symbol as u16 | u16::from(length) << 8;
            self.entries[usize::from(code)..].iter_mut().step_by(1 << length).for_each(|slot| *slot = entry);
        }
    }
}

/// One stream and how far it has been read.
#[derive(Clone, Copy)]
struct Stream<'a> {
    bytes: &'a [u8],
    position_bits: usize,
}

impl Stream<'_> {
    /// The next 57 bits or more, if 8 bytes are left.
    #[inline(always)]
    fn peek(&self) -> Option<u64> {
        let at = self.position_bits >> 3;
        let bytes = self.bytes.get(at..at.wrapping_add(8))?;
        let word = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
        Some(word >> (self.position_bits & 7))
    }

    /// The next bits, with zeros after the end.
    fn peek_end(&self) -> u64 {
        let rest = self.bytes.get(self.position_bits >> 3..).unwrap_or_default();
        let mut word = [0; 8];
        let held = rest.len().min(8);
        word[..held].copy_from_slice(&rest[..held]);
        u64::from_le_bytes(word) >> (self.position_bits & 7)
    }

    /// Decodes what is left of a stream; false if it does not end where its symbols do.
    fn finish(&mut self, table: &DecodeTable, out: &mut [u8]) -> bool {
        for symbol in out {
            let entry = table.entries[self.peek_end() as usize % ENTRIES];
            *symbol = entry as u8;
            self.position_bits += usize::from(entry >> 8);
        }
        self.position_bits.div_ceil(8) == self.bytes.len()
    }
}

/// Takes the streams from the front of `payload` and fills `out`; `None` if they do not fit it.
pub(crate) fn decode_streams(table: &DecodeTable, payload: &mut &[u8], out: &mut [u8]) -> Option<()> {
    let (sizes, mut rest) = payload.split_first_chunk::<{ 2 * STREAMS }>()?;
    let mut streams = [Stream { bytes: &[], position_bits: 0 }; STREAMS];
    for (stream, size) in streams.iter_mut().zip(sizes.chunks_exact(2)) {
        let size = usize::from(u16::from_le_bytes([size[0], size[1]]));
        (stream.bytes, rest) = rest.split_at_checked(size)?;
    }
    *payload = rest;

    let part = part_len(out.len()).max(1);
    let mut parts = out.chunks_mut(part);
    let mut outs: [&mut [u8]; STREAMS] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    let done = decode_side_by_side(table, &mut streams, &mut outs);
    let mut tails = streams.iter_mut().zip(outs);
    tails.all(|(stream, out)| stream.finish(table, &mut out[done..])).then_some(())
}

/// Decodes groups of all streams in turns while each has 8 bytes; returns the symbols of each that are done.
fn decode_side_by_side(table: &DecodeTable, streams: &mut [Stream; STREAMS], outs: &mut [&mut [u8]; STREAMS]) -> usize {
    let [first, second, third, fourth] = outs;
    let groups = first
        .chunks_exact_mut(GROUP)
        .zip(second.chunks_exact_mut(GROUP))
        .zip(third.chunks_exact_mut(GROUP).zip(fourth.chunks_exact_mut(GROUP)));
    let mut done = 0;
    for ((first, second), (third, fourth)) in groups {
        let [Some(mut a), Some(mut b), Some(mut c), Some(mut d)] =
            [streams[0].peek(), streams[1].peek(), streams[2].peek(), streams[3].peek()]
        else {
            break;
        };
        let mut used = [0_u64; STREAMS];
        for index in 0..GROUP {
            first[index] = step(table, &mut a, &mut used[0]);
            second[index] = step(table, &mut b, &mut used[1]);
            third[index] = step(table, &mut c, &mut used[2]);
            fourth[index] = step(table, &mut d, &mut used[3]);
        }
        for (stream, used) in streams.iter_mut().zip(used) {
            stream.position_bits = stream.position_bits.wrapping_add(used as usize);
        }
        done += GROUP;
    }
    done
}

#[inline(always)]
fn step(table: &DecodeTable, word: &mut u64, used: &mut u64) -> u8 {
    let entry = table.entries[*word as usize % ENTRIES];
    let length = u64::from(entry >> 8);
    *word >>= length & 63;
    *used = used.wrapping_add(length);
    entry as u8
}

#[cfg(test)]
mod tests {
    use super::super::{EncodeTable, encode_streams};
    use super::*;

    #[test]
    fn streams_of_another_length_are_refused() {
        let mut lengths = [0; 256];
        lengths[..2].fill(1);
        let (mut stream, mut payload) = (Vec::new(), Vec::new());
        encode_streams(&EncodeTable::new(lengths), &[1; 100], &mut stream, &mut payload);
        let mut table = DecodeTable::default();
        table.fill(&lengths);
        // Parts of 25 symbols are 4 bytes: 33 would be 5, 16 would be 2.
        assert!(decode_streams(&table, &mut payload.as_slice(), &mut [0; 100]).is_some());
        assert!(decode_streams(&table, &mut payload.as_slice(), &mut [0; 132]).is_none());
        assert!(decode_streams(&table, &mut payload.as_slice(), &mut [0; 64]).is_none());
    }
}
