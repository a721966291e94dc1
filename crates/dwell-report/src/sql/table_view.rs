//! One view per table, over all runs that have it.

use std::path::Path;

use arrow_schema::{DataType, Field};
use dwell_events::schema::Table;

use super::runs_view::RunsView;
use super::{identifier, literal};

/// The rows of a Parquet table.
pub(super) fn of_table(runs: &RunsView, table: Table) -> String {
    let schema = table.schema();
    let files = present(runs, &table.file_name());
    if files.is_empty() {
        return empty(table);
    }
    let before = RunsView::columns_before(|name| schema.column_with_name(name).is_some());
    joined(table.name(), &before, "read_parquet", &files, &table.file_name())
}

/// The lines of a CSV file. One that no run has gives no view: its columns depend on the version that wrote it.
pub(super) fn of_csv(runs: &RunsView, name: &str, file: &str) -> String {
    let files = present(runs, file);
    if files.is_empty() {
        return String::new();
    }
    joined(name, &RunsView::columns_before(|_| false), "read_csv", &files, file)
}

/// Files of this name that runs have.
fn present(runs: &RunsView, file: &str) -> Vec<String> {
    let is_file = |path: &Path| path.join(file).is_file();
    let named = runs.paths.iter().filter(|path| is_file(path)).filter_map(|path| path.join(file).to_str().map(literal));
    named.collect()
}

fn joined(name: &str, before: &[(&str, &str)], reader: &str, files: &[String], file: &str) -> String {
    let columns: String = before.iter().map(|(column, _)| format!("runs.{}, ", identifier(column))).collect();
    format!(
        "create or replace view {} as\nselect {columns}rows.* exclude (filename)\nfrom {reader}([\n  {}\n], filename = \
         true, union_by_name = true) as rows\njoin runs on rows.filename = runs.path || {};\n",
        identifier(name),
        files.join(",\n  "),
        literal(&format!("/{file}")),
    )
}

/// A table that no run has: its columns and no rows, so that a query means the same for any runs.
fn empty(table: Table) -> String {
    let schema = table.schema();
    let before = RunsView::columns_before(|name| schema.column_with_name(name).is_some());
    let before = before.iter().map(|(name, sql_type)| format!("null::{sql_type} as {}", identifier(name)));
    let own = |field: &Field| format!("null::{} as {}", sql_type(field.data_type()), identifier(field.name()));
    let columns: Vec<String> = before.chain(schema.fields().iter().map(|field| own(field))).collect();
    format!("create or replace view {} as\nselect {} where false;\n", identifier(table.name()), columns.join(", "))
}

/// The type as which DuckDB reads a column of this one.
fn sql_type(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => "BIGINT",
        DataType::UInt8 => "UTINYINT",
        DataType::UInt16 => "USMALLINT",
        DataType::UInt32 => "UINTEGER",
        DataType::UInt64 => "UBIGINT",
        DataType::Float32 | DataType::Float64 => "DOUBLE",
        _ => "VARCHAR",
    }
}
