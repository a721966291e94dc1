//! How often every byte was loaded and stored.
//!
//! Counts are held as their changes from one address to the next: an access changes two of them, however many bytes with
//! different counts lie between. A KV cache that is loaded as a whole would otherwise have to be counted cell by cell.

use dwell_events::OpType;
use rustc_hash::FxHashMap;

use crate::distribution::Distribution;
use crate::ranges::ByteRange;

/// Loads and stores of every byte.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ByteUses {
    /// By the first byte from which on the counts differ from those before it.
    changes: FxHashMap<u64, Change>,
}

/// By how much the counts of a byte differ from those of the byte before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Change {
    loads: i64,
    stores: i64,
}

impl Change {
    fn of(op_type: OpType, by: i64) -> Self {
        match op_type {
            OpType::Load => Self { loads: by, stores: 0 },
            OpType::Store => Self { loads: 0, stores: by },
        }
    }

    fn add(&mut self, other: Change) {
        self.loads += other.loads;
        self.stores += other.stores;
    }
}

impl ByteUses {
    /// Counts an access.
    pub(crate) fn add(&mut self, (start, end): ByteRange, op_type: OpType) {
        if start < end {
            self.changes.entry(start).or_default().add(Change::of(op_type, 1));
            self.changes.entry(end).or_default().add(Change::of(op_type, -1));
        }
    }
}

/// Bytes by how often they were loaded, and by how often they were stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct UseTotals {
    pub(crate) loads: Distribution,
    pub(crate) stores: Distribution,
}

impl UseTotals {
    /// Of the bytes that any of these touched; a byte that several touched has the sum of their counts.
    pub(crate) fn of<'a>(uses: impl Iterator<Item = &'a ByteUses>) -> Self {
        let mut changes: Vec<(u64, Change)> =
            uses.flat_map(|uses| uses.changes.iter().map(|(&address, &change)| (address, change))).collect();
        changes.sort_unstable_by_key(|&(address, _)| address);
        let (mut totals, mut counts, mut from) = (Self::default(), Change::default(), 0);
        for (address, change) in changes {
            totals.add_bytes(counts, address - from);
            counts.add(change);
            from = address;
        }
        totals
    }

    fn add_bytes(&mut self, counts: Change, bytes: u64) {
        if counts != Change::default() {
            self.loads.add(counts.loads as u64, bytes);
            self.stores.add(counts.stores as u64, bytes);
        }
    }

    /// Adds the memory of another run.
    pub(crate) fn merge(&mut self, other: &UseTotals) {
        self.loads.merge(&other.loads);
        self.stores.merge(&other.stores);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn points(distribution: &Distribution) -> Vec<(f64, u64)> {
        distribution.points().collect()
    }

    #[test]
    fn bytes_that_two_lists_touched_have_the_sum_of_their_counts() {
        let (mut first, mut second) = (ByteUses::default(), ByteUses::default());
        first.add((0, 10), OpType::Load);
        second.add((5, 15), OpType::Load);
        second.add((5, 15), OpType::Store);
        let totals = UseTotals::of([&first, &second].into_iter());
        assert_eq!(points(&totals.loads), [(1.0, 10), (2.0, 5)]);
        assert_eq!(points(&totals.stores), [(0.0, 5), (1.0, 10)]);
    }

    proptest! {
        #[test]
        fn counts_are_those_of_every_byte(
            accesses in prop::collection::vec((0u64..40, 0u64..12, any::<bool>(), any::<bool>()), 0..60),
        ) {
            let mut regions = [ByteUses::default(), ByteUses::default()];
            let mut counts = [(0u64, 0u64); 60];
            for (start, size, is_store, is_second) in accesses {
                let op_type = if is_store { OpType::Store } else { OpType::Load };
                regions[usize::from(is_second)].add((start, start + size), op_type);
                for count in &mut counts[start as usize..(start + size) as usize] {
                    if is_store { count.1 += 1 } else { count.0 += 1 }
                }
            }
            let mut expected = UseTotals::default();
            for (loads, stores) in counts.into_iter().filter(|counts| *counts != (0, 0)) {
                expected.loads.add(loads, 1);
                expected.stores.add(stores, 1);
            }
            let found = UseTotals::of(regions.iter());
            prop_assert_eq!(points(&found.loads), points(&expected.loads));
            prop_assert_eq!(points(&found.stores), points(&expected.stores));
        }
    }
}
