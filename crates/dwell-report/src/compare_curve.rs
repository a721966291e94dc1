//! Memory over the tokens of one run, from its tokens table.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use dwell_analysis::memory::MemoryKind;
use dwell_events::schema::Table;
use dwell_files::FileError;
use dwell_store::{StoreError, TableReader, number_at, open_table_columns};

use crate::ReportError;

/// More points than these cannot be seen.
const POINTS_MAX: u64 = 300;
/// Columns of a table that has memory by kind, and of an older one.
const COLUMNS: [&[&str]; 2] =
    [&["is_generated", "rss_bytes", "pss_bytes", "gpu_bytes"], &["is_generated", "rss_bytes"]];

/// The memory when a token came, with memory on GPUs in each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenMemory {
    /// How many tokens the model had chosen.
    pub(crate) tokens: u64,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) pss_bytes: Option<u64>,
}

impl TokenMemory {
    /// PSS or RSS.
    pub(crate) fn of(&self, kind: MemoryKind) -> Option<u64> {
        if kind == MemoryKind::Pss { self.pss_bytes } else { self.rss_bytes }
    }
}

/// Memory over the tokens of a run. Empty for a run without tokens or samples.
pub(crate) fn memory_over_tokens(run: &Path) -> Result<Vec<TokenMemory>, ReportError> {
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
                points.push(memory_at(&batch, row, tokens));
            }
        }
    }
    points.retain(|point| point.rss_bytes.or(point.pss_bytes).is_some());
    Ok(points)
}

fn memory_at(batch: &RecordBatch, row: usize, tokens: u64) -> TokenMemory {
    let bytes = |column| number_at::<UInt64Type>(batch, column, row);
    let with_gpu = |column| Some(bytes(column)?.saturating_add(bytes("gpu_bytes").unwrap_or(0)));
    TokenMemory { tokens, rss_bytes: with_gpu("rss_bytes"), pss_bytes: with_gpu("pss_bytes") }
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
