//! Records in the order of time.
//!
//! Every processor has a buffer of its own, and `perf record` writes one after the other. When it has written all once it
//! marks the end of a round: what follows is later than all that was there before the round began. So what a round
//! brought waits for the end of the next one, as in perf itself.

use std::collections::VecDeque;

use super::records::Record;

/// Records that wait at most. Rounds are as large as the buffers of all processors; a recording without rounds must not
/// take all memory, and is put in order only within so many records.
const MAX_WAITING: usize = 1 << 18;

/// A record with its time; without one it does not wait.
pub(super) type Timed = (Option<u64>, Record);

/// Puts records in order.
///
/// Records stay where they are and their keys are sorted, because a record is large and the buffers of processors are
/// merged in several passes.
#[derive(Default)]
pub(super) struct Order {
    records: Vec<Record>,
    /// Places in `records` whose record was taken, the last one first.
    free: Vec<u32>,
    /// The same by place.
    is_free: Vec<bool>,
    /// Time and place of each record that waits or is ready; sorted up to `ready_end`.
    keys: Vec<(u64, u32)>,
    next: usize,
    ready_end: usize,
    /// Records without a time, and the last of them that was handed out.
    untimed: VecDeque<Record>,
    taken_untimed: Option<Record>,
    /// Latest time of all rounds before this one, and of all records.
    latest_of_rounds_ns: u64,
    latest_ns: u64,
    last_ready_ns: u64,
    /// Records that came too late to be put in order.
    pub late_records: u64,
}

impl Order {
    /// Takes a record. None may be ready.
    pub fn push(&mut self, (time_ns, record): Timed) {
        let Some(time_ns) = time_ns else { return self.untimed.push_back(record) };
        if self.next > 0 {
            self.forget_taken();
        }
        self.latest_ns = self.latest_ns.max(time_ns);
        let place = self.put(record);
        self.keys.push((time_ns, place));
        if self.keys.len() >= MAX_WAITING {
            self.sort();
            self.ready_end = MAX_WAITING / 2;
        }
    }

    /// What is as old as the rounds before this one is ready.
    pub fn end_round(&mut self) {
        self.forget_taken();
        self.sort();
        self.ready_end = self.keys.partition_point(|(time_ns, _)| *time_ns <= self.latest_of_rounds_ns);
        self.latest_of_rounds_ns = self.latest_ns;
    }

    /// Everything is ready.
    pub fn end(&mut self) {
        self.forget_taken();
        self.sort();
        self.ready_end = self.keys.len();
    }

    #[inline]
    pub fn is_ready(&self) -> bool {
        self.next < self.ready_end || !self.untimed.is_empty()
    }

    /// The next record that is ready.
    #[inline]
    pub fn pop(&mut self) -> Option<&Record> {
        if self.next == self.ready_end {
            self.taken_untimed = self.untimed.pop_front();
            return self.taken_untimed.as_ref();
        }
        let (time_ns, place) = self.keys[self.next];
        self.next += 1;
        self.late_records += u64::from(time_ns < self.last_ready_ns);
        self.last_ready_ns = self.last_ready_ns.max(time_ns);
        Some(&self.records[place as usize])
    }

    fn put(&mut self, record: Record) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.records[place as usize] = record;
                self.is_free[place as usize] = false;
                place
            }
            None => {
                self.records.push(record);
                self.is_free.push(false);
                self.records.len() as u32 - 1
            }
        }
    }

    /// Keys are in the order in which their records came, and those of one time stay in it.
    fn sort(&mut self) {
        self.keys.sort_by_key(|(time_ns, _)| *time_ns);
    }

    fn forget_taken(&mut self) {
        for (_, place) in self.keys.drain(..self.next) {
            self.is_free[place as usize] = true;
        }
        (self.next, self.ready_end) = (0, 0);
        // Records of a processor that come one after the other must lie so, since they are taken in that order: in the order in
        // which places became free, every record would be read from memory by itself.
        self.free.clear();
        self.free.extend((0..self.records.len() as u32).rev().filter(|place| self.is_free[*place as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_data::Relation;

    fn at(time_ns: u64) -> Timed {
        (Some(time_ns), Record::Exit(Relation { pid: time_ns as u32, parent_pid: 0, tid: 0 }))
    }

    fn times(order: &mut Order) -> Vec<u64> {
        let time = |record: &Record| match record {
            Record::Exit(relation) => relation.pid.into(),
            _ => panic!("only exits were pushed"),
        };
        std::iter::from_fn(|| order.pop().map(time)).collect()
    }

    #[test]
    fn a_round_waits_for_the_next_one() {
        let mut order = Order::default();
        for round in [&[10, 30, 20, 25][..], &[40, 28, 35]] {
            round.iter().for_each(|time_ns| order.push(at(*time_ns)));
            order.end_round();
        }
        assert_eq!(times(&mut order), [10, 20, 25, 28, 30]);
        order.end();
        assert_eq!(times(&mut order), [35, 40]);
        assert_eq!(order.late_records, 0);
    }

    #[test]
    fn without_rounds_so_many_wait_and_late_ones_are_counted() {
        let mut order = Order::default();
        (1..=MAX_WAITING as u64).for_each(|time_ns| order.push(at(time_ns)));
        assert_eq!(times(&mut order).len(), MAX_WAITING / 2);
        order.push(at(1));
        order.end();
        assert_eq!(times(&mut order).len(), MAX_WAITING / 2 + 1);
        assert_eq!(order.late_records, 1);
    }
}
