//! Sets of addresses as ranges, in order and without overlaps.

use std::ops::Range;

/// Bytes of all ranges.
pub(super) fn bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// What is in both.
pub(super) fn both(one: &[Range<u64>], other: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut found, mut at) = (Vec::new(), 0);
    for range in one {
        while other.get(at).is_some_and(|candidate| candidate.end <= range.start) {
            at += 1;
        }
        let overlapping = other[at..].iter().take_while(|candidate| candidate.start < range.end);
        found.extend(overlapping.map(|candidate| candidate.start.max(range.start)..candidate.end.min(range.end)));
    }
    found
}

/// What is in the first and not in the second.
pub(super) fn only_first(first: &[Range<u64>], second: &[Range<u64>]) -> Vec<Range<u64>> {
    let shared = both(first, second);
    let (mut left, mut at) = (Vec::new(), 0);
    for range in first {
        let mut start = range.start;
        while let Some(taken) = shared.get(at).filter(|taken| taken.start < range.end) {
            if start < taken.start {
                left.push(start..taken.start);
            }
            start = taken.end;
            at += 1;
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_where_others_begin_and_end() {
        let (one, other) = ([0..10, 20..30, 40..50], [5..22, 25..27, 29..45, 60..70]);
        assert_eq!(both(&one, &other), [5..10, 20..22, 25..27, 29..30, 40..45]);
        assert_eq!(only_first(&one, &other), [0..5, 22..25, 27..29, 45..50]);
        assert_eq!(bytes(&one), 30);
        assert_eq!((both(&one, &[]), only_first(&one, &[])), (Vec::new(), one.to_vec()));
    }
}
