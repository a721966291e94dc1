//! Small traces, made in code and written as a table, for tests that need no recording. The tests of every crate take
//! this file in.

use std::path::Path;

use dwell_events::schema::Table;
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, Phase, RegionType};
use dwell_store::TableWriter;

/// Time from one row to the next.
const TICK_NS: u64 = 1_000;

/// Rows that come one after the other.
pub struct SmallTrace {
    rows: Vec<TraceRow<'static>>,
    phase: Phase,
}

impl SmallTrace {
    /// No rows; those that come are of the time in which the model generates.
    pub fn new() -> Self {
        Self { rows: Vec::new(), phase: Phase::Generation }
    }

    /// Rows from here on are of this phase.
    #[allow(dead_code, reason = "not every test has several")]
    pub fn phase(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    /// A sampled load of 8 bytes by a function, of which nobody knows whose memory it is.
    pub fn load(self, symbol: &'static str, address: u64) -> Self {
        self.access(OpType::Load, symbol, address)
    }

    /// A sampled store otherwise like that.
    pub fn store(self, symbol: &'static str, address: u64) -> Self {
        self.access(OpType::Store, symbol, address)
    }

    fn access(self, op_type: OpType, symbol: &'static str, address: u64) -> Self {
        let row = TraceRow {
            phase: Some(self.phase),
            op_type,
            symbol,
            address,
            size_bytes: 8,
            region_type: RegionType::Unknown,
            source: "perf_mem",
            period: 1,
            ..TraceRow::EMPTY
        };
        self.row(row)
    }

    /// Any row; its time is the next one.
    pub fn row(mut self, row: TraceRow<'static>) -> Self {
        let timestamp_ns = TICK_NS * (self.rows.len() as u64 + 1);
        self.rows.push(TraceRow { timestamp_ns, ..row });
        self
    }

    /// Writes `trace.parquet` into a folder.
    pub fn write(&self, dir: &Path) {
        let mut builder = TraceBuilder::new("small");
        self.rows.iter().for_each(|row| builder.push(row));
        let mut table = TableWriter::create(dir, Table::Trace).expect("the folder is there");
        table.write(&builder.finish_batch()).expect("the rows are of the table");
        assert_eq!(table.finish().expect("the disk has room"), self.rows.len() as u64);
    }
}
