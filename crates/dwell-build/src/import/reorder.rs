//! Puts accesses that come almost in the order of time into that order.
//!
//! A row waits until so many rows came after it that an earlier one is unlikely. One that comes later still is handed on
//! where it is: nothing is dropped, and whoever labels it counts it as late.

use dwell_events::schema::trace::TraceRow;
use rustc_hash::FxHashMap;

/// Rows that wait at most, at about 200 bytes each; half of them are handed on at a time.
const WAITING_MAX: usize = 1 << 18;
/// Distinct texts that are kept for waiting rows. Names of functions are fewer.
const WORDS_MAX: usize = 1 << 16;

/// Texts by number, so that a waiting row holds none itself.
#[derive(Default)]
struct Words {
    texts: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, u32>,
}

impl Words {
    fn number_of(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    fn text(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }

    fn is_full(&self) -> bool {
        // One row brings five texts at most.
        self.texts.len() + 5 > WORDS_MAX
    }
}

/// A row whose texts are in [`Words`].
struct Waiting {
    row: TraceRow<'static>,
    symbol: u32,
    dso: u32,
    tensor: u32,
    source: u32,
    cache_level: Option<u32>,
}

/// Rows that wait for earlier ones.
#[derive(Default)]
pub(super) struct Reorder {
    words: Words,
    waiting: Vec<Waiting>,
    is_unsorted: bool,
    /// Rows that came after a row of a later time.
    backward_rows: u64,
    newest_ns: u64,
}

impl Reorder {
    /// Takes a row. If enough wait, the earlier half goes to `each`, by time; rows of the same time as they came.
    pub(super) fn push<E>(
        &mut self,
        row: &TraceRow<'_>,
        each: &mut impl FnMut(&TraceRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.waiting.len() == WAITING_MAX {
            self.hand_on(WAITING_MAX / 2, each)?;
        }
        if self.words.is_full() {
            self.hand_on(self.waiting.len(), each)?;
        }
        let is_backward = row.timestamp_ns < self.newest_ns;
        self.backward_rows += u64::from(is_backward);
        self.is_unsorted |= is_backward;
        self.newest_ns = self.newest_ns.max(row.timestamp_ns);
        let words = &mut self.words;
        self.waiting.push(Waiting {
            symbol: words.number_of(row.symbol),
            dso: words.number_of(row.dso),
            tensor: words.number_of(row.tensor),
            source: words.number_of(row.source),
            cache_level: row.cache_level.map(|level| words.number_of(level)),
            row: TraceRow { symbol: "", dso: "", tensor: "", source: "", cache_level: None, ..*row },
        });
        Ok(())
    }

    /// Hands on every row; the number of those that came after a row of a later time.
    pub(super) fn finish<E>(mut self, each: &mut impl FnMut(&TraceRow<'_>) -> Result<(), E>) -> Result<u64, E> {
        self.hand_on(self.waiting.len(), each)?;
        Ok(self.backward_rows)
    }

    fn hand_on<E>(&mut self, rows: usize, each: &mut impl FnMut(&TraceRow<'_>) -> Result<(), E>) -> Result<(), E> {
        if std::mem::take(&mut self.is_unsorted) {
            self.waiting.sort_by_key(|waiting| waiting.row.timestamp_ns);
        }
        let words = &self.words;
        for waiting in self.waiting.drain(..rows) {
            each(&TraceRow {
                symbol: words.text(waiting.symbol),
                dso: words.text(waiting.dso),
                tensor: words.text(waiting.tensor),
                source: words.text(waiting.source),
                cache_level: waiting.cache_level.map(|level| words.text(level)),
                ..waiting.row
            })?;
        }
        if self.waiting.is_empty() && self.words.is_full() {
            self.words = Words::default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Times and symbols as they come out, and how many rows came backward.
    fn ordered(rows: impl Iterator<Item = (u64, String)>) -> (Vec<(u64, String)>, u64) {
        let (mut reorder, mut out) = (Reorder::default(), Vec::new());
        let mut each = |row: &TraceRow<'_>| {
            out.push((row.timestamp_ns, row.symbol.to_owned()));
            Ok::<(), Infallible>(())
        };
        for (timestamp_ns, symbol) in rows {
            let Ok(()) = reorder.push(&TraceRow { timestamp_ns, symbol: &symbol, ..TraceRow::EMPTY }, &mut each);
        }
        let Ok(backward_rows) = reorder.finish(&mut each);
        (out, backward_rows)
    }

    #[test]
    fn rows_come_out_by_time_and_those_of_one_time_as_they_came() {
        let rows = [(3, "a"), (1, "b"), (3, "c"), (2, "d")].map(|(time, name)| (time, name.to_owned()));
        let (out, backward_rows) = ordered(rows.into_iter());
        let expected = [(1, "b"), (2, "d"), (3, "a"), (3, "c")].map(|(time, name)| (time, name.to_owned()));
        assert_eq!((out.as_slice(), backward_rows), (expected.as_slice(), 2));
    }

    #[test]
    fn a_stream_that_is_longer_than_what_waits_comes_out_by_time_if_rows_are_not_far_from_their_place() {
        let rows = 3 * WAITING_MAX as u64;
        // Every row is up to 1000 places away from its own.
        let (out, _) = ordered((0..rows).map(|row| (row ^ 0x3ff, "f".to_owned())));
        assert!(out.iter().map(|row| row.0).eq(0..rows));
    }

    #[test]
    fn a_row_that_comes_far_too_late_is_kept() {
        let rows = 2 * WAITING_MAX as u64;
        let (out, backward_rows) = ordered((1..rows).chain([0]).map(|time| (time, "f".to_owned())));
        assert_eq!((out.len() as u64, backward_rows), (rows, 1));
    }

    #[test]
    fn more_distinct_texts_than_are_kept_lose_none() {
        let rows = 3 * WORDS_MAX as u64;
        let (out, _) = ordered((0..rows).map(|row| (row, row.to_string())));
        assert!(out.iter().all(|(time, symbol)| time.to_string() == *symbol));
        assert_eq!(out.len() as u64, rows);
    }
}
