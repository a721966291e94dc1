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
            let is_same = expected == found || is_told_better(table, field.name(), expected, found);
            assert!(is_same, "row {row} of {table}.{} was {expected} and is {found}", field.name());
        }
    }
}

/// What 0.1.0 told less well. It kept the cells that a server gives up when it begins a prompt anew until they were
/// overwritten.
fn is_told_better(table: &str, column: &str, expected: &str, found: &str) -> bool {
    // Scratch of kernels was called runtime memory, which is a region type of its own.
    let told_of_work = "kernel scratch memory is not in the graph; it is runtime memory that lives for one operation";
    let number = |text: &str| text.lines().nth(2)?.trim().trim_end_matches(',').parse::<u64>().ok();
    match (table, column) {
        ("kv_block_lifecycle", "evict_ns") => number(found).zip(number(expected)).is_some_and(|(now, then)| now < then),
        ("kv_block_lifecycle", "lifetime_ns") => {
            number(found).zip(number(expected)).is_some_and(|(now, then)| now < then)
        }
        // A block that another one is attached to was not found again by that alone.
        ("kv_block_lifecycle", "total_reads") => {
            number(found).zip(number(expected)).is_some_and(|(now, then)| now < then)
        }
        ("kv_block_lifecycle", "last_read_ns") => number(found) < number(expected),
        ("kv_block_lifecycle", "end_cause") => expected.contains("overwritten") && found.contains("removed"),
        // A token of a server begins with the computation that gave it, and not when it arrived; what was dropped is not in
        // the cache any more.
        ("tokens", "begin_ns" | "kv_bytes") => {
            number(found).zip(number(expected)).is_some_and(|(now, then)| now < then)
        }
        ("loss", "advice") => expected.contains(told_of_work) && found.contains("tables and tiles"),
        _ => false,
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
