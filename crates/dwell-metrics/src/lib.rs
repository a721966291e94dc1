//! The metrics of a run directory: its tables, given to the analyser.
//!
//! Building a run, reporting on one and Python all need this, and none of them needs the others: so it is apart. It reads
//! Parquet, and knows neither raw streams nor sockets.

#![forbid(unsafe_code)]

mod error;
mod kv_map;
mod read_ahead;
mod region_names;
mod window;

use dwell_analysis::overview::{Overview, OverviewBuilder};
use dwell_analysis::{Analyser, AnalysisError, KV_LIFECYCLE_COLUMNS, MetricsReport, Options, RowOrder};
use dwell_events::schema::Table;
use dwell_store::{RunDir, RunState, ensure_listed_tables, open_table_groups, open_table_subset};

pub use error::MetricsError;
pub use window::{WindowDrawing, draw_window};

/// Rows that are sorted in memory at most, at about 60 bytes each.
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

/// Analyses the rows as they come, and once more by time if they are in another order.
fn in_order(
    run: &RunDir,
    options: Options,
    analyse: impl Fn(Options) -> Result<Analysed, MetricsError>,
) -> Result<Analysed, MetricsError> {
    if run.marker()?.is_some_and(|marker| marker.state == RunState::Recording) {
        return Err(MetricsError::NotFinished { run: run.path().to_owned() });
    }
    let analysed = analyse(options)?;
    let (rows, backward_rows) = (analysed.0.trace_rows, analysed.0.backward_rows);
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
fn analyse_rows(run: &RunDir, mut analyser: Analyser) -> Result<Analysed, MetricsError> {
    let mut blocks = None;
    // mrm-trace leaves the table out when it would be empty.
    if run.table(Table::KvBlockLifecycle).exists() {
        let mut batches = open_table_subset(run.path(), Table::KvBlockLifecycle, &KV_LIFECYCLE_COLUMNS)?;
        let first = batches.next().transpose()?;
        first.iter().try_for_each(|first| analyser.expect_kv_lifecycle(first)).map_err(failed(run))?;
        blocks = Some(first.into_iter().map(Ok).chain(batches));
    }
    // After the first rows some columns may be of no use any more.
    for groups in [0..1, 1..usize::MAX] {
        let rows = open_table_groups(run.path(), Table::Trace, &analyser.trace_columns(), groups)?;
        read_ahead::for_each_batch(rows, |batch| analyser.push_trace(batch).map_err(failed(run)))?;
    }
    for batch in blocks.into_iter().flatten() {
        analyser.push_kv_lifecycle(&batch?).map_err(failed(run))?;
    }
    let (mut report, overview) = analyser.finish_drawn();
    report.name_regions(region_names::read(run)?);
    Ok((report, overview))
}

/// What an error of the analysis says of a run.
fn failed(run: &RunDir) -> impl Fn(AnalysisError) -> MetricsError {
    |error| MetricsError::Analysis { run: run.path().to_owned(), reason: error.to_string() }
}
