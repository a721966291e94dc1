//! Sets of bytes, held as ranges.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

/// First byte and one past the last.
pub type ByteRange = (u64, u64);

/// A set of bytes that grows; touching ranges become one.
#[derive(Debug, Default)]
pub(crate) struct RangeSet {
    /// First byte to one past the last.
    ranges: BTreeMap<u64, u64>,
    /// The range that was found last. A tensor is touched as a whole again and again, so it mostly answers alone.
    recent: ByteRange,
}

impl RangeSet {
    /// Adds a range and says how many of its bytes are new.
    pub(crate) fn insert(&mut self, (start, end): ByteRange) -> u64 {
        if start >= end || self.recent_covers((start, end)) {
            return 0;
        }
        let mut merged = (start, end);
        let mut known_bytes = 0;
        if let Some((&before_start, &before_end)) = self.ranges.range(..=start).next_back()
            && before_end >= start
        {
            if before_end >= end {
                self.recent = (before_start, before_end);
                return 0;
            }
            known_bytes += before_end - start;
            merged.0 = before_start;
        }
        // Looked up anew each time, because a range that was joined is taken out.
        while let Some((&next_start, &next_end)) = self.ranges.range((Excluded(start), Included(end))).next() {
            known_bytes += next_end.min(end) - next_start;
            merged.1 = merged.1.max(next_end);
            self.ranges.remove(&next_start);
        }
        self.ranges.insert(merged.0, merged.1);
        self.recent = merged;
        end - start - known_bytes
    }

    fn recent_covers(&self, (start, end): ByteRange) -> bool {
        self.recent.0 <= start && end <= self.recent.1
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        tree_bytes::<u64, u64>(self.ranges.len())
    }
}

/// Memory of a tree with so many entries, whose nodes are two thirds full on average.
pub(crate) fn tree_bytes<K, V>(entries: usize) -> usize {
    entries * size_of::<(K, V)>() * 3 / 2
}

/// Which bytes lie in any of some ranges, and which in more than one. Both are sorted and disjoint; ranges that touch are one.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    pub(crate) once: Vec<ByteRange>,
    pub(crate) twice: Vec<ByteRange>,
}

impl Coverage {
    pub(crate) fn of(ranges: impl Iterator<Item = ByteRange>) -> Self {
        let mut coverage = Self::default();
        for range in sorted(ranges) {
            // All ranges before this one begin no later, so what it shares with them is one piece.
            let reached = coverage.once.last().map_or(0, |&(_, end)| end);
            append(&mut coverage.twice, (range.0, range.1.min(reached)));
            append(&mut coverage.once, range);
        }
        coverage
    }
}

/// The bytes that lie in any of the ranges, sorted and disjoint.
pub(crate) fn union(ranges: impl Iterator<Item = ByteRange>) -> Vec<ByteRange> {
    let mut united = Vec::new();
    sorted(ranges).into_iter().for_each(|range| append(&mut united, range));
    united
}

/// By first byte. Mostly a few lists that are sorted already come one after the other: a stable sort only merges those.
fn sorted(ranges: impl Iterator<Item = ByteRange>) -> Vec<ByteRange> {
    let mut ranges: Vec<ByteRange> = ranges.collect();
    ranges.sort_by_key(|&(start, _)| start);
    ranges
}

/// Adds a range to a sorted list none of whose ranges begins after it.
fn append(united: &mut Vec<ByteRange>, (start, end): ByteRange) {
    match united.last_mut() {
        _ if start >= end => {}
        Some((_, last_end)) if start <= *last_end => *last_end = end.max(*last_end),
        _ => united.push((start, end)),
    }
}

/// How many bytes the sorted, disjoint ranges hold.
pub(crate) fn byte_count(ranges: &[ByteRange]) -> u64 {
    ranges.iter().map(|(start, end)| end - start).sum()
}

/// How many pages the sorted, disjoint ranges touch; a page that two ranges share counts once.
pub(crate) fn page_count(ranges: impl Iterator<Item = ByteRange>) -> u64 {
    let mut pages = 0;
    let mut counted_to = 0;
    for (start, end) in ranges {
        let first = (start >> dwell_events::PAGE_SHIFT).max(counted_to);
        let after_last = ((end - 1) >> dwell_events::PAGE_SHIFT) + 1;
        pages += after_last.saturating_sub(first);
        counted_to = after_last.max(counted_to);
    }
    pages
}

/// How many bytes of `ranges` are not in `taken`; both are sorted and disjoint.
pub(crate) fn bytes_outside(ranges: impl Iterator<Item = ByteRange>, taken: &[ByteRange]) -> u64 {
    let mut rest = taken;
    ranges
        .map(|(start, end)| {
            rest = &rest[ended_by(rest, start)..];
            let overlapping = rest.iter().take_while(|&&(taken_start, _)| taken_start < end);
            let inside: u64 = overlapping.map(|&(from, to)| to.min(end) - from.max(start)).sum();
            end - start - inside
        })
        .sum()
}

/// How many of the ranges end at or before a position. Mostly a few, which are passed one by one.
fn ended_by(ranges: &[ByteRange], position: u64) -> usize {
    const PASSED: usize = 8;
    let is_before = |&(_, end): &ByteRange| end <= position;
    let few = ranges.iter().take(PASSED).take_while(|range| is_before(range)).count();
    if few < PASSED { few } else { few + ranges[few..].partition_point(is_before) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_ranges_holds_the_same_bytes_as_a_list_of_flags(
            inserts in prop::collection::vec((0u64..60, 1u64..12), 0..30),
        ) {
            let mut set = RangeSet::default();
            let mut flags = [false; 80];
            for (start, size) in inserts {
                let range = (start, start + size);
                let bytes = start as usize..(start + size) as usize;
                let new = flags[bytes.clone()].iter().filter(|flag| !**flag).count() as u64;
                prop_assert_eq!(set.insert(range), new);
                flags[bytes].fill(true);
            }
            let ranges: Vec<ByteRange> = set.ranges.into_iter().collect();
            prop_assert_eq!(byte_count(&ranges), flags.iter().filter(|flag| **flag).count() as u64);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }

        #[test]
        fn coverage_is_the_same_as_counted_by_byte(ranges in prop::collection::vec((0u64..40, 0u64..12), 0..20)) {
            let mut counts = [0u32; 60];
            ranges.iter().for_each(|&(start, size)| {
                counts[start as usize..(start + size) as usize].iter_mut().for_each(|count| *count += 1);
            });
            let ranges = || ranges.iter().map(|&(start, size)| (start, start + size));
            let bytes = |least: u32| -> Vec<u64> { (0..60).filter(|&byte| counts[byte as usize] >= least).collect() };
            let held = |ranges: &[ByteRange]| -> Vec<u64> { ranges.iter().flat_map(|&(from, to)| from..to).collect() };
            let coverage = Coverage::of(ranges());
            prop_assert_eq!(held(&coverage.once), bytes(1));
            prop_assert_eq!(held(&coverage.twice), bytes(2));
            prop_assert!(coverage.twice.windows(2).all(|pair| pair[0].1 < pair[1].0), "touching ranges are one");
            prop_assert_eq!(bytes_outside([(0, 60)].into_iter(), &coverage.once), 60 - byte_count(&coverage.once));
            prop_assert_eq!(union(ranges()), coverage.once);
        }
    }

    #[test]
    fn a_page_that_two_ranges_share_counts_once() {
        assert_eq!(page_count([(0, 1), (100, 5000), (8191, 8193)].into_iter()), 3);
        assert_eq!(page_count([(u64::MAX - 1, u64::MAX)].into_iter()), 1);
        assert_eq!(page_count(std::iter::empty()), 0);
    }
}
