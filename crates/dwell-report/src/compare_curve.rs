//! Memory over the tokens of one run, from its tokens table.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use dwell_events::schema::Table;
use dwell_files::FileError;
use dwell_store::{StoreError, TableReader, number_at, open_table_columns};

use crate::ReportError;

/// More points than these cannot be seen.
const POINTS_MAX: u64 = 300;
/// Columns of a table that has memory by kind, and of an older one.
const COLUMNS: [&[&str]; 2] =
    [&["is_generated", "rss_bytes", "pss_bytes", "gpu_bytes"], &["is_generated", "rss_bytes"]];

/// How many tokens the model had chosen, and the memory then: PSS, else RSS, and memory on GPUs. Empty for a run without
/// tokens or samples.
pub(crate) fn memory_over_tokens(run: &Path) -> Result<Vec<(u64, u64)>, ReportError> {
    let Some(table) = open(run)? else { return Ok(Vec::new()) };
    let distance = (table.total_rows() / POINTS_MAX).max(1);
    let mut points = Vec::new();
    let mut tokens = 0;
    for batch in table {
        let batch = batch?;
        let Some(is_generated) = batch.column_by_name("is_generated").and_then(|column| column.as_boolean_opt()) else {
            continue;
        };
        for row in (0..batch.num_rows()).filter(|&row| is_generated.value(row)) {
            tokens += 1;
            if tokens == 1 || tokens % distance == 0 {
                points.extend(memory_at(&batch, row).map(|bytes| (tokens, bytes)));
            }
        }
    }
    Ok(points)
}

fn memory_at(batch: &RecordBatch, row: usize) -> Option<u64> {
    let bytes = |column| number_at::<UInt64Type>(batch, column, row);
    let resident = bytes("pss_bytes").or_else(|| bytes("rss_bytes"))?;
    Some(resident.saturating_add(bytes("gpu_bytes").unwrap_or(0)))
}

fn open(run: &Path) -> Result<Option<TableReader>, StoreError> {
    for columns in COLUMNS {
        match open_table_columns(run, Table::Tokens, columns) {
            Err(StoreError::MissingColumn { .. }) => continue,
            Err(StoreError::File(FileError::NotFound { .. })) => return Ok(None),
            opened => return opened.map(Some),
        }
    }
    Ok(None)
}
