//! The summary of a run that is on disk.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::types::UInt64Type;
use dwell_analysis::{Analyser, Options};
use dwell_events::Severity;
use dwell_events::schema::Table;
use dwell_files::FileError;
use dwell_metrics::{MetricsError, analyse_run};
use dwell_store::{RunDir, StoreError, number_at, open_table_subset, text_at};

use crate::run_results::RunResults;
use crate::{LossSummary, ReportError, RunSummary};

const LOSS_COLUMNS: [&str; 5] = ["kind", "severity", "count", "bytes", "detail"];

impl RunSummary {
    /// What `dwell run` said of a run, from its files. The metrics are computed again, as they were when it was built.
    pub fn load(run: &RunDir) -> Result<Self, ReportError> {
        let results = RunResults::load(run)?;
        if !results.is_finished() {
            return Err(MetricsError::NotFinished { run: run.path().to_owned() }.into());
        }
        let options = results.metadata.build.as_ref().map_or_else(Options::default, |build| build.analysis);
        // What others recorded need not be accesses. The run still says what it holds.
        let mut metrics = match results.metadata.is_imported() && !run.table(Table::Trace).exists() {
            true => Analyser::new(options).finish(),
            false => analyse_run(run, options)?,
        };
        metrics.heed(results.metadata.quality.as_ref(), results.metadata.validity.as_ref());
        if let Some(unit) = results.metadata.time_unit() {
            metrics.withhold_times(unit);
        }
        Ok(Self::new(run.path(), &results.metadata, &metrics, losses(run.path())?))
    }
}

/// What was not seen; runs of other programs have no such table.
pub(crate) fn losses(run: &Path) -> Result<Vec<LossSummary>, ReportError> {
    let table = match open_table_subset(run, Table::Loss, &LOSS_COLUMNS) {
        Err(StoreError::File(FileError::NotFound { .. })) => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut losses = Vec::new();
    for batch in table {
        let batch = batch?;
        losses.extend((0..batch.num_rows()).map(|row| loss(&batch, row)));
    }
    Ok(losses)
}

fn loss(batch: &RecordBatch, row: usize) -> LossSummary {
    let text = |column| text_at(batch, column, row).unwrap_or_default().to_owned();
    LossSummary {
        kind: text("kind"),
        is_data_loss: text("severity") == Severity::DataLoss.name(),
        count: number_at::<UInt64Type>(batch, "count", row).unwrap_or(0),
        bytes: number_at::<UInt64Type>(batch, "bytes", row),
        detail: text("detail"),
    }
}
