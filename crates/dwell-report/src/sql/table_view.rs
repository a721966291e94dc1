//! One view per table, over all runs that have it.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field};
use dwell_events::schema::Table;

use super::runs_view::RunsView;
use super::{identifier, literal};

/// The rows of a Parquet table.
pub(super) fn of_table(runs: &RunsView, table: Table) -> String {
    let columns = Columns::of(table);
    let files = present(runs, &table.file_name());
    if files.is_empty() {
        return columns.without_rows(table.name());
    }
    // Runs of earlier versions and of mrm-trace have fewer columns.
    let rows = format!(
        "({}\n  union all by name select {} where false)",
        read("read_parquet", &files),
        columns.own.join(", ")
    );
    joined(table.name(), &columns.before, &rows, &table.file_name())
}

/// The lines of a CSV file. One that no run has gives no view: its columns depend on the version that wrote it.
pub(super) fn of_csv(runs: &RunsView, name: &str, file: &str) -> String {
    let files = present(runs, file);
    if files.is_empty() {
        return String::new();
    }
    joined(name, &RunsView::columns_before(|_| false), &format!("({})", read("read_csv", &files)), file)
}

/// Files of this name that runs have.
fn present(runs: &RunsView, file: &str) -> Vec<String> {
    let is_file = |path: &Path| path.join(file).is_file();
    let named = runs.paths.iter().filter(|path| is_file(path)).filter_map(|path| path.join(file).to_str().map(literal));
    named.collect()
}

fn read(reader: &str, files: &[String]) -> String {
    format!("from {reader}([\n    {}\n  ], filename = true, union_by_name = true)", files.join(",\n    "))
}

fn joined(name: &str, before: &[(&str, &str)], rows: &str, file: &str) -> String {
    let before: String = before.iter().map(|(column, _)| format!("runs.{}, ", identifier(column))).collect();
    let file = literal(&format!("/{file}"));
    format!(
        "create or replace view {} as\nselect {before}rows.* exclude (filename)\nfrom {rows} as rows\njoin runs on \
         rows.filename = runs.path || {file};\n",
        identifier(name),
    )
}

/// The columns of a table as SQL.
struct Columns {
    /// Those of `runs` that come first.
    before: Vec<(&'static str, &'static str)>,
    /// The table's own: nothing, of the type that each has.
    own: Vec<String>,
}

impl Columns {
    fn of(table: Table) -> Self {
        let schema = table.schema();
        let nothing =
            |field: &Arc<Field>| format!("null::{} as {}", sql_type(field.data_type()), identifier(field.name()));
        Self {
            before: RunsView::columns_before(|name| schema.column_with_name(name).is_some()),
            own: schema.fields().iter().map(nothing).collect(),
        }
    }

    /// A table that no run has: its columns and no rows, so that a query means the same for any runs.
    fn without_rows(&self, name: &str) -> String {
        let before = self.before.iter().map(|(name, sql_type)| format!("null::{sql_type} as {}", identifier(name)));
        let columns: Vec<String> = before.chain(self.own.iter().cloned()).collect();
        format!("create or replace view {} as\nselect {} where false;\n", identifier(name), columns.join(", "))
    }
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
