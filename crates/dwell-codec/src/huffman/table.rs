//! Code lengths in a payload: the first symbol, the last, and for each between them half a byte.

use super::{Lengths, MAX_CODE_BITS};

/// Half a byte that is followed by another: how many symbols do not occur, less [`SHORTEST_GAP`].
const GAP: u8 = 15;
const SHORTEST_GAP: usize = 2;
const LONGEST_GAP: usize = SHORTEST_GAP + 15;

/// Appends the lengths. At least one symbol must occur.
pub(crate) fn write_lengths(lengths: &Lengths, out: &mut Vec<u8>) {
    let first = lengths.iter().position(|&length| length > 0).unwrap_or(0);
    let last = lengths.iter().rposition(|&length| length > 0).unwrap_or(0);
    out.extend([first as u8, last as u8]);
    let halves = halves_of(&lengths[first..=last]);
    out.extend(halves.chunks(2).map(|pair| pair[0] | pair.get(1).map_or(0, |high| high << 4)));
}

fn halves_of(mut lengths: &[u8]) -> Vec<u8> {
    let mut halves = Vec::with_capacity(lengths.len());
    while let Some(&length) = lengths.first() {
        let gap = lengths.iter().take(LONGEST_GAP).take_while(|&&length| length == 0).count();
        if gap >= SHORTEST_GAP {
            halves.extend([GAP, (gap - SHORTEST_GAP) as u8]);
        } else {
            halves.push(length);
        }
        lengths = &lengths[gap.max(1)..];
    }
    halves
}

/// Takes lengths from the front of `payload`; `None` if they are no whole code.
pub(crate) fn read_lengths(payload: &mut &[u8]) -> Option<Lengths> {
    let (&[first, last], rest) = payload.split_first_chunk()?;
    let mut halves = rest.iter().flat_map(|&byte| [byte & 15, byte >> 4]);
    let mut lengths = [0; 256];
    let (mut symbol, end, mut taken) = (usize::from(first), usize::from(last) + 1, 0_usize);
    while symbol < end {
        let half = halves.next()?;
        taken += 1;
        if half == GAP {
            symbol += usize::from(halves.next()?) + SHORTEST_GAP;
            taken += 1;
        } else if u32::from(half) <= MAX_CODE_BITS {
            lengths[symbol] = half;
            symbol += 1;
        } else {
            return None;
        }
    }
    *payload = rest.get(taken.div_ceil(2)..)?;
    is_whole(&lengths).then_some(lengths)
}

/// Whether every sequence of bits begins with exactly one code.
fn is_whole(lengths: &Lengths) -> bool {
    let space: u32 =
        lengths.iter().filter(|&&length| length > 0).map(|&length| 1 << (MAX_CODE_BITS - u32::from(length))).sum();
    space == 1 << MAX_CODE_BITS
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn written(codes: &[(usize, u8)]) -> Vec<u8> {
        let mut lengths = [0; 256];
        codes.iter().for_each(|&(symbol, length)| lengths[symbol] = length);
        let mut out = Vec::new();
        write_lengths(&lengths, &mut out);
        out
    }

    #[test]
    fn whole_codes_come_back() {
        for codes in [&[(0, 1), (255, 1)][..], &[(3, 1), (4, 2), (6, 3), (200, 3)], &[(9, 1), (28, 2), (100, 2)]] {
            let bytes = written(codes);
            let mut rest = bytes.as_slice();
            let lengths = read_lengths(&mut rest).unwrap();
            assert!(rest.is_empty());
            assert_eq!(lengths.iter().filter(|&&length| length > 0).count(), codes.len());
            assert!(codes.iter().all(|&(symbol, length)| lengths[symbol] == length), "{codes:?}");
        }
    }

    #[test]
    fn codes_with_gaps_or_too_many_are_refused() {
        let all_short: Vec<(usize, u8)> = (0..256).map(|symbol| (symbol, 1)).collect();
        for codes in [&[(0, 1), (1, 2)][..], &[(7, 1)], &[(0, 1), (1, 1), (2, 1)], &all_short, &[(0, 12), (1, 1)]] {
            assert!(read_lengths(&mut written(codes).as_slice()).is_none(), "{codes:?}");
        }
    }
}
