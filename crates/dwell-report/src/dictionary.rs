//! The data dictionary: every column of every file of a dataset.

use dwell_analysis::metrics::{region_columns, type_columns};
use dwell_analysis::{
    BANDWIDTH_COLUMNS, BANDWIDTH_TABLE, Column, HISTOGRAM_COLUMNS, HOT_COLD_COLUMNS, HOT_COLD_TABLE, REUSE_COLUMNS,
    REUSE_TABLE,
};
use dwell_events::csv_cell;
use dwell_events::schema::Table;
use dwell_store::{MANIFEST_COLUMNS, MEMORY_CSV_HEADER};
use serde::Serialize;

use crate::export::IDENTITY_COLUMNS;

/// One column of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DictionaryEntry {
    /// Name of the file.
    pub file: String,
    /// Name of the column.
    pub column: String,
    /// Its type.
    pub type_text: String,
    /// Whether values may be missing.
    pub nullable: bool,
    /// Unit of a number, or empty.
    pub unit: String,
    /// What it says.
    pub meaning: String,
}

impl DictionaryEntry {
    const COLUMNS: [&'static str; 6] = ["file", "column", "type_text", "nullable", "unit", "meaning"];

    fn fields(&self) -> [&str; Self::COLUMNS.len()] {
        let nullable = if self.nullable { "true" } else { "false" };
        [&self.file, &self.column, &self.type_text, nullable, &self.unit, &self.meaning]
    }
}

/// Name, type, unit and meaning.
type Described = (&'static str, &'static str, &'static str, &'static str);

/// Columns of `summary.csv`, in order.
#[rustfmt::skip]
const SUMMARY: [Described; 18] = [
    ("model_id", "text", "", "model"),
    ("context_length", "integer", "tokens", "size of the context"),
    ("batch_size", "integer", "", "sequences computed together"),
    ("output_tokens", "integer", "tokens", "most tokens generated per sequence"),
    ("kv_type", "text", "", "type of the KV cache; `k/v` if keys and values differ"),
    ("flash_attention", "text", "", "`on` or `off`"),
    ("threads", "integer", "", "threads of the engine"),
    ("setup", "text", "", "fingerprint of all else that could make runs differ: processor, runtime, prompts, other options, definitions"),
    ("configuration", "text", "", "fingerprint of all keys together, the same as in every table"),
    ("region_type", "text", "", "region type; empty for metrics of runs as a whole"),
    ("metric", "text", "", "column of `metrics.csv`, or metric of a run as a whole; `suitability_is_…` is the share of runs with that class"),
    ("n", "integer", "", "runs with the metric"),
    ("mean", "number", "", "mean over the runs"),
    ("sd", "number", "", "standard deviation, with n − 1; empty for one run"),
    ("ci95_low", "number", "", "lower end of the 95 % confidence interval of the mean, by Student's t; empty for fewer than three runs"),
    ("ci95_high", "number", "", "upper end"),
    ("min", "number", "", "smallest"),
    ("max", "number", "", "largest"),
];

/// Columns that name a line.
const NEVER_EMPTY: [&str; 8] =
    ["region_type", "region_id", "metric", "n", "mean", "run_id", "model_id", "configuration"];

/// Every column of every file that a dataset with these tables can have.
pub fn data_dictionary(tables: &[Table]) -> Vec<DictionaryEntry> {
    let mut entries: Vec<DictionaryEntry> = tables.iter().flat_map(|table| identified(table_entries(*table))).collect();
    let types = type_columns().into_iter().map(|(_, column)| figure_entry("metrics.csv", column));
    let regions = region_columns().into_iter().map(|(_, column)| figure_entry("metrics_by_region.csv", column));
    let histogram = HISTOGRAM_COLUMNS.iter().map(|column| figure_entry("retention_histogram.csv", column));
    entries.extend(identified(types.collect()));
    entries.extend(identified(regions.collect()));
    entries.extend(identified(histogram.collect()));
    entries.extend(identified(requested_entries(REUSE_TABLE, &REUSE_COLUMNS)));
    entries.extend(identified(requested_entries(BANDWIDTH_TABLE, &BANDWIDTH_COLUMNS)));
    entries.extend(identified(requested_entries(HOT_COLD_TABLE, &HOT_COLD_COLUMNS)));
    entries.extend(identified(MEMORY_CSV_HEADER.split(',').map(memory_csv_entry).collect()));
    let manifest = MANIFEST_COLUMNS
        .iter()
        .map(|column| entry("manifest.csv", &(column.name, column.type_text, column.unit, column.meaning)));
    entries.extend(identified(manifest.collect()));
    entries.extend(SUMMARY.iter().map(|column| entry("summary.csv", column)));
    entries
}

/// The columns of one file, and after them those that name the run and that it does not have of its own.
fn identified(mut entries: Vec<DictionaryEntry>) -> Vec<DictionaryEntry> {
    let Some(file) = entries.first().map(|entry| entry.file.clone()) else { return entries };
    let type_text = if file.ends_with(".parquet") { "string" } else { "text" };
    for (name, meaning) in IDENTITY_COLUMNS {
        if !entries.iter().any(|entry| entry.column == name) {
            entries.push(entry(&file, &(name, type_text, "", meaning)));
        }
    }
    entries
}

fn requested_entries<Row>(file: &str, columns: &[Column<Row>]) -> Vec<DictionaryEntry> {
    columns.iter().map(|column| figure_entry(file, column)).collect()
}

/// A column that dwell-analysis describes.
fn figure_entry<Row>(file: &str, column: &Column<Row>) -> DictionaryEntry {
    entry(file, &(column.name, column.type_text(), column.unit.symbol(), column.meaning))
}

fn entry(file: &str, &(name, type_text, unit, meaning): &Described) -> DictionaryEntry {
    DictionaryEntry {
        file: file.to_owned(),
        column: name.to_owned(),
        type_text: type_text.to_owned(),
        // A field of a CSV file is empty where there is no figure; those that name the line never are.
        nullable: !NEVER_EMPTY.contains(&name),
        unit: unit.to_owned(),
        meaning: meaning.to_owned(),
    }
}

fn table_entries(table: Table) -> Vec<DictionaryEntry> {
    let entry = |column: dwell_events::schema::ColumnDoc| DictionaryEntry {
        file: table.file_name(),
        column: column.name,
        type_text: column.type_text,
        nullable: column.nullable,
        unit: column.unit.to_owned(),
        meaning: column.meaning.to_owned(),
    };
    table.columns().into_iter().map(entry).collect()
}

/// `memory.csv` has the columns of `memory.parquet` in other units.
fn memory_csv_entry(name: &str) -> DictionaryEntry {
    let parquet_name = match name {
        "timestamp" => "timestamp_ns".to_owned(),
        name => name.replace("_mb", "_bytes"),
    };
    let column = Table::Memory.columns().into_iter().find(|column| column.name == parquet_name);
    let (unit, type_text) = match name {
        "timestamp" => ("s since 1970", "number"),
        "label" => ("", "text"),
        name if name.ends_with("_mb") => ("MiB", "number"),
        "cpu_pct" => ("%", "number"),
        _ => ("", "integer"),
    };
    DictionaryEntry {
        file: "memory.csv".to_owned(),
        column: name.to_owned(),
        type_text: type_text.to_owned(),
        nullable: column.as_ref().is_some_and(|column| column.nullable),
        unit: unit.to_owned(),
        meaning: column.map_or_else(String::new, |column| column.meaning.to_owned()),
    }
}

/// The dictionary as CSV.
pub(crate) fn dictionary_csv(entries: &[DictionaryEntry]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let records = entries.iter().map(DictionaryEntry::fields);
    for record in std::iter::once(DictionaryEntry::COLUMNS).chain(records) {
        // Writing text to memory does not fail.
        let _ = writer.write_record(record.map(|field| csv_cell(field).into_owned()));
    }
    writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Aggregate;

    fn columns_of(file: &str) -> Vec<String> {
        data_dictionary(&Table::ALL).into_iter().filter(|entry| entry.file == file).map(|entry| entry.column).collect()
    }

    #[test]
    fn the_columns_are_those_of_the_files() {
        let report = dwell_analysis::Analyser::new(dwell_analysis::Options::default()).finish();
        // Exporting adds the columns that name the run.
        let identified = |names: &str| format!("{names},run_id,model_id,configuration");
        let header = |csv: String| {
            identified(csv.lines().next().unwrap_or_default()).split(',').map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(columns_of("metrics.csv"), header(report.metrics_csv_of(&dwell_analysis::Metric::ALL)));
        assert_eq!(columns_of("metrics_by_region.csv"), header(report.regions_csv()));
        assert_eq!(columns_of("retention_histogram.csv"), header(report.retention_histogram_csv(10)));
        assert_eq!(columns_of("reuse_distance.csv"), header(report.reuse_csv()));
        assert_eq!(columns_of("bandwidth.csv"), header(report.bandwidth_csv()));
        assert_eq!(columns_of("hot_cold.csv"), header(report.hot_cold_csv()));
        assert_eq!(columns_of("memory.csv").join(","), identified(MEMORY_CSV_HEADER));
        assert_eq!(
            columns_of("trace.parquet")[24..],
            ["model_id", "configuration"],
            "it has the run's name of its own"
        );
        assert_eq!(columns_of("summary.csv"), Aggregate::summary_columns());
    }

    #[test]
    fn a_column_that_a_spreadsheet_would_calculate_is_marked() {
        let entry = DictionaryEntry {
            file: "f.csv".to_owned(),
            column: "@SUM(A1)".to_owned(),
            type_text: "text".to_owned(),
            nullable: true,
            unit: String::new(),
            meaning: "=1".to_owned(),
        };
        let text = dictionary_csv(&[entry]);
        assert_eq!(text, "file,column,type_text,nullable,unit,meaning\nf.csv,'@SUM(A1),text,true,,'=1\n");
    }

    #[test]
    fn every_column_has_a_meaning() {
        let entries = data_dictionary(&Table::ALL);
        assert!(entries.iter().all(|entry| !entry.meaning.is_empty() && !entry.type_text.is_empty()));
        assert!(entries.len() > 100);
        assert_eq!(dictionary_csv(&entries).lines().count(), entries.len() + 1);
    }
}
