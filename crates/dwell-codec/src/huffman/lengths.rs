//! How long each symbol's code is.

use super::{Counts, Lengths, MAX_CODE_BITS};

const LIMIT: usize = MAX_CODE_BITS as usize;

/// Lengths of a Huffman code that is no longer than the limit. At least two symbols must occur.
pub(crate) fn code_lengths(counts: &Counts) -> Lengths {
    let mut by_count: Vec<(u32, u8)> = counts
        .iter()
        .zip(0_u8..=255)
        .filter(|(count, _)| **count > 0)
        .map(|(&count, symbol)| (count, symbol))
        .collect();
    by_count.sort_unstable();
    let mut codes_of = limited(&depths(&by_count));
    let mut lengths = [0; 256];
    // The rarest symbols get the longest codes.
    let mut length = LIMIT;
    for &(_, symbol) in &by_count {
        while codes_of[length] == 0 {
            length -= 1;
        }
        codes_of[length] -= 1;
        lengths[usize::from(symbol)] = length as u8;
    }
    lengths
}

/// The depth of every leaf of the Huffman tree over ascending counts: merged nodes come in ascending order too, so two queues do.
fn depths(by_count: &[(u32, u8)]) -> Vec<u32> {
    let leaves = by_count.len();
    let mut weights: Vec<u64> = by_count.iter().map(|&(count, _)| u64::from(count)).collect();
    let mut parents = vec![0; 2 * leaves - 1];
    let (mut leaf, mut merged) = (0, leaves);
    for node in leaves..2 * leaves - 1 {
        let mut weight = 0;
        for _ in 0..2 {
            let take_leaf = leaf < leaves && (merged == node || weights[leaf] <= weights[merged]);
            let child = if take_leaf { &mut leaf } else { &mut merged };
            weight += weights[*child];
            parents[*child] = node;
            *child += 1;
        }
        weights.push(weight);
    }
    let mut depths = vec![0; 2 * leaves - 1];
    for node in (0..2 * leaves - 2).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    depths.truncate(leaves);
    depths
}

/// How many codes have each length, after those beyond the limit were cut and the others made longer to pay for it.
fn limited(depths: &[u32]) -> [u32; LIMIT + 1] {
    let mut codes_of = [0_u32; LIMIT + 1];
    for &depth in depths {
        codes_of[(depth as usize).min(LIMIT)] += 1;
    }
    let space_of = |(length, &codes): (usize, &u32)| codes << (LIMIT - length);
    let mut space: u32 = codes_of.iter().enumerate().skip(1).map(space_of).sum();
    while space > 1 << LIMIT {
        codes_of[LIMIT] -= 1;
        if let Some(length) = (1..LIMIT).rev().find(|&length| codes_of[length] > 0) {
            codes_of[length] -= 1;
            codes_of[length + 1] += 2;
        }
        space -= 1;
    }
    codes_of
}
