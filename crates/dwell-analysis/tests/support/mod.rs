//! Short ways to write traces down.

#![allow(dead_code, reason = "each test file uses its own part")]

use dwell_analysis::{Analyser, Definitions, MetricsReport, Options, RegionTypeRow};
use dwell_events::schema::kv_block_lifecycle::{BeginCause, EndCause, KvBlockBuilder, KvBlockRow, KvKind};
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, Phase, RegionType};

/// Nanoseconds in a second.
pub const S: u64 = 1_000_000_000;

/// A load of 8 bytes of an activation in step 0 that tests change as they need.
pub const ROW: TraceRow<'static> = TraceRow {
    timestamp_ns: 0,
    phase: Some(Phase::Generation),
    address: 0x1000,
    size_bytes: 8,
    op_type: OpType::Load,
    region_type: RegionType::Activation,
    region_id: 2,
    step: Some(0),
    source: "tensor_ops",
    period: 1,
    ..TraceRow::EMPTY
};

/// A store otherwise like [`ROW`].
pub fn store(timestamp_ns: u64, address: u64, size_bytes: u64) -> TraceRow<'static> {
    TraceRow { timestamp_ns, address, size_bytes, op_type: OpType::Store, ..ROW }
}

/// A load otherwise like [`ROW`].
pub fn load(timestamp_ns: u64, address: u64, size_bytes: u64) -> TraceRow<'static> {
    TraceRow { timestamp_ns, address, size_bytes, ..ROW }
}

/// A block of 100 bytes that is read until it is overwritten.
pub const BLOCK: KvBlockRow = KvBlockRow {
    block_id: 0,
    address: 0x1000,
    write_ns: 0,
    last_read_ns: None,
    evict_ns: None,
    total_reads: 0,
    layer: 0,
    kind: KvKind::K,
    first_position: None,
    positions: 1,
    sequence: None,
    bytes: 100,
    cell: 0,
    end_cause: EndCause::Teardown,
    begin_cause: BeginCause::Written,
};

/// The report on the rows.
pub fn analyse(options: Options, blocks: Option<&[KvBlockRow]>, rows: &[TraceRow<'_>]) -> MetricsReport {
    let mut analyser = Analyser::new(options);
    let blocks = blocks.map(|blocks| {
        let mut builder = KvBlockBuilder::default();
        blocks.iter().for_each(|block| builder.push(*block));
        builder.finish_batch()
    });
    if let Some(blocks) = &blocks {
        analyser.expect_kv_lifecycle(blocks).expect("the batch has the table's columns");
    }
    let mut builder = TraceBuilder::new("run");
    rows.iter().for_each(|row| builder.push(row));
    analyser.push_trace(&builder.finish_batch()).expect("the batch has the table's columns");
    if let Some(blocks) = &blocks {
        analyser.push_kv_lifecycle(blocks).expect("the batch has the table's columns");
    }
    analyser.finish()
}

/// The report by dwell's definitions.
pub fn dwell(rows: &[TraceRow<'_>]) -> MetricsReport {
    analyse(Options::default(), None, rows)
}

/// The report by the definitions of mrm-trace.
pub fn mrm_trace(rows: &[TraceRow<'_>]) -> MetricsReport {
    analyse(Options { definitions: Definitions::MrmTrace, ..Options::default() }, None, rows)
}

/// The row of a type.
pub fn of_type<'a>(report: &'a MetricsReport, name: &str) -> &'a RegionTypeRow {
    report.region_types.iter().find(|row| &*row.region_type == name).expect("the type is in the trace")
}
