//! Tables of two versions, cell by cell.

use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, RecordBatch};
use dwell_events::schema::Table;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Tables of the earlier version.
const TABLES: [Table; 6] =
    [Table::Trace, Table::RegionMap, Table::KvBlockLifecycle, Table::Tokens, Table::Memory, Table::Loss];

/// Asserts that every table of the earlier version is there with the same values.
pub fn assert_same(expected: &Path, found: &Path) {
    for table in TABLES {
        let [expected, found] = [expected, found].map(|dir| read(&dir.join(format!("{}.parquet", table.name()))));
        assert_same_columns(&expected, &found, table.name());
    }
}

/// Asserts that every column of the earlier version is there with the same values. Columns that are new are fine.
pub fn assert_same_columns(expected: &[RecordBatch], found: &[RecordBatch], table: &str) {
    let Some(first) = expected.first() else {
        return assert!(found.iter().all(|batch| batch.num_rows() == 0), "{table}");
    };
    for field in first.schema().fields() {
        let [mut expected, found] = [expected, found].map(|batches| cells(batches, field.name()));
        if (table, field.name().as_str()) == ("trace", "token_index") {
            expected = expected.into_iter().map(next_token).collect();
        }
        assert_eq!(expected.len(), found.len(), "rows of {table}");
        for (row, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert_eq!(expected, found, "row {row} of {table}.{}", field.name());
        }
    }
}

/// 0.1.0 named the token that a computation takes in; now it is the one that it gives, which comes next.
fn next_token(index: String) -> String {
    let number = index.lines().nth(2).and_then(|line| line.trim().trim_end_matches(',').parse::<u32>().ok());
    number.map_or(index.clone(), |number| index.replace(&format!(" {number},"), &format!(" {},", number + 1)))
}

/// All rows of a table.
pub fn read(path: &Path) -> Vec<RecordBatch> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap).collect()
}

/// The values of a column as text.
fn cells(batches: &[RecordBatch], name: &str) -> Vec<String> {
    let column = |batch: &RecordBatch| {
        let column = batch.column_by_name(name).unwrap_or_else(|| panic!("the table has no column {name}")).clone();
        (0..column.len()).map(|row| cell(&column, row)).collect::<Vec<_>>()
    };
    batches.iter().flat_map(column).collect()
}

fn cell(column: &dyn Array, row: usize) -> String {
    // Dictionaries may list the same words in another order.
    match column.as_dictionary_opt::<Int32Type>() {
        Some(words) => words.key(row).map_or_else(String::new, |key| format!("{:?}", words.values().slice(key, 1))),
        None => format!("{:?}", column.slice(row, 1)),
    }
}
