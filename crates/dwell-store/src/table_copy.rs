//! Copying a table with further columns, each with one value in every row.
//!
//! In a run directory the folder says which run a table is of. Once the tables of many runs are read as one, only a column
//! can.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use dwell_events::schema::Table;
use parquet::arrow::ProjectionMask;

use crate::compression::codec;
use crate::table_reader::OpenedTable;
use crate::{Compression, StoreError, TableWriter};

/// A column with the same text in every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantColumn<'a> {
    /// Its name.
    pub name: &'a str,
    /// The text.
    pub value: &'a str,
}

/// Copies a table and adds those of the columns that it does not have, after its own. Version, compression and notes are
/// those of the original. Returns the number of rows. Does not sync: the caller syncs the whole folder once.
pub fn copy_table_with(
    from: &Path,
    to: &Path,
    table: Table,
    columns: &[ConstantColumn<'_>],
) -> Result<u64, StoreError> {
    let opened = OpenedTable::open(from, table)?;
    let added: Vec<&ConstantColumn<'_>> =
        columns.iter().filter(|column| opened.schema().index_of(column.name).is_err()).collect();
    let schema = with_columns(opened.schema(), &added);
    let codec = opened.codec().unwrap_or_else(|| codec(Compression::default()));
    let mut writer = TableWriter::create_like(to, schema.clone(), opened.schema_version(), codec)?;
    opened.notes().iter().for_each(|(key, value)| writer.note(key, value));
    for batch in opened.read(ProjectionMask::all())? {
        let batch = batch?;
        let constants = added.iter().map(|column| constant(column.value, batch.num_rows()));
        let arrays = batch.columns().iter().cloned().chain(constants).collect();
        let unfit = |error: arrow_schema::ArrowError| StoreError::UnfitBatch {
            action: "copying a table",
            reason: error.to_string(),
            path: from.to_path_buf(),
        };
        writer.write(&RecordBatch::try_new(schema.clone(), arrays).map_err(unfit)?)?;
    }
    writer.finish_unsynced()
}

fn with_columns(schema: &Schema, added: &[&ConstantColumn<'_>]) -> SchemaRef {
    let text = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let new = added.iter().map(|column| Arc::new(Field::new(column.name, text(), false)));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain(new).collect::<Vec<_>>()))
}

fn constant(value: &str, rows: usize) -> ArrayRef {
    let keys = Int32Array::from_value(0, rows);
    Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(StringArray::from(vec![value]))))
}
