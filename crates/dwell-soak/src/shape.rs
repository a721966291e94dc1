//! What a run recorded, without times and addresses: the same model and prompt give the same, as far as a run came.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::Context;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use dwell_events::schema::Table;
use dwell_store::{open_table_columns, table_extent};

/// Columns of an access that do not depend on the machine.
const ACCESS: [&str; 5] = ["op_type", "symbol", "size_bytes", "step", "tensor"];
/// Columns of a token that do not.
const TOKEN: [&str; 5] = ["step", "sequence", "token_id", "text", "is_generated"];

/// The rows of a run, each as a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunShape {
    pub(crate) accesses: Vec<u64>,
    pub(crate) tokens: Vec<u64>,
}

impl RunShape {
    /// Reads the tables of a run; a table that it does not have is empty.
    pub(crate) fn read(run: &Path) -> anyhow::Result<Self> {
        Ok(Self { accesses: rows(run, Table::Trace, &ACCESS)?, tokens: rows(run, Table::Tokens, &TOKEN)? })
    }

    /// Whether this is how the other one begins.
    pub(crate) fn begins(&self, whole: &Self) -> bool {
        whole.accesses.starts_with(&self.accesses) && whole.tokens.starts_with(&self.tokens)
    }

    /// Whether it has at least as many rows of each table.
    pub(crate) fn holds(&self, fewer: &Self) -> bool {
        self.accesses.len() >= fewer.accesses.len() && self.tokens.len() >= fewer.tokens.len()
    }

    /// How much it is, for messages.
    pub(crate) fn size(&self) -> String {
        format!("{} accesses, {} tokens", self.accesses.len(), self.tokens.len())
    }
}

/// Rows of a table of a run; 0 if it has none that can be read.
pub(crate) fn row_count(run: &Path, table: Table) -> u64 {
    table_extent(run, table, &[]).map_or(0, |extent| extent.rows)
}

fn rows(run: &Path, table: Table, columns: &[&str]) -> anyhow::Result<Vec<u64>> {
    if !run.join(table.file_name()).exists() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for batch in open_table_columns(run, table, columns)? {
        let batch = batch.with_context(|| format!("reading {} of {run:?}", table.name()))?;
        rows.extend((0..batch.num_rows()).map(|row| row_hash(&batch, row)));
    }
    Ok(rows)
}

fn row_hash(batch: &RecordBatch, row: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    batch.columns().iter().for_each(|column| hash_cell(column.as_ref(), row, &mut hasher));
    hasher.finish()
}

fn hash_cell(column: &dyn Array, row: usize, hasher: &mut DefaultHasher) {
    if column.is_null(row) {
        return 0_u8.hash(hasher);
    }
    if let Some(words) = column.as_dictionary_opt::<Int32Type>() {
        return words.values().as_string::<i32>().value(words.keys().value(row) as usize).hash(hasher);
    }
    if let Some(texts) = column.as_string_opt::<i32>() {
        return texts.value(row).hash(hasher);
    }
    if let Some(numbers) = column.as_primitive_opt::<UInt64Type>() {
        return numbers.value(row).hash(hasher);
    }
    if let Some(numbers) = column.as_primitive_opt::<UInt32Type>() {
        return numbers.value(row).hash(hasher);
    }
    if let Some(numbers) = column.as_primitive_opt::<Int32Type>() {
        return numbers.value(row).hash(hasher);
    }
    if let Some(flags) = column.as_boolean_opt() {
        flags.value(row).hash(hasher);
    }
}
