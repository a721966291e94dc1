//! Puts accesses that come almost in the order of time into that order.
//!
//! A row waits until so many rows came after it that an earlier one is unlikely. One that comes later still is handed on
//! where it is: nothing is dropped, and whoever labels it counts it as late.

use std::collections::VecDeque;

use dwell_events::schema::trace::KindRow;

/// Rows that wait at most, at 56 bytes each. Chosen: all rows pass through this memory, which has to stay in the cache.
const WAITING_MAX: usize = 1 << 17;
/// Rows that are handed on at a time.
const HANDED_ON: usize = WAITING_MAX / 4;

/// Rows that wait for earlier ones.
pub(super) struct Reorder {
    waiting: VecDeque<KindRow>,
    is_unsorted: bool,
    /// Rows that came after a row of a later time.
    backward_rows: u64,
    newest_ns: u64,
}

impl Default for Reorder {
    fn default() -> Self {
        // Growing would copy what waits; memory that no row needs is never touched.
        let waiting = VecDeque::with_capacity(WAITING_MAX);
        Self { waiting, is_unsorted: false, backward_rows: 0, newest_ns: 0 }
    }
}

impl Reorder {
    /// Takes a row. If enough wait, the earliest go to `each`, by time; rows of the same time as they came.
    #[inline]
    pub(super) fn push<E>(&mut self, row: KindRow, each: &mut impl FnMut(&KindRow) -> Result<(), E>) -> Result<(), E> {
        if self.waiting.len() == WAITING_MAX {
            self.hand_on(HANDED_ON, each)?;
        }
        let is_backward = row.timestamp_ns < self.newest_ns;
        self.backward_rows += u64::from(is_backward);
        self.is_unsorted |= is_backward;
        self.newest_ns = self.newest_ns.max(row.timestamp_ns);
        self.waiting.push_back(row);
        Ok(())
    }

    /// Rows that came after a row of a later time.
    pub(super) fn backward_rows(&self) -> u64 {
        self.backward_rows
    }

    /// Hands on every row.
    pub(super) fn hand_on_all<E>(&mut self, each: &mut impl FnMut(&KindRow) -> Result<(), E>) -> Result<(), E> {
        self.hand_on(self.waiting.len(), each)
    }

    fn hand_on<E>(&mut self, rows: usize, each: &mut impl FnMut(&KindRow) -> Result<(), E>) -> Result<(), E> {
        if std::mem::take(&mut self.is_unsorted) {
            self.waiting.make_contiguous().sort_by_key(|row| row.timestamp_ns);
        }
        self.waiting.drain(..rows).try_for_each(|row| each(&row))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use dwell_events::schema::trace::TraceRow;

    use super::*;

    /// Times and kinds as they come out, and how many rows came backward.
    fn ordered(rows: impl Iterator<Item = (u64, u32)>) -> (Vec<(u64, u32)>, u64) {
        let (mut reorder, mut out) = (Reorder::default(), Vec::new());
        let mut each = |row: &KindRow| {
            out.push((row.timestamp_ns, row.kind));
            Ok::<(), Infallible>(())
        };
        for (timestamp_ns, kind) in rows {
            let row = TraceRow { timestamp_ns, ..TraceRow::EMPTY }.of_kind(kind);
            let Ok(()) = reorder.push(row, &mut each);
        }
        let Ok(()) = reorder.hand_on_all(&mut each);
        (out, reorder.backward_rows())
    }

    #[test]
    fn rows_come_out_by_time_and_those_of_one_time_as_they_came() {
        let (out, backward_rows) = ordered([(3, 0), (1, 1), (3, 2), (2, 3)].into_iter());
        assert_eq!((out.as_slice(), backward_rows), ([(1, 1), (2, 3), (3, 0), (3, 2)].as_slice(), 2));
    }

    #[test]
    fn a_stream_that_is_longer_than_what_waits_comes_out_by_time_if_rows_are_not_far_from_their_place() {
        let rows = 3 * WAITING_MAX as u64;
        // Every row is up to 1000 places away from its own.
        let (out, _) = ordered((0..rows).map(|row| (row ^ 0x3ff, 0)));
        assert!(out.iter().map(|row| row.0).eq(0..rows));
    }

    #[test]
    fn a_row_that_comes_far_too_late_is_kept() {
        let rows = 2 * WAITING_MAX as u64;
        let (out, backward_rows) = ordered((1..rows).chain([0]).map(|time| (time, 0)));
        assert_eq!((out.len() as u64, backward_rows), (rows, 1));
    }
}
