//! Tensors that were dropped, counted by name until the stream tells of them.

use std::collections::HashMap;
use std::time::Instant;

use crate::TensorHead;
use crate::container::Row;

/// The most rows that are told at once.
const MAX_ROWS: usize = 4096;

/// Drops that the stream does not tell of yet.
#[derive(Default)]
pub(super) struct Drops {
    by_name: HashMap<String, Count>,
    /// When the first of them was.
    began: Option<Instant>,
}

#[derive(Default)]
struct Count {
    /// The last one dropped.
    packet: u64,
    count: u64,
    raw_bytes: u64,
    timestamp_ns: i64,
    step: u64,
}

impl Drops {
    pub(super) fn count(&mut self, head: &TensorHead, packet: u64, raw_bytes: u64) {
        self.began.get_or_insert_with(Instant::now);
        if !self.by_name.contains_key(&head.name) {
            self.by_name.insert(head.name.clone(), Count::default());
        }
        if let Some(count) = self.by_name.get_mut(&head.name) {
            count.count += 1;
            count.raw_bytes = count.raw_bytes.saturating_add(raw_bytes);
            (count.packet, count.timestamp_ns, count.step) = (packet, head.timestamp_ns, head.step);
        }
    }

    /// When the first of them was; `None` if there are none.
    pub(super) fn began(&self) -> Option<Instant> {
        self.began
    }

    /// Rows that tell of all of them, in the order of their last packets, in portions. Nothing is left.
    pub(super) fn take_rows(&mut self) -> Vec<Vec<Row>> {
        self.began = None;
        let mut counts: Vec<_> = self.by_name.drain().collect();
        counts.sort_by_key(|(_, count)| count.packet);
        let mut portions = Vec::new();
        let mut rows = counts.into_iter().map(row).peekable();
        while rows.peek().is_some() {
            portions.push(rows.by_ref().take(MAX_ROWS).collect());
        }
        portions
    }
}

fn row((name, count): (String, Count)) -> Row {
    let Count { packet, count, raw_bytes, timestamp_ns, step } = count;
    Row::Dropped { name, packet, count, raw_bytes, timestamp_ns, step }
}
