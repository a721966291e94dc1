//! The metrics of a run directory: its tables, given to the analyser.
//!
//! Building a run, reporting on one and Python all need this, and none of them needs the others: so it is apart. It reads
//! Parquet, and knows neither raw streams nor sockets.

#![forbid(unsafe_code)]

mod error;
mod region_names;

use dwell_analysis::{Analyser, AnalysisError, KV_LIFECYCLE_COLUMNS, MetricsReport, Options};
use dwell_events::schema::Table;
use dwell_store::{RunDir, RunState, open_table_subset};

pub use error::MetricsError;

/// The metrics of a run's tables, of which only the columns are read that the metrics use.
pub fn analyse_run(run: &RunDir, options: Options) -> Result<MetricsReport, MetricsError> {
    if run.marker()?.is_some_and(|marker| marker.state == RunState::Recording) {
        return Err(MetricsError::NotFinished { run: run.path().to_owned() });
    }
    let failed = |error: AnalysisError| MetricsError::Analysis { reason: error.to_string() };
    let mut analyser = Analyser::new(options);
    // mrm-trace leaves the table out when it would be empty.
    if run.table(Table::KvBlockLifecycle).exists() {
        for batch in open_table_subset(run.path(), Table::KvBlockLifecycle, &KV_LIFECYCLE_COLUMNS)? {
            analyser.push_kv_lifecycle(&batch?).map_err(failed)?;
        }
    }
    for batch in open_table_subset(run.path(), Table::Trace, &options.trace_columns())? {
        analyser.push_trace(&batch?).map_err(failed)?;
    }
    let mut report = analyser.finish();
    report.name_regions(region_names::read(run)?);
    Ok(report)
}
