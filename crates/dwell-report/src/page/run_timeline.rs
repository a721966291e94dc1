//! What happened when: phases, requests, tokens, memory and pressure on one clock.

use std::collections::BTreeMap;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use dwell_analysis::overview::Overview;
use dwell_events::schema::{Table, TableSpec};
use dwell_files::FileError;
use dwell_observe::Line;
use dwell_store::{StoreError, TableReader, number_at, open_table_subset, text_at};
use serde::Serialize;

use super::run::RunFiles;
use super::run_observed::{ObservedSamples, observed};
use crate::ReportError;

/// More points than these cannot be seen.
pub(super) const MOST_POINTS: u64 = 2000;

/// The table of a collector that is not known here by type.
static PRESSURE: TableSpec = TableSpec { name: "pressure", columns: &[] };

/// Kinds of resident memory, with their titles.
const MEMORY_COLUMNS: [(&str, &str); 5] = [
    ("anon_bytes", "Anonymous"),
    ("file_bytes", "File-backed"),
    ("shmem_bytes", "Shared"),
    ("swap_bytes", "Swapped out"),
    ("gpu_bytes", "On GPUs"),
];

/// Pressures, with their titles.
const PRESSURE_COLUMNS: [(&str, &str); 3] = [
    ("cpu_some_pct", "Waiting for a processor"),
    ("memory_some_pct", "Waiting for memory"),
    ("io_some_pct", "Waiting for storage"),
];

/// What happened when. Times are seconds since `begin_ns`.
#[derive(Debug, Serialize)]
pub(crate) struct Timeline {
    begin_ns: u64,
    pub(crate) end_s: f64,
    pub(crate) phases: Vec<Phase>,
    pub(crate) tokens: Tokens,
    requests: Vec<Request>,
    pub(crate) memory: Option<Samples>,
    pressure: Option<Samples>,
    /// What the kernel was seen doing.
    observed: Vec<ObservedSamples>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
}

#[derive(Debug, Serialize)]
struct Request {
    id: String,
    begin_s: f64,
    first_token_s: Option<f64>,
    end_s: f64,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Tokens {
    stride: u64,
    index: Vec<u32>,
    begin_s: Vec<f64>,
    end_s: Vec<f64>,
    context_tokens: Vec<Option<u32>>,
    kv_bytes: Vec<Option<u64>>,
}

/// Samples at the same times.
#[derive(Debug, Serialize)]
pub(crate) struct Samples {
    pub(crate) unit: &'static str,
    pub(crate) time_s: Vec<f64>,
    pub(crate) series: Vec<Series>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) values: Vec<Option<f64>>,
}

/// Moments of a run, as seconds since it began.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    pub(super) begin_ns: u64,
}

impl Clock {
    pub(super) fn seconds(self, now_ns: u64) -> f64 {
        now_ns.saturating_sub(self.begin_ns) as f64 / 1e9
    }
}

impl Timeline {
    /// A moment, as seconds since the run began.
    pub(crate) fn seconds(&self, now_ns: u64) -> f64 {
        Clock { begin_ns: self.begin_ns }.seconds(now_ns)
    }

    pub(super) fn load(files: &RunFiles<'_>, overview: &Overview) -> Result<Self, ReportError> {
        let metadata = files.metadata;
        let phases = &metadata.phases;
        let seen = (overview.rows > 0).then_some((overview.first_ns, overview.last_ns));
        let spans = phases.iter().map(|phase| (phase.begin_ns, phase.end_ns)).chain(seen);
        let (begin_ns, end_ns) = spans.reduce(|all, span| (all.0.min(span.0), all.1.max(span.1))).unwrap_or_default();
        let clock = Clock { begin_ns };
        let phase = |phase: &dwell_events::PhaseSpan| Phase {
            name: phase.phase.name(),
            begin_s: clock.seconds(phase.begin_ns),
            end_s: clock.seconds(phase.end_ns),
        };
        let requests = metadata.requests.iter().enumerate().map(|(index, request)| Request {
            id: format!("{} (sequence {})", index + 1, request.sequence),
            begin_s: clock.seconds(request.begin_ns),
            first_token_s: request.first_token_ns.map(|first_ns| clock.seconds(first_ns)),
            end_s: clock.seconds(request.end_ns.unwrap_or(end_ns)),
        });
        Ok(Self {
            begin_ns,
            end_s: clock.seconds(end_ns),
            phases: phases.iter().map(phase).collect(),
            tokens: tokens(files.path, clock)?,
            requests: requests.collect(),
            memory: memory(files.path, clock)?,
            pressure: pressure(files.path, clock)?,
            observed: Vec::new(),
        })
    }

    /// Adds what the kernel was seen doing. Says whether any of it was during the run.
    pub(super) fn observe(&mut self, lines: Vec<Line>) -> bool {
        let found = observed(lines, Clock { begin_ns: self.begin_ns }, self.end_s);
        let is_any = found.is_some();
        self.observed = found.unwrap_or_default();
        is_any
    }
}

/// Memory and pressure of a run, as far as it has them, in seconds since a moment.
pub(crate) fn sampled(run: &Path, begin_ns: u64) -> Result<Vec<Samples>, ReportError> {
    let clock = Clock { begin_ns };
    Ok([memory(run, clock)?, pressure(run, clock)?].into_iter().flatten().collect())
}

/// A table with those of the columns that it has; none if the run has no such table.
pub(crate) fn open_table(run: &Path, table: Table, columns: &[&str]) -> Result<Option<TableReader>, ReportError> {
    match open_table_subset(run, table, columns) {
        Err(StoreError::File(FileError::NotFound { .. })) => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

fn tokens(run: &Path, clock: Clock) -> Result<Tokens, ReportError> {
    let columns = ["token_index", "position", "begin_ns", "end_ns", "kv_bytes"];
    let Some(table) = open_table(run, Table::Tokens, &columns)? else {
        return Ok(Tokens { stride: 1, ..Tokens::default() });
    };
    let stride = table.total_rows().div_ceil(MOST_POINTS).max(1);
    let mut tokens = Tokens { stride, ..Tokens::default() };
    let mut row_number = 0;
    for batch in table {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            if row_number % stride == 0 {
                tokens.push(&batch, row, clock);
            }
            row_number += 1;
        }
    }
    Ok(tokens)
}

impl Tokens {
    /// The least and the most time between a step and the one so many later; none if there are not so many.
    pub(crate) fn times_of_steps(&self, steps: u64) -> Option<(f64, f64)> {
        // Tokens of a prompt, and those of sequences that are computed together, share one step.
        let mut begins = self.begin_s.clone();
        begins.dedup();
        let entries = usize::try_from(steps.div_ceil(self.stride.max(1))).ok()?;
        let times = begins.iter().zip(begins.get(entries..)?).map(|(begin, later)| later - begin);
        times.fold(None, |known, time_s| {
            let (least, most) = known.unwrap_or((time_s, time_s));
            Some((time_s.min(least), time_s.max(most)))
        })
    }

    fn push(&mut self, batch: &RecordBatch, row: usize, clock: Clock) {
        let time = |column| clock.seconds(number_at::<UInt64Type>(batch, column, row).unwrap_or(0));
        let position = number_at::<arrow_array::types::Int32Type>(batch, "position", row);
        self.index.push(number_at::<UInt32Type>(batch, "token_index", row).unwrap_or(0));
        self.begin_s.push(time("begin_ns"));
        self.end_s.push(time("end_ns"));
        self.context_tokens
            .push(position.and_then(|position| u32::try_from(position).ok()).map(|position| position + 1));
        self.kv_bytes.push(number_at::<UInt64Type>(batch, "kv_bytes", row));
    }
}

/// Memory of the engine: the sum over its processes at each moment.
fn memory(run: &Path, clock: Clock) -> Result<Option<Samples>, ReportError> {
    let mut columns = vec!["timestamp_ns", "label", "pid"];
    columns.extend(MEMORY_COLUMNS.map(|(name, _)| name));
    let Some(table) = open_table(run, Table::Memory, &columns)? else { return Ok(None) };
    let mut sums: BTreeMap<u64, [Option<u64>; MEMORY_COLUMNS.len()]> = BTreeMap::new();
    for batch in table {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            if !is_of_engine(&batch, row) {
                continue;
            }
            let now_ns = number_at::<UInt64Type>(&batch, "timestamp_ns", row).unwrap_or(0);
            let sum = sums.entry(now_ns).or_default();
            for (sum, (column, _)) in sum.iter_mut().zip(MEMORY_COLUMNS) {
                let bytes = number_at::<UInt64Type>(&batch, column, row);
                *sum = bytes.map_or(*sum, |bytes| Some(sum.unwrap_or(0).saturating_add(bytes)));
            }
        }
    }
    let rows = sums.into_iter().map(|(now_ns, sums)| (now_ns, sums.map(|sum| sum.map(|bytes| bytes as f64))));
    Ok(samples("bytes", rows.collect(), &MEMORY_COLUMNS, clock))
}

/// Totals repeat what their processes say; the observer and the client are not the engine.
fn is_of_engine(batch: &RecordBatch, row: usize) -> bool {
    let label = text_at(batch, "label", row).unwrap_or_default();
    !label.ends_with(":total") && !label.starts_with("observer") && !label.starts_with("client")
}

fn pressure(run: &Path, clock: Clock) -> Result<Option<Samples>, ReportError> {
    let mut columns = vec!["timestamp_ns"];
    columns.extend(PRESSURE_COLUMNS.map(|(name, _)| name));
    let Some(table) = open_table(run, Table::Own(&PRESSURE), &columns)? else { return Ok(None) };
    let mut rows = Vec::new();
    for batch in table {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let now_ns = number_at::<UInt64Type>(&batch, "timestamp_ns", row).unwrap_or(0);
            rows.push((now_ns, PRESSURE_COLUMNS.map(|(column, _)| number_at::<Float64Type>(&batch, column, row))));
        }
    }
    Ok(samples("percent", rows, &PRESSURE_COLUMNS, clock))
}

/// Rows as series, every n-th of many; series without any value are left out.
fn samples<const N: usize>(
    unit: &'static str,
    rows: Vec<(u64, [Option<f64>; N])>,
    columns: &[(&'static str, &'static str); N],
    clock: Clock,
) -> Option<Samples> {
    let stride = (rows.len() as u64).div_ceil(MOST_POINTS).max(1) as usize;
    let kept: Vec<_> = rows.into_iter().step_by(stride).collect();
    let series = columns.iter().enumerate().filter_map(|(place, &(name, title))| {
        let values: Vec<Option<f64>> = kept.iter().map(|(_, values)| values[place]).collect();
        values.iter().any(|value| value.is_some_and(|value| value > 0.0)).then_some(Series { name, title, values })
    });
    let series: Vec<Series> = series.collect();
    let time_s = kept.iter().map(|&(now_ns, _)| clock.seconds(now_ns)).collect();
    (!series.is_empty()).then_some(Samples { unit, time_s, series })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_take_at_least_and_at_most_so_long() {
        // The first two tokens are of one step.
        let tokens = Tokens { stride: 1, begin_s: vec![0.0, 0.0, 1.0, 3.0, 4.0], ..Tokens::default() };
        assert_eq!(tokens.times_of_steps(1), Some((1.0, 2.0)));
        assert_eq!(tokens.times_of_steps(2), Some((3.0, 3.0)));
        assert_eq!((tokens.times_of_steps(4), Tokens::default().times_of_steps(1)), (None, None));
    }
}
