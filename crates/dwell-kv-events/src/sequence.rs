//! What the numbers of the batches say about what is missing.

use std::ops::Range;

/// Follows the numbers of one server's batches, and of those that take its place.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    /// Counts the servers.
    publisher: u32,
    /// The number that comes next if nothing is missing.
    next: u64,
    /// The last one that came by itself; those that were asked for may be ahead of it.
    last_live: Option<u64>,
}

/// Where a batch stands that came by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It has been delivered before.
    Duplicate,
    /// It is new.
    New {
        /// Numbers between it and what was delivered before.
        missing: Range<u64>,
        /// Whether the missing ones were published before anybody listened.
        is_history: bool,
        /// Whether it comes from another server than the one before: numbers begin again.
        has_restarted: bool,
    },
}

impl Sequences {
    /// A server publishes numbers in order, so one that does not grow comes from another server.
    pub(crate) fn arrive(&mut self, sequence: u64) -> Arrival {
        let has_restarted = self.last_live.is_some_and(|last| sequence <= last);
        let is_history = self.publisher == 0 && self.next == 0 && !has_restarted;
        if has_restarted {
            self.restart();
        }
        self.last_live = Some(sequence);
        if sequence < self.next {
            return Arrival::Duplicate;
        }
        Arrival::New { missing: self.next..sequence, is_history, has_restarted }
    }

    /// Another server takes the place of this one.
    pub(crate) fn restart(&mut self) {
        self.publisher += 1;
        self.next = 0;
        self.last_live = None;
    }

    /// Notes that a batch has been delivered.
    pub(crate) fn deliver(&mut self, sequence: u64) {
        self.next = sequence.saturating_add(1);
    }

    /// The number that comes next if nothing is missing.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Which server the batches come from, from 0.
    pub(crate) fn publisher(&self) -> u32 {
        self.publisher
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(missing: Range<u64>, is_history: bool, has_restarted: bool) -> Arrival {
        Arrival::New { missing, is_history, has_restarted }
    }

    fn deliver(sequences: &mut Sequences, sequence: u64) -> Arrival {
        let arrival = sequences.arrive(sequence);
        sequences.deliver(sequence.max(sequences.next().saturating_sub(1)));
        arrival
    }

    #[test]
    fn numbers_without_gaps_miss_nothing() {
        let mut sequences = Sequences::default();
        assert_eq!(deliver(&mut sequences, 0), new(0..0, true, false));
        assert_eq!(deliver(&mut sequences, 1), new(1..1, false, false));
    }

    #[test]
    fn what_came_before_the_first_is_history_and_a_later_gap_is_not() {
        let mut sequences = Sequences::default();
        assert_eq!(deliver(&mut sequences, 40), new(0..40, true, false));
        assert_eq!(deliver(&mut sequences, 44), new(41..44, false, false));
    }

    #[test]
    fn numbers_that_begin_again_are_those_of_another_server() {
        let mut sequences = Sequences::default();
        deliver(&mut sequences, 0);
        deliver(&mut sequences, 7);
        assert_eq!(deliver(&mut sequences, 2), new(0..2, false, true));
        assert_eq!((sequences.publisher(), sequences.next()), (1, 3));
        assert_eq!(deliver(&mut sequences, 3), new(3..3, false, false));
    }

    #[test]
    fn what_a_replay_brought_ahead_is_not_taken_for_a_restart() {
        let mut sequences = Sequences::default();
        deliver(&mut sequences, 0);
        // A replay brings 1, 2 and 3; then 2 and 4 come by themselves.
        sequences.deliver(3);
        assert_eq!(sequences.arrive(2), Arrival::Duplicate);
        assert_eq!(sequences.arrive(4), new(4..4, false, false));
        assert_eq!(sequences.publisher(), 0);
    }
}
