//! What is missing in the runs of a dataset, added up.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use dwell_events::schema::Table;
use dwell_store::{StoreError, open_table_columns};

use crate::PublishError;
use crate::facts::RunFacts;

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
pub(super) fn totals(runs: &[&RunFacts]) -> Result<Vec<LossTotal>, PublishError> {
    let mut totals: BTreeMap<String, LossTotal> = BTreeMap::new();
    for run in runs {
        let mut of_run: BTreeMap<String, LossTotal> = BTreeMap::new();
        let table = match open_table_columns(&run.path, Table::Loss, &["kind", "severity", "count", "advice"]) {
            Err(StoreError::NotFound { .. }) => continue,
            opened => opened?,
        };
        for batch in table {
            add_rows(&batch?, &mut of_run);
        }
        for (kind, found) in of_run {
            let total = totals.entry(kind).or_default();
            *total = LossTotal { runs: total.runs + 1, count: total.count + found.count, ..found };
        }
    }
    Ok(totals.into_values().collect())
}

fn add_rows(batch: &RecordBatch, totals: &mut BTreeMap<String, LossTotal>) {
    let counts = batch.column_by_name("count").and_then(|column| column.as_primitive_opt::<UInt64Type>());
    for row in 0..batch.num_rows() {
        let kind = text(batch, "kind", row);
        let total = totals.entry(kind.clone()).or_default();
        total.count += counts.map_or(0, |counts| counts.value(row));
        total.severity = text(batch, "severity", row);
        total.advice = text(batch, "advice", row);
        total.kind = kind;
    }
}

/// A text, dictionary-encoded or plain.
fn text(batch: &RecordBatch, column: &str, row: usize) -> String {
    let Some(column) = batch.column_by_name(column) else { return String::new() };
    let value = match column.as_dictionary_opt::<Int32Type>() {
        Some(words) => words.key(row).and_then(|key| Some(words.values().as_string_opt::<i32>()?.value(key))),
        None => column.as_string_opt::<i32>().filter(|texts| texts.is_valid(row)).map(|texts| texts.value(row)),
    };
    value.unwrap_or_default().to_owned()
}
