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
#[derive(Default)]
pub(super) struct Order {
    waiting: Vec<(u64, Record)>,
    ready: VecDeque<Record>,
    /// Latest time of all rounds before this one, and of all records.
    latest_of_rounds_ns: u64,
    latest_ns: u64,
    last_ready_ns: u64,
    /// Records that came too late to be put in order.
    pub late_records: u64,
}

impl Order {
    pub fn push(&mut self, (time_ns, record): Timed) {
        let Some(time_ns) = time_ns else { return self.ready.push_back(record) };
        self.latest_ns = self.latest_ns.max(time_ns);
        self.waiting.push((time_ns, record));
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.sort_by_key(|(time_ns, _)| *time_ns);
            self.release(MAX_WAITING / 2);
        }
    }

    pub fn end_round(&mut self) {
        self.waiting.sort_by_key(|(time_ns, _)| *time_ns);
        let ready = self.waiting.partition_point(|(time_ns, _)| *time_ns <= self.latest_of_rounds_ns);
        self.release(ready);
        self.latest_of_rounds_ns = self.latest_ns;
    }

    pub fn end(&mut self) {
        self.waiting.sort_by_key(|(time_ns, _)| *time_ns);
        self.release(self.waiting.len());
    }

    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub fn pop(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }

    fn release(&mut self, count: usize) {
        for (time_ns, record) in self.waiting.drain(..count) {
            self.late_records += u64::from(time_ns < self.last_ready_ns);
            self.last_ready_ns = self.last_ready_ns.max(time_ns);
            self.ready.push_back(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_data::Sample;

    fn at(time_ns: u64) -> Timed {
        (Some(time_ns), Record::Sample(Sample { time_ns: Some(time_ns), ..Sample::default() }))
    }

    fn times(order: &mut Order) -> Vec<u64> {
        let time = |record| match record {
            Record::Sample(sample) => sample.time_ns.unwrap(),
            _ => panic!("only samples were pushed"),
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
        assert_eq!(order.late_records, 1);
        assert_eq!(times(&mut order).len(), MAX_WAITING / 2 + 1);
    }
}
