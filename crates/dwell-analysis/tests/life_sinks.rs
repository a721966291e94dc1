//! Consumers of data lives other than the metrics.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use arrow_array::RecordBatch;
use dwell_analysis::lives::{ByteRange, Life, LifeSink, TraceLives};
use dwell_analysis::{Definitions, KV_LIFECYCLE_COLUMNS, Options, RowOrder};
use dwell_events::schema::Table;
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use support::{S, analyse, load, store};

/// A memory that keeps data for a limited time: how many bytes would have been lost before their last load.
struct ForgetfulMemory {
    keeps_ns: u64,
    lost_bytes: u64,
    kept_bytes: u64,
}

impl ForgetfulMemory {
    fn judge(&mut self, life: &Life, (start, end): ByteRange) {
        match life.retention_ns() {
            Some(retention_ns) if retention_ns > self.keeps_ns => self.lost_bytes += end - start,
            _ => self.kept_bytes += end - start,
        }
    }
}

impl LifeSink for ForgetfulMemory {
    fn life_ended(&mut self, life: &Life, bytes: ByteRange) {
        self.judge(life, bytes);
    }

    fn life_left_open(&mut self, life: &Life, bytes: ByteRange) {
        self.judge(life, bytes);
    }
}

fn batch(rows: &[TraceRow<'_>]) -> RecordBatch {
    let mut builder = TraceBuilder::new("run");
    rows.iter().for_each(|row| builder.push(row));
    builder.finish_batch()
}

#[test]
fn a_simulated_memory_hears_every_life_of_a_trace_once() {
    let rows = [
        store(0, 0, 100),
        load(2 * S, 0, 100),
        load(9 * S, 60, 40),
        store(10 * S, 0, 100),
        load(11 * S, 0, 50),
        load(30 * S, 0, 50),
    ];
    let memory = ForgetfulMemory { keeps_ns: 5 * S, lost_bytes: 0, kept_bytes: 0 };
    let mut lives = TraceLives::new(memory);
    lives.push_trace(&batch(&rows[..3])).unwrap();
    lives.push_trace(&batch(&rows[3..])).unwrap();
    let memory = lives.finish();
    // First lives: 40 bytes for 9 s, 60 for 2 s. Second: 50 bytes for 20 s, 50 never read.
    assert_eq!((memory.lost_bytes, memory.kept_bytes), (40 + 50, 60 + 50));
}

#[test]
fn the_columns_that_are_asked_for_are_enough() {
    let rows = [store(0, 0, 64), load(S, 0, 64), load(2 * S, 8, 8), store(3 * S, 0, 64)];
    for definitions in Definitions::ALL {
        for row_order in [RowOrder::Ascending, RowOrder::Any] {
            let options = Options { definitions, row_order, ..Options::default() };
            let all = batch(&rows);
            let columns = options.trace_columns();
            let indices: Vec<usize> = columns.iter().map(|column| all.schema().index_of(column).unwrap()).collect();
            let mut analyser = dwell_analysis::Analyser::new(options);
            analyser.push_trace(&all.project(&indices).unwrap()).unwrap();
            assert!(columns.len() < all.num_columns() / 2);
            assert_eq!(analyser.finish(), analyse(options, None, &rows));
        }
    }
    let lifecycle = Table::KvBlockLifecycle.schema();
    assert!(KV_LIFECYCLE_COLUMNS.iter().all(|column| lifecycle.index_of(column).is_ok()));
}
