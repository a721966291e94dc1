//! The metrics of a run directory: its tables, given to the analyser.
//!
//! Building a run, reporting on one and Python all need this, and none of them needs the others: so it is apart. It reads
//! Parquet, and knows neither raw streams nor sockets.
//!
//! A trace is analysed in one pass ([`analyse_run`]), in passes that keep within a limit of memory
//! ([`analyse_run_within`]), or in parts on several machines ([`conclude_part`], [`merge_parts`]); the report is the same.

#![forbid(unsafe_code)]

mod approximation;
mod error;
mod explanation;
mod kv_map;
mod memory_limit;
mod part_file;
mod parts;
mod pass;
mod read_ahead;
mod region_names;
mod row_spill;
mod window;

use dwell_analysis::overview::{Overview, OverviewBuilder};
use dwell_analysis::{Analyser, AnalysisError, MetricsReport, Options, RowOrder};
use dwell_store::{RunDir, RunState, ensure_listed_tables};

pub use approximation::approximate_run;
pub use error::MetricsError;
pub use explanation::{Explanation, PartExplanation, explain};
pub use memory_limit::{LEAST_MEMORY_BYTES, analyse_run_within};
pub use part_file::{is_part_file, read_part, write_part};
pub use parts::{conclude_part, merge_parts};
pub use window::{WindowDrawing, draw_window};

/// Rows that are sorted at most, at about 60 bytes each.
const SORTED_ROWS_MAX: u64 = 50_000_000;

/// Of a trace that is too long to be sorted, one row in so many may be earlier than the one before. Threads that compute at once
/// make a few; a trace with more of them is in no order.
const ROWS_PER_BACKWARD_ROW: u64 = 100;

/// The metrics of a run's tables, of which only the columns are read that the metrics use.
///
/// A trace whose rows are not in the order of time is read a second time and sorted.
pub fn analyse_run(run: &RunDir, options: Options) -> Result<MetricsReport, MetricsError> {
    ensure_listed_tables(run)?;
    in_order(run, options, |options| analyse_rows(run, Analyser::new(options))).map(|(metrics, _)| metrics)
}

/// The same and a picture of the trace, from one reading of its rows.
pub fn draw_run(run: &RunDir, options: Options) -> Result<(MetricsReport, Overview), MetricsError> {
    let regions = region_names::regions(run)?;
    let (metrics, overview) = in_order(run, options, |options| {
        analyse_rows(run, Analyser::new(options).drawing(OverviewBuilder::new(regions.clone())))
    })?;
    let mut overview = overview.unwrap_or_default();
    overview.kv = kv_map::draw(run, &overview)?;
    Ok((metrics, overview))
}

type Analysed = (MetricsReport, Option<Overview>);

/// What knows how many rows it was made of, and how many of them were earlier than one before.
trait RowsSeen {
    fn rows_seen(&self) -> (u64, u64);
}

impl RowsSeen for Analysed {
    fn rows_seen(&self) -> (u64, u64) {
        (self.0.trace_rows, self.0.backward_rows)
    }
}

/// Analyses the rows as they come, and once more by time if they are in another order.
fn in_order<T: RowsSeen>(
    run: &RunDir,
    options: Options,
    mut analyse: impl FnMut(Options) -> Result<T, MetricsError>,
) -> Result<T, MetricsError> {
    if run.marker()?.is_some_and(|marker| marker.state == RunState::Recording) {
        return Err(MetricsError::NotFinished { run: run.path().to_owned() });
    }
    let analysed = analyse(options)?;
    let (rows, backward_rows) = analysed.rows_seen();
    if backward_rows == 0 || options.row_order == RowOrder::Any {
        return Ok(analysed);
    }
    if rows <= SORTED_ROWS_MAX {
        return analyse(Options { row_order: RowOrder::Any, ..options });
    }
    if backward_rows > rows / ROWS_PER_BACKWARD_ROW {
        return Err(MetricsError::Unsorted { run: run.path().to_owned(), rows, backward_rows, limit: SORTED_ROWS_MAX });
    }
    Ok(analysed)
}

/// Gives the tables of a run to an analyser.
fn analyse_rows(run: &RunDir, analyser: Analyser) -> Result<Analysed, MetricsError> {
    let (mut report, overview) = pass::push_tables(run, analyser)?.finish_drawn();
    report.name_regions(region_names::read(run)?);
    Ok((report, overview))
}

/// What an error of the analysis says of a run.
fn failed(run: &RunDir) -> impl Fn(AnalysisError) -> MetricsError {
    |error| MetricsError::Analysis { run: run.path().to_owned(), reason: error.to_string() }
}
