//! Which bytes a region touched, stored and stored again.
//!
//! Ranges are noted in a list that is sorted and merged when it has grown: sampled rows come to many ranges at random,
//! and a tree would be searched for every one of them.

use crate::ranges::{ByteRange, Coverage, union};

/// Ranges that are noted before they are merged, at least.
const NOTED_LEAST: usize = 64;

/// Merged ranges that are searched before a range is noted, at most: they stay in the cache.
const SEARCHED_MOST: usize = 256;

/// What was done to the bytes of one region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    /// Loaded or stored.
    touched: RangeLog,
    stored: RangeLog,
    /// Stored more than once, as far as the notes were merged.
    restored: Vec<ByteRange>,
    /// Stored where nobody saw it, and not since.
    unseen: Vec<ByteRange>,
    /// How often all of the range that was stored last is known to have been stored in a row.
    recent_stores: u32,
}

impl Footprint {
    /// Notes that bytes were touched.
    pub(crate) fn touch(&mut self, range: ByteRange) {
        if self.touched.recent_covers(range) || self.touched.few_cover(range) {
            return;
        }
        self.touched.note(range);
        if self.touched.is_full() {
            self.touched.merged = union(self.touched.take());
        }
    }

    /// Notes that bytes were stored. They count as touched only if that is noted too.
    pub(crate) fn store(&mut self, range: ByteRange) {
        if self.recent_stores > 1 && self.stored.recent_covers(range) {
            return;
        }
        self.recent_stores = if self.stored.recent == range { self.recent_stores + 1 } else { 1 };
        self.stored.note(range);
        if self.stored.is_full() {
            self.merge_stores();
        }
    }

    /// Notes that bytes were stored last where nobody saw it. The ranges that are noted so are disjoint.
    pub(crate) fn store_unseen(&mut self, range: ByteRange) {
        self.unseen.push(range);
    }

    /// What lies in two of the notes, or in a note and in what was merged before, was stored again.
    fn merge_stores(&mut self) {
        let Coverage { once, twice } = Coverage::of(self.stored.take());
        self.restored = union(self.restored.drain(..).chain(twice));
        self.stored.merged = once;
    }

    /// Merges all notes, so that the sets below are complete.
    pub(crate) fn close(&mut self) {
        self.touched.merged = union(self.touched.take());
        self.merge_stores();
        let again = Coverage::of(self.stored.merged.iter().copied().chain(self.unseen.drain(..))).twice;
        self.restored = union(self.restored.drain(..).chain(again));
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        let ranges = [&self.touched.noted, &self.touched.merged, &self.stored.noted, &self.stored.merged];
        let lists = ranges.into_iter().chain([&self.restored, &self.unseen]);
        lists.map(|ranges| ranges.capacity() * size_of::<ByteRange>()).sum()
    }

    /// Bytes loaded or stored, after [`Footprint::close`]; sorted and disjoint as the others.
    pub(crate) fn touched(&self) -> &[ByteRange] {
        &self.touched.merged
    }

    /// Bytes stored at least once.
    pub(crate) fn stored(&self) -> &[ByteRange] {
        &self.stored.merged
    }

    /// Bytes stored more than once.
    pub(crate) fn restored(&self) -> &[ByteRange] {
        &self.restored
    }
}

/// Ranges in the order in which they came, and what has been merged of them.
#[derive(Clone, Debug, Default)]
struct RangeLog {
    noted: Vec<ByteRange>,
    /// Sorted and disjoint.
    merged: Vec<ByteRange>,
    /// The range that was noted last. A tensor is touched as a whole again and again.
    recent: ByteRange,
}

impl RangeLog {
    fn recent_covers(&self, (start, end): ByteRange) -> bool {
        self.recent.0 <= start && end <= self.recent.1
    }

    /// Whether the merged ranges are few enough to be searched, and one of them covers the range.
    fn few_cover(&self, (start, end): ByteRange) -> bool {
        if self.merged.len() > SEARCHED_MOST {
            return false;
        }
        let after = self.merged.partition_point(|&(merged_start, _)| merged_start <= start);
        after > 0 && end <= self.merged[after - 1].1
    }

    fn note(&mut self, range: ByteRange) {
        self.recent = range;
        self.noted.push(range);
    }

    /// Waiting for as many as are merged already makes the whole cost that of sorting a few times.
    fn is_full(&self) -> bool {
        self.noted.len() >= self.merged.len().max(NOTED_LEAST)
    }

    /// All ranges, in any order.
    fn take(&mut self) -> impl Iterator<Item = ByteRange> + use<> {
        let (merged, noted) = (std::mem::take(&mut self.merged), std::mem::take(&mut self.noted));
        merged.into_iter().chain(noted)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ranges::byte_count;

    #[test]
    fn a_byte_counts_as_restored_from_its_second_store_on() {
        let mut footprint = Footprint::default();
        footprint.store((0, 8));
        footprint.store((4, 12));
        footprint.touch((0, 12));
        footprint.touch((20, 24));
        footprint.close();
        assert_eq!((footprint.stored(), footprint.restored()), (&[(0, 12)][..], &[(4, 8)][..]));
        assert_eq!(byte_count(footprint.touched()), 16);
    }

    proptest! {
        #[test]
        fn stores_are_counted_as_byte_by_byte(
            stores in prop::collection::vec((0u64..60, 1u64..9), 0..300),
        ) {
            let mut counts = [0u32; 70];
            let mut footprint = Footprint::default();
            for (start, size) in stores {
                footprint.store((start, start + size));
                footprint.touch((start, start + size));
                counts[start as usize..(start + size) as usize].iter_mut().for_each(|count| *count += 1);
            }
            footprint.close();
            let bytes = |least: u32| counts.iter().filter(|count| **count >= least).count() as u64;
            prop_assert_eq!(byte_count(footprint.touched()), bytes(1));
            prop_assert_eq!(byte_count(footprint.stored()), bytes(1));
            prop_assert_eq!(byte_count(footprint.restored()), bytes(2));
        }
    }
}
