//! Which positions of which sequences are in the cache.
//!
//! llama.cpp does not tell how many cells are free and answers a full cache only when it is too late to say so
//! cleanly, so the cells are counted here along with what it is told to do.

use std::collections::HashSet;

/// Largest position that a shift may lead to: far from where 31 bits end.
const POSITION_LIMIT: i64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    position: i32,
    /// The same number in two sequences means that they share the cell.
    number: u64,
}

/// Tokens that a sequence is about to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) sequence: i32,
    pub(crate) tokens: usize,
}

/// A position that a shift may not lead to, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadTarget {
    pub(crate) position: i64,
    pub(crate) problem: &'static str,
}

/// The cells of all sequences of a context.
#[derive(Debug)]
pub(crate) struct Cells {
    is_unified: bool,
    /// Cells of a sequence's stream; in a unified cache, cells of all.
    capacity: usize,
    /// By position, ascending.
    sequences: Vec<Vec<Cell>>,
    next_number: u64,
}

impl Cells {
    pub(crate) fn new(sequences: u32, is_unified: bool, context_per_sequence: u32) -> Cells {
        let sequences = vec![Vec::new(); sequences as usize];
        Cells { is_unified, capacity: context_per_sequence as usize, sequences, next_number: 0 }
    }

    fn of(&self, sequence: i32) -> &Vec<Cell> {
        &self.sequences[sequence as usize]
    }

    fn of_mut(&mut self, sequence: i32) -> &mut Vec<Cell> {
        &mut self.sequences[sequence as usize]
    }

    /// Cells of the stream that a sequence is in.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Cells of a sequence.
    pub(crate) fn count(&self, sequence: i32) -> usize {
        self.of(sequence).len()
    }

    /// Position of the n-th cell of a sequence.
    pub(crate) fn position(&self, sequence: i32, index: usize) -> Option<i32> {
        self.of(sequence).get(index).map(|cell| cell.position)
    }

    /// Position of the next token of a sequence.
    pub(crate) fn next_position(&self, sequence: i32) -> i32 {
        self.of(sequence).last().map_or(0, |cell| cell.position + 1)
    }

    /// Adds the next token of a sequence.
    pub(crate) fn append(&mut self, sequence: i32) {
        let cell = Cell { position: self.next_position(sequence), number: self.new_number() };
        self.of_mut(sequence).push(cell);
    }

    fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Removes positions `[from, to)`; `to` < 0 means to the end.
    pub(crate) fn remove(&mut self, sequence: i32, from: i32, to: i32) {
        self.of_mut(sequence).retain(|cell| !is_in(cell.position, from, to));
    }

    /// Gives a sequence the cells of another: the same ones in a unified cache, copies otherwise.
    pub(crate) fn copy(&mut self, source: i32, target: i32) {
        let mut cells = self.of(source).clone();
        if !self.is_unified {
            cells.iter_mut().for_each(|cell| cell.number = self.new_number());
        }
        *self.of_mut(target) = cells;
    }

    /// Whether a sequence has a cell that another has too.
    pub(crate) fn is_sharing(&self, sequence: i32) -> bool {
        let own: HashSet<u64> = self.of(sequence).iter().map(|cell| cell.number).collect();
        let others = self.sequences.iter().zip(0..).filter(|&(_, other)| other != sequence);
        others.flat_map(|(cells, _)| cells).any(|cell| own.contains(&cell.number))
    }

    /// Moves positions `[from, to)` by a distance, or says which position prevents that.
    pub(crate) fn shift(&mut self, sequence: i32, from: i32, to: i32, delta: i32) -> Result<(), BadTarget> {
        let mut shifted = Vec::with_capacity(self.count(sequence));
        for &cell in self.of(sequence) {
            let moved_by = if is_in(cell.position, from, to) { i64::from(delta) } else { 0 };
            let position = i64::from(cell.position) + moved_by;
            if position < 0 {
                return Err(BadTarget { position, problem: "would be below 0" });
            }
            let Some(position) = i32::try_from(position).ok().filter(|_| position <= POSITION_LIMIT) else {
                return Err(BadTarget { position, problem: "would be too large" });
            };
            shifted.push(Cell { position, ..cell });
        }
        shifted.sort_by_key(|cell| cell.position);
        if let Some(pair) = shifted.windows(2).find(|pair| pair[0].position == pair[1].position) {
            return Err(BadTarget { position: pair[0].position.into(), problem: "would be there twice" });
        }
        *self.of_mut(sequence) = shifted;
        Ok(())
    }

    /// Cells in use where a sequence's tokens go.
    pub(crate) fn used(&self, sequence: i32) -> usize {
        if !self.is_unified {
            return self.count(sequence);
        }
        if self.sequences.len() == 1 {
            return self.count(0);
        }
        let numbers: HashSet<u64> = self.sequences.iter().flatten().map(|cell| cell.number).collect();
        numbers.len()
    }

    /// The sequences that would have to give up cells before these tokens fit, fullest first; none if they fit.
    pub(crate) fn crowded(&self, needs: &[Need]) -> Vec<i32> {
        if !self.is_unified {
            let full = needs.iter().find(|need| self.count(need.sequence) + need.tokens > self.capacity);
            return full.map(|need| need.sequence).into_iter().collect();
        }
        let needed: usize = needs.iter().map(|need| need.tokens).sum();
        // The sum of the counts is no less than the cells in use, and is known without counting them.
        let most_used: usize = self.sequences.iter().map(Vec::len).sum();
        if most_used + needed <= self.capacity || self.used(0) + needed <= self.capacity {
            return Vec::new();
        }
        let mut sequences: Vec<i32> = needs.iter().map(|need| need.sequence).collect();
        sequences.sort_by_key(|&sequence| std::cmp::Reverse(self.count(sequence)));
        sequences
    }
}

fn is_in(position: i32, from: i32, to: i32) -> bool {
    position >= from && (to < 0 || position < to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(is_unified: bool, counts: &[usize]) -> Cells {
        let mut cells = Cells::new(counts.len() as u32, is_unified, 8);
        for (&count, sequence) in counts.iter().zip(0..) {
            (0..count).for_each(|_| cells.append(sequence));
        }
        cells
    }

    fn positions(cells: &Cells, sequence: i32) -> Vec<i32> {
        (0..cells.count(sequence)).filter_map(|index| cells.position(sequence, index)).collect()
    }

    #[test]
    fn removed_positions_leave_a_gap_that_a_shift_closes() {
        let mut cells = filled(false, &[6]);
        cells.remove(0, 1, 3);
        assert_eq!(positions(&cells, 0), [0, 3, 4, 5]);
        cells.shift(0, 3, -1, -2).unwrap();
        assert_eq!(positions(&cells, 0), [0, 1, 2, 3]);
        assert_eq!(cells.next_position(0), 4);
    }

    #[test]
    fn a_shift_may_not_lead_to_a_bad_position() {
        let mut cells = filled(false, &[4]);
        assert_eq!(cells.shift(0, 1, -1, -2).unwrap_err().position, -1);
        assert_eq!(cells.shift(0, 2, -1, -1).unwrap_err().problem, "would be there twice");
        assert_eq!(cells.shift(0, 0, -1, i32::MAX).unwrap_err().problem, "would be too large");
        assert_eq!(positions(&cells, 0), [0, 1, 2, 3]);
    }

    #[test]
    fn a_unified_copy_shares_and_a_split_one_does_not() {
        let mut cells = filled(true, &[4, 0]);
        cells.copy(0, 1);
        cells.append(1);
        assert!(cells.is_sharing(0) && cells.is_sharing(1));
        assert_eq!(cells.used(1), 5);

        let mut cells = filled(false, &[4, 0]);
        cells.copy(0, 1);
        assert!(!cells.is_sharing(0));
        assert_eq!(cells.used(1), 4);
    }

    #[test]
    fn a_sequence_stops_sharing_when_the_shared_cells_are_removed() {
        let mut cells = filled(true, &[4, 0]);
        cells.copy(0, 1);
        cells.remove(1, 0, -1);
        assert!(!cells.is_sharing(0));
    }

    #[test]
    fn streams_are_full_one_by_one_and_a_pool_as_a_whole() {
        let needs = [Need { sequence: 0, tokens: 1 }, Need { sequence: 1, tokens: 1 }];
        assert_eq!(filled(false, &[3, 8]).crowded(&needs), [1]);
        assert!(filled(true, &[2, 4]).crowded(&needs).is_empty());
        assert_eq!(filled(true, &[3, 4]).crowded(&needs), [1, 0]);
    }

    #[test]
    fn shared_cells_are_counted_once() {
        let mut cells = filled(true, &[6, 0]);
        cells.copy(0, 1);
        let needs = [Need { sequence: 0, tokens: 1 }, Need { sequence: 1, tokens: 1 }];
        assert!(cells.crowded(&needs).is_empty());
        cells.append(0);
        assert_eq!(cells.crowded(&needs), [0, 1]);
    }
}
