//! A trace such as a sampling collector leaves: single bytes at scattered addresses, one row for many accesses.

use std::path::{Path, PathBuf};

use anyhow::Context;
use dwell_events::schema::Table;
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, Phase, RegionType};
use dwell_store::TableWriter;

const ROWS_PER_BATCH: usize = 32 * 1024;
const SAMPLING_PERIOD: u64 = 4000;
/// One store among this many rows.
const ROWS_PER_STORE: u64 = 5;

/// Writes the trace as the only table of a run directory, and gives that directory.
pub(crate) fn write(folder: &Path, rows: u64, addresses: u64) -> anyhow::Result<PathBuf> {
    let run = folder.join("sampled").join("run");
    std::fs::create_dir_all(&run).context("making a folder for a trace")?;
    let mut table = TableWriter::create(&run, Table::Trace)?;
    let mut builder = TraceBuilder::new("run");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for row in 0..rows {
        // A fixed sequence (xorshift): both builds read the same trace, today and next year.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        builder.push(&access(row, state % addresses));
        if builder.len() >= ROWS_PER_BATCH {
            table.write(&builder.finish_batch())?;
        }
    }
    table.write(&builder.finish_batch())?;
    table.finish()?;
    Ok(run)
}

fn access(row: u64, place: u64) -> TraceRow<'static> {
    let region_types = [RegionType::Weight, RegionType::KvCache, RegionType::Activation, RegionType::Runtime];
    let region = (place % region_types.len() as u64) as usize;
    TraceRow {
        timestamp_ns: row * 1_000,
        phase: Some(Phase::Generation),
        address: 0x7f00_0000_0000 + place * 64,
        size_bytes: 1,
        op_type: if row.is_multiple_of(ROWS_PER_STORE) { OpType::Store } else { OpType::Load },
        symbol: "ggml_vec_dot_q4_K_q8_K",
        dso: "libggml-cpu.so",
        region_type: region_types[region],
        region_id: region as u32 + 1,
        source: "perf_mem",
        period: SAMPLING_PERIOD,
        ..TraceRow::EMPTY
    }
}
