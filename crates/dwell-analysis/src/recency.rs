//! When bytes were last accessed, for memory whose lives are known from elsewhere.
//!
//! Cells of a KV cache are stored one by one and loaded all at once, step after step. As ranges with a life each, a load
//! would touch as many ranges as there are cells. Without the store they differ in nothing after a load, and are one range.

use std::collections::BTreeMap;

use crate::ranges::{ByteRange, tree_bytes};

/// The last access of every byte that was accessed.
#[derive(Debug, Default)]
pub(crate) struct Recency {
    /// By first byte; disjoint. Neighbours of the same time are one range, unless they are visited apart again and again.
    ranges: BTreeMap<u64, Rested>,
    /// Scratch of a visit.
    visited: Vec<(u64, Rested)>,
}

#[derive(Clone, Copy, Debug)]
struct Rested {
    end: u64,
    last_ns: u64,
}

impl Recency {
    /// Tells how long the bytes of a range had rested, in pieces, and notes the access.
    pub(crate) fn visit(&mut self, (start, end): ByteRange, now_ns: u64, mut rested: impl FnMut(u64, u64)) {
        if start >= end {
            return;
        }
        // Most tensors are accessed as a whole each time: nothing is cut or joined then.
        if let Some(range) = self.ranges.get_mut(&start).filter(|range| range.end == end) {
            rested(now_ns.saturating_sub(range.last_ns), end - start);
            range.last_ns = now_ns;
            return;
        }
        self.split_at(start);
        self.split_at(end);
        let mut visited = std::mem::take(&mut self.visited);
        visited.extend(self.ranges.range(start..end).map(|(&start, &range)| (start, range)));
        for (start, range) in visited.drain(..) {
            rested(now_ns.saturating_sub(range.last_ns), range.end - start);
            self.ranges.remove(&start);
        }
        self.visited = visited;
        self.insert((start, end), now_ns);
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        tree_bytes::<u64, Rested>(self.ranges.len())
    }

    /// Cuts the range that holds the bytes on both sides of the position.
    fn split_at(&mut self, position: u64) {
        let Some((_, range)) = self.ranges.range_mut(..position).next_back() else { return };
        if range.end > position {
            let after = *range;
            range.end = position;
            self.ranges.insert(position, after);
        }
    }

    /// Inserts a range where there is none, as part of its neighbours if they were accessed at the same time.
    fn insert(&mut self, (mut start, mut end): ByteRange, last_ns: u64) {
        if let Some((&before, range)) = self.ranges.range(..start).next_back()
            && (range.end, range.last_ns) == (start, last_ns)
        {
            start = before;
        }
        if let Some(after) = self.ranges.get(&end).filter(|after| after.last_ns == last_ns) {
            let joined = end;
            end = after.end;
            self.ranges.remove(&joined);
        }
        self.ranges.insert(start, Rested { end, last_ns });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cells_that_are_loaded_together_are_one_range() {
        let mut recency = Recency::default();
        for step in 1..100u64 {
            recency.visit((step * 8, step * 8 + 8), step * 10, |_, _| {});
            recency.visit((0, step * 8 + 8), step * 10 + 5, |_, _| {});
        }
        assert_eq!(recency.ranges.len(), 1);
    }

    proptest! {
        #[test]
        fn intervals_are_those_of_every_byte(visits in prop::collection::vec((0u64..40, 1u64..12), 0..60)) {
            let mut recency = Recency::default();
            let mut last_ns = [None::<u64>; 60];
            for (now_ns, (start, size)) in visits.into_iter().enumerate() {
                let now_ns = now_ns as u64;
                let (mut found, mut expected) = (Vec::new(), Vec::new());
                recency.visit((start, start + size), now_ns, |interval_ns, bytes| {
                    found.extend(std::iter::repeat_n(interval_ns, bytes as usize));
                });
                for last in &mut last_ns[start as usize..(start + size) as usize] {
                    expected.extend(last.replace(now_ns).map(|last| now_ns - last));
                }
                prop_assert_eq!(found, expected);
            }
        }
    }
}
