//! Rows of a table by their time, of which only the row groups are read that can hold any.

use std::ops::Range;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use dwell_events::schema::Table;
use parquet::arrow::ProjectionMask;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

use crate::StoreError;
use crate::table_reader::{OpenedTable, TableReader};

/// Bytes of text in a batch at most, but for a batch of one row.
const TEXT_BYTES: u64 = 8 << 20;

/// Gives the rows of a table whose time lies in a window, in the order of the table.
pub struct TableWindow {
    rows: TableReader,
    /// Column of the time and the window; none if all rows are wanted.
    window: Option<(String, Range<u64>)>,
    rows_at_most: u64,
}

impl TableWindow {
    /// Columns of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// Rows that are read to find those of the window: there are not more.
    pub fn rows_at_most(&self) -> u64 {
        self.rows_at_most
    }
}

impl Iterator for TableWindow {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let batch = match self.rows.next()? {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            };
            let Some((column, window)) = &self.window else { return Some(Ok(batch)) };
            match rows_within(&batch, column, window) {
                Ok(rows) if rows.num_rows() == 0 => continue,
                outcome => return Some(outcome.map_err(|reason| self.rows.damaged(reason))),
            }
        }
    }
}

/// Opens a table of the run in `dir` with those of these columns that it has, or all if none is named, and the rows within a
/// window of time, or all. Where there is a window, the column of the time is among them.
///
/// The time of a row is its first column whose name ends in `_ns`: when an access was made, a token begun, a block written.
pub fn open_table_window(
    dir: &Path,
    table: Table,
    columns: &[&str],
    window: Option<Range<u64>>,
) -> Result<TableWindow, StoreError> {
    let opened = OpenedTable::open(&dir.join(table.file_name()), table)?;
    let timed = |window| {
        // A table without times lacks the column that they are usually in.
        let column = time_column(opened.schema()).ok_or_else(|| opened.missing_column("timestamp_ns"))?;
        Ok::<_, StoreError>((column.to_owned(), window))
    };
    let window = window.map(timed).transpose()?;
    let mask = match columns {
        [] => ProjectionMask::all(),
        _ => opened.mask_of(columns.iter().copied().chain(window.as_ref().map(|(column, _)| column.as_str()))),
    };
    let groups: Vec<usize> = opened
        .row_groups()
        .iter()
        .enumerate()
        .filter(|(_, group)| window.as_ref().is_none_or(|(column, window)| may_hold(group, column, window)))
        .map(|(index, _)| index)
        .collect();
    let rows_at_most = groups.iter().map(|&index| opened.row_groups()[index].num_rows().max(0).unsigned_abs()).sum();
    Ok(TableWindow { rows: opened.read_groups_within(mask, groups, TEXT_BYTES)?, window, rows_at_most })
}

fn time_column(schema: &Schema) -> Option<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).find(|name| name.ends_with("_ns"))
}

/// Whether rows of a group can lie in a window. Without statistics every group can.
fn may_hold(group: &RowGroupMetaData, column: &str, window: &Range<u64>) -> bool {
    let found = group.columns().iter().find(|chunk| chunk.column_path().string() == column);
    let Some(Statistics::Int64(times)) = found.and_then(|chunk| chunk.statistics()) else { return true };
    let (Some(&first), Some(&last)) = (times.min_opt(), times.max_opt()) else { return true };
    // A time is a count of nanoseconds since the machine was started, so it is never negative.
    let (Ok(first), Ok(last)) = (u64::try_from(first), u64::try_from(last)) else { return true };
    first < window.end && last >= window.start
}

fn rows_within(batch: &RecordBatch, column: &str, window: &Range<u64>) -> Result<RecordBatch, String> {
    let times = batch.column_by_name(column).ok_or("its time is missing")?;
    let is_within: BooleanArray = if let Some(times) = times.as_primitive_opt::<UInt64Type>() {
        times.iter().map(|time| Some(time.is_some_and(|time| window.contains(&time)))).collect()
    } else if let Some(times) = times.as_primitive_opt::<Int64Type>() {
        let is_within = |time: i64| u64::try_from(time).is_ok_and(|time| window.contains(&time));
        times.iter().map(|time| Some(time.is_some_and(is_within))).collect()
    } else {
        return Err(format!("{column} is of type {}, not a whole number", times.data_type()));
    };
    filter_record_batch(batch, &is_within).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::fs::File;
    use std::sync::Arc;

    use arrow_array::StringArray;
    use arrow_schema::{DataType, Field};
    use dwell_events::schema::tokens::{self, TokenRow};
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::TableWriter;

    /// A table of tokens, token `n` at `1000 + 10 n`, in row groups of 128 K rows.
    fn table(dir: &Path, rows: u32) {
        let mut writer = TableWriter::create(dir, Table::Tokens).unwrap();
        let token = |n: u32| TokenRow {
            token_index: n,
            step: n,
            sequence: 0,
            position: None,
            token_id: None,
            text: String::new(),
            is_generated: true,
            begin_ns: 1000 + 10 * u64::from(n),
            end_ns: 1005 + 10 * u64::from(n),
            rss_bytes: None,
            kv_bytes: None,
            pss_bytes: None,
            anon_bytes: None,
            gpu_bytes: None,
        };
        let all: Vec<TokenRow> = (0..rows).map(token).collect();
        for rows in all.chunks(10_000) {
            writer.write(&tokens::batch(rows)).unwrap();
        }
        writer.finish().unwrap();
    }

    fn times(window: TableWindow) -> Vec<u64> {
        let times = |batch: RecordBatch| batch["begin_ns"].as_primitive::<UInt64Type>().values().to_vec();
        window.flat_map(|batch| times(batch.unwrap())).collect()
    }

    #[test]
    fn rows_of_a_window_come_back_and_groups_outside_are_not_read() {
        let place = tempfile::tempdir().unwrap();
        table(place.path(), 300_000);
        let open = |window| open_table_window(place.path(), Table::Tokens, &["begin_ns"], window).unwrap();
        let found = open(Some(2_000_000..2_000_100));
        assert_eq!(found.rows_at_most(), 128 * 1024, "one of three groups");
        assert_eq!(times(found), (0..10).map(|n| 2_000_000 + 10 * n).collect::<Vec<u64>>());
        assert_eq!(times(open(Some(0..1_001))), [1000]);
        assert_eq!(times(open(Some(5_000_000..u64::MAX))), [0; 0]);
        assert_eq!(times(open(None)).len(), 300_000);
    }

    #[test]
    fn a_batch_is_cut_where_a_few_bytes_are_the_text_of_many_rows() {
        let place = tempfile::tempdir().unwrap();
        let text = "x".repeat(1 << 20);
        let schema = Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8, false)]));
        let file = File::create(place.path().join(Table::Tokens.file_name())).unwrap();
        let mut writer = ArrowWriter::try_new(file, schema.clone(), None).unwrap();
        let texts = Arc::new(StringArray::from(vec![text.as_str(); 100]));
        writer.write(&RecordBatch::try_new(schema, vec![texts]).unwrap()).unwrap();
        writer.close().unwrap();
        let window = open_table_window(place.path(), Table::Tokens, &[], None).unwrap();
        let rows: Vec<usize> = window.map(|batch| batch.unwrap().num_rows()).collect();
        assert_eq!(rows.iter().sum::<usize>(), 100);
        assert!(rows.iter().all(|&rows| rows as u64 <= TEXT_BYTES >> 20), "{rows:?}");
    }

    #[test]
    fn a_table_without_times_has_no_windows() {
        let place = tempfile::tempdir().unwrap();
        TableWriter::create(place.path(), Table::Loss).unwrap().finish().unwrap();
        let refused = open_table_window(place.path(), Table::Loss, &[], Some(0..1));
        assert!(refused.err().unwrap().to_string().contains("timestamp_ns"));
        assert_eq!(open_table_window(place.path(), Table::Loss, &[], None).unwrap().count(), 0);
    }
}
