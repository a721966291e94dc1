//! Symbols to bits.

use super::{Counts, Lengths, MAX_CODE_BITS, STREAMS, canonical_codes, part_len};

/// Symbols between two writes: their codes and a started byte fit into 64 bits.
const GROUP: usize = 5;

/// Codes and their lengths, by symbol.
pub(crate) struct EncodeTable {
    codes: [u16; 256],
    lengths: Lengths,
}

impl EncodeTable {
    pub(crate) fn new(lengths: Lengths) -> Self {
        Self { codes: canonical_codes(&lengths), lengths }
    }

    /// Bits that symbols with these counts take.
    pub(crate) fn bits(&self, counts: &Counts) -> u64 {
        counts.iter().zip(&self.lengths).map(|(&count, &length)| u64::from(count) * u64::from(length)).sum()
    }

    /// Codes one stream into `scratch`, which is long enough; returns its bytes.
    fn encode(&self, symbols: &[u8], scratch: &mut [u8]) -> usize {
        let (mut bits, mut filled, mut position) = (0_u64, 0_u32, 0_usize);
        let mut put = |symbols: &[u8]| {
            for &symbol in symbols {
                bits |= u64::from(self.codes[usize::from(symbol)]) << (filled & 63);
                filled = filled.wrapping_add(u32::from(self.lengths[usize::from(symbol)]));
            }
            if let Some(room) = scratch.get_mut(position..position.wrapping_add(8)) {
                room.copy_from_slice(&bits.to_le_bytes());
            }
            position = position.wrapping_add((filled >> 3) as usize);
            bits >>= filled & !7 & 63;
            filled &= 7;
        };
        let mut groups = symbols.chunks_exact(GROUP);
        groups.by_ref().for_each(&mut put);
        put(groups.remainder());
        position + usize::from(filled > 0)
    }
}

/// Appends the streams, each after its length.
pub(crate) fn encode_streams(table: &EncodeTable, symbols: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    let part = part_len(symbols.len()).max(1);
    let longest = (part * MAX_CODE_BITS as usize).div_ceil(8) + 8;
    if scratch.len() < longest {
        scratch.resize(longest, 0);
    }
    let sizes_at = out.len();
    out.extend([0; 2 * STREAMS]);
    for (index, symbols) in symbols.chunks(part).enumerate() {
        let bytes = table.encode(symbols, scratch);
        out[sizes_at + 2 * index..][..2].copy_from_slice(&(bytes as u16).to_le_bytes());
        out.extend_from_slice(&scratch[..bytes]);
    }
}
