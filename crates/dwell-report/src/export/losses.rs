//! What is missing in the runs of a dataset, added up.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_array::types::UInt64Type;
use dwell_events::schema::Table;
use dwell_files::FileError;
use dwell_store::{StoreError, number_at, open_table_columns, text_at};

use crate::ReportError;
use crate::run_results::RunResults;

/// One kind of loss over all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LossTotal {
    pub(super) kind: String,
    pub(super) severity: String,
    pub(super) runs: usize,
    pub(super) count: u64,
    pub(super) advice: String,
}

/// Every kind of loss, by name.
pub(super) fn totals(runs: &[&RunResults]) -> Result<Vec<LossTotal>, ReportError> {
    let mut totals: BTreeMap<String, LossTotal> = BTreeMap::new();
    for run in runs {
        let mut of_run: BTreeMap<String, LossTotal> = BTreeMap::new();
        let table = match open_table_columns(&run.path, Table::Loss, &["kind", "severity", "count", "advice"]) {
            Err(StoreError::File(FileError::NotFound { .. })) => continue,
            opened => opened?,
        };
        for batch in table {
            add_rows(&batch?, &mut of_run);
        }
        for (kind, found) in of_run {
            let total = totals.entry(kind).or_default();
            *total = LossTotal { runs: total.runs + 1, count: total.count.saturating_add(found.count), ..found };
        }
    }
    Ok(totals.into_values().collect())
}

fn add_rows(batch: &RecordBatch, totals: &mut BTreeMap<String, LossTotal>) {
    for row in 0..batch.num_rows() {
        let text = |column| text_at(batch, column, row).unwrap_or_default().to_owned();
        let count = number_at::<UInt64Type>(batch, "count", row).unwrap_or(0);
        let total = totals.entry(text("kind")).or_default();
        total.count = total.count.saturating_add(count);
        (total.kind, total.severity, total.advice) = (text("kind"), text("severity"), text("advice"));
    }
}
