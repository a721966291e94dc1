//! What an analysis would read and hold, before it is begun.

use std::ops::ControlFlow;

use dwell_analysis::{Analyser, Options};
use dwell_events::schema::Table;
use dwell_store::{RunDir, ensure_listed_tables, table_extent};
use serde::Serialize;

use crate::MetricsError;
use crate::memory_limit::{PROCESS_BYTES, parts_within};
use crate::pass::Pass;

/// Rows that are analysed to estimate memory. Chosen: a quarter of a second.
const SAMPLED_ROWS: u64 = 1_000_000;

/// What an analysis of a run would read and hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Rows of `trace.parquet`; every part reads all of them.
    pub rows: u64,
    /// Its row groups.
    pub row_groups: usize,
    /// Its bytes.
    pub file_bytes: u64,
    /// The columns that are read.
    pub columns: Vec<String>,
    /// Their bytes in the file.
    pub column_bytes: u64,
    /// The same when they are decompressed.
    pub decompressed_bytes: u64,
    /// Rows at the beginning of the trace that the estimate rests on.
    pub sampled_rows: u64,
    /// Memory of an analysis in one part, about: what the sampled rows hold, growing with the rows as it did among them.
    pub estimated_memory_bytes: u64,
    /// The limit that was asked for.
    pub memory_limit_bytes: Option<u64>,
    /// Parts that the limit needs, or that were asked for.
    pub parts: Vec<PartExplanation>,
}

/// What one part would read and hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartExplanation {
    /// Its number, from 1.
    pub part: u32,
    /// Rows that it reads.
    pub rows: u64,
    /// Bytes of columns that it reads.
    pub column_bytes: u64,
    /// Memory that it holds, about.
    pub estimated_memory_bytes: u64,
}

/// Says what an analysis would read and hold, in so many parts or in as many as a limit of memory needs.
pub fn explain(
    run: &RunDir,
    options: Options,
    parts: Option<u32>,
    memory_limit_bytes: Option<u64>,
) -> Result<Explanation, MetricsError> {
    ensure_listed_tables(run)?;
    let columns = options.trace_columns();
    let extent = table_extent(run.path(), Table::Trace, &columns)?;
    let sample = sampled_memory(run, options)?;
    let state_bytes = sample.state_bytes_of(extent.rows);
    let of = parts.unwrap_or_else(|| memory_limit_bytes.map_or(1, |limit| parts_within(state_bytes, limit)));
    let part = |part: u32| PartExplanation {
        part,
        rows: extent.rows,
        column_bytes: extent.column_bytes,
        estimated_memory_bytes: PROCESS_BYTES + state_bytes / u64::from(of.max(1)),
    };
    Ok(Explanation {
        rows: extent.rows,
        row_groups: extent.group_rows.len(),
        file_bytes: extent.file_bytes,
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        column_bytes: extent.column_bytes,
        decompressed_bytes: extent.decompressed_bytes,
        sampled_rows: sample.rows,
        estimated_memory_bytes: PROCESS_BYTES + state_bytes,
        memory_limit_bytes,
        parts: (1..=of).map(part).collect(),
    })
}

/// What the first rows of a trace held.
struct SampledMemory {
    rows: u64,
    /// When half of them had come.
    half_bytes: u64,
    bytes: u64,
}

impl SampledMemory {
    /// What so many rows would hold: it grows by the power with which it grew from half of the sample to all of it.
    fn state_bytes_of(&self, rows: u64) -> u64 {
        if rows <= self.rows || self.half_bytes == 0 {
            return self.bytes;
        }
        let growth = (self.bytes as f64 / self.half_bytes as f64).log2().clamp(0.0, 1.0);
        (self.bytes as f64 * (rows as f64 / self.rows as f64).powf(growth)) as u64
    }
}

fn sampled_memory(run: &RunDir, options: Options) -> Result<SampledMemory, MetricsError> {
    let mut pass = Pass::begin(run, Analyser::new(options))?;
    let mut sample = SampledMemory { rows: 0, half_bytes: 0, bytes: 0 };
    // How the sampling ended does not matter.
    let _ = pass.push_trace(|analyser| {
        sample.rows = analyser.rows();
        sample.bytes = analyser.held_bytes() as u64;
        if sample.rows <= SAMPLED_ROWS / 2 {
            sample.half_bytes = sample.bytes;
        }
        if sample.rows < SAMPLED_ROWS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(sample)
}
