//! The bytes of a trace in the order in which they were last accessed.
//!
//! An access is one of every byte of its range, by address. How many other bytes were accessed since a byte was is its stack
//! distance: a memory with least-recently-used replacement still holds the byte if it has room for more bytes than that.
//! Along bytes that were last accessed by one access the distance does not change: for each step up, one more byte of this
//! access came before, and one byte less of that one came after. So ranges have distances, and no byte has to be followed.

use std::collections::BTreeMap;

use super::fenwick::Fenwick;
use crate::ranges::ByteRange;

/// Places that there are at least, so that short lists are not renumbered over and over.
const PLACES_LEAST: usize = 1 << 10;

/// Every byte that was accessed, by how long ago that was. Needs all accesses in order.
#[derive(Debug, Default)]
pub(crate) struct LruStack {
    /// By first byte; disjoint.
    ranges: BTreeMap<u64, Placed>,
    /// Bytes by the access that was their last; accesses are numbered in their order, and anew where numbers run out.
    order: Fenwick,
    /// One past the last byte of the access, by its number.
    ends: Vec<u64>,
    /// Scratch of a visit.
    visited: Vec<(u64, Placed)>,
}

#[derive(Clone, Copy, Debug)]
struct Placed {
    end: u64,
    /// Number of the access.
    place: u32,
}

impl LruStack {
    /// Tells how many other bytes were accessed since the bytes of a range were, in pieces, or none if they never were; and
    /// notes the access.
    pub(crate) fn visit(&mut self, (start, end): ByteRange, mut told: impl FnMut(Option<u64>, u64)) {
        if start >= end {
            return;
        }
        let place = self.next_place(end);
        if self.ranges.get(&start).is_some_and(|known| known.end == end) {
            return self.visit_whole((start, end), place, told);
        }
        self.split_at(start);
        self.split_at(end);
        let mut visited = std::mem::take(&mut self.visited);
        visited.extend(self.ranges.range(start..end).map(|(&start, &range)| (start, range)));
        let mut from = start;
        for (start, range) in visited.drain(..) {
            self.tell_new((from, start), place, &mut told);
            // The bytes count for this access before those above them are looked at.
            self.tell_known((start, range.end), range.place, place, &mut told);
            self.ranges.remove(&start);
            from = range.end;
        }
        self.visited = visited;
        self.tell_new((from, end), place, &mut told);
        self.ranges.insert(start, Placed { end, place });
    }

    /// The same for bytes that are one range, as most are.
    fn visit_whole(&mut self, range: ByteRange, place: u32, mut told: impl FnMut(Option<u64>, u64)) {
        let Some(known) = self.ranges.get_mut(&range.0) else { return };
        let before = std::mem::replace(&mut known.place, place);
        // Other bytes of the access before may lie above; the map says by now that these are of another one.
        let above = self.bytes_above(range.1, before);
        self.tell_moved(range, (before, place), above, &mut told);
    }

    fn tell_new(&mut self, (start, end): ByteRange, place: u32, told: &mut impl FnMut(Option<u64>, u64)) {
        if start < end {
            self.order.add(place as usize, end - start);
            told(None, end - start);
        }
    }

    fn tell_known(&mut self, range: ByteRange, before: u32, place: u32, told: &mut impl FnMut(Option<u64>, u64)) {
        let above = self.bytes_above(range.1, before);
        self.tell_moved(range, (before, place), above, told);
    }

    /// `above` are the bytes above these that were last accessed with them.
    fn tell_moved(
        &mut self,
        (start, end): ByteRange,
        (before, place): (u32, u32),
        above: u64,
        told: &mut impl FnMut(Option<u64>, u64),
    ) {
        let bytes = end - start;
        let others = bytes - 1 + above;
        told(Some(self.order.after(before as usize) + others), bytes);
        self.order.subtract(before as usize, bytes);
        self.order.add(place as usize, bytes);
    }

    /// Bytes from a position on whose last access was this one.
    fn bytes_above(&self, position: u64, place: u32) -> u64 {
        let end = self.ends[place as usize];
        if position >= end {
            return 0;
        }
        let above = self.ranges.range(position..end).filter(|(_, range)| range.place == place);
        above.map(|(&start, range)| range.end - start).sum()
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

    /// The number of an access that ends there.
    fn next_place(&mut self, end: u64) -> u32 {
        if self.ends.len() == self.order.places() {
            self.renumber();
        }
        self.ends.push(end);
        (self.ends.len() - 1) as u32
    }

    /// Gives the accesses that are the last of any bytes the lowest numbers, in their order.
    fn renumber(&mut self) {
        let mut renumbered = vec![0u32; self.ends.len()];
        let (mut amounts, mut ends) = (Vec::new(), Vec::new());
        for (place, &end) in self.ends.iter().enumerate().filter(|(place, _)| self.order.at(*place) > 0) {
            renumbered[place] = amounts.len() as u32;
            amounts.push(self.order.at(place));
            ends.push(end);
        }
        self.ranges.values_mut().for_each(|range| range.place = renumbered[range.place as usize]);
        // Renumbering after as many accesses as there are ranges costs each of them little.
        let places = (2 * amounts.len()).max(PLACES_LEAST);
        self.order = Fenwick::new(amounts, places);
        self.ends = ends;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn distances(visits: &[ByteRange]) -> Vec<Vec<(Option<u64>, u64)>> {
        let mut stack = LruStack::default();
        let told = |range: &ByteRange| {
            let mut told = Vec::new();
            stack.visit(*range, |distance, bytes| told.push((distance, bytes)));
            told
        };
        visits.iter().map(told).collect()
    }

    #[test]
    fn a_range_that_is_read_over_and_over_needs_room_for_all_of_it() {
        let told = distances(&[(0, 100), (0, 100), (200, 250), (0, 100)]);
        assert_eq!(told[1], [(Some(99), 100)]);
        assert_eq!(told[3], [(Some(149), 100)], "50 other bytes came between");
    }

    #[test]
    fn parts_of_an_access_are_as_far_as_what_came_after_them() {
        // From the top, only what lies above was accessed later; from the bottom, all of the rest.
        let told = distances(&[(0, 100), (90, 100), (0, 10), (5, 95)]);
        assert_eq!(told[1], [(Some(9), 10)]);
        assert_eq!(told[2], [(Some(99), 10)]);
        // 5 bytes of the second small access; 80 of the first, 10 of each small one between; 5 left of the middle one.
        assert_eq!(told[3], [(Some(4), 5), (Some(99), 80), (Some(99), 5)]);
    }

    /// Bytes, the latest last.
    fn plain_distance(stack: &mut Vec<u64>, byte: u64) -> Option<u64> {
        let place = stack.iter().position(|known| *known == byte);
        let distance = place.map(|place| (stack.len() - 1 - place) as u64);
        place.map(|place| stack.remove(place));
        stack.push(byte);
        distance
    }

    proptest! {
        #[test]
        fn distances_are_those_of_a_list_of_bytes(
            visits in prop::collection::vec((0u64..40, 0u64..14), 0..120),
            renumbers_at in 0usize..120,
        ) {
            let (mut stack, mut plain) = (LruStack::default(), Vec::new());
            for (number, (start, size)) in visits.into_iter().enumerate() {
                if number == renumbers_at {
                    stack.renumber();
                }
                let mut found = Vec::new();
                stack.visit((start, start + size), |distance, bytes| {
                    found.extend(std::iter::repeat_n(distance, bytes as usize));
                });
                let expected: Vec<_> = (start..start + size).map(|byte| plain_distance(&mut plain, byte)).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn more_accesses_than_places_are_numbered_anew() {
        let mut stack = LruStack::default();
        for round in 0..10 * PLACES_LEAST as u64 {
            let start = round % 7 * 8;
            stack.visit((start, start + 8), |distance, bytes| {
                assert_eq!((distance, bytes), (if round < 7 { None } else { Some(55) }, 8));
            });
        }
        assert_eq!(stack.order.places(), PLACES_LEAST);
    }
}
