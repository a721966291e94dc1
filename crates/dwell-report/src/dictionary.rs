//! The data dictionary: every column of every file of a dataset.

use dwell_analysis::REGIONS_COLUMNS;
use dwell_events::schema::Table;
use dwell_store::{MANIFEST_COLUMNS, MEMORY_CSV_HEADER};
use serde::Serialize;

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

/// Name, type, unit and meaning.
type Described = (&'static str, &'static str, &'static str, &'static str);

/// Columns of `metrics.csv`, in order.
#[rustfmt::skip]
const METRICS: [Described; 48] = [
    ("region_type", "text", "", "`weight`, `kv_cache`, `activation`, `runtime` or `unknown`"),
    ("n_regions", "integer", "", "regions of the type"),
    ("retention_p50_s", "number", "s", "median over bytes of how long data had to be kept, from its store to its last load"),
    ("retention_p90_s", "number", "s", "the same, 90th percentile"),
    ("retention_p99_s", "number", "s", "the same, 99th percentile"),
    ("retention_mean_s", "number", "s", "the same, mean"),
    ("write_once_ratio_mean", "number", "", "share of the stored bytes that were stored exactly once"),
    ("reads_per_write_mean", "number", "", "loads per store"),
    ("working_set_mb_total", "number", "MiB", "distinct memory touched"),
    ("unique_pages_total", "integer", "4 KiB pages", "distinct pages touched"),
    ("suitability", "text", "", "whether managed-retention memory could hold it: `high_mrm`, `medium_mrm`, `low_mrm`, `not_estimable` or `not_rated`"),
    ("definitions", "text", "", "whose definitions the figures follow: `dwell` or `mrm-trace`"),
    ("basis", "text", "", "how the accesses were obtained: `exact`, `page`, `sampled` or `inferred`"),
    ("retention_basis", "text", "", "how the retention was obtained"),
    ("write_once_basis", "text", "", "how the write-once ratio was obtained"),
    ("interval_basis", "text", "", "how the intervals were obtained"),
    ("window_s", "number", "s", "from the first to the last access of the run"),
    ("is_window_limited", "true/false", "", "whether a longer run could give a better suitability"),
    ("retention_max_s", "number", "s", "longest life"),
    ("life_bytes", "integer", "bytes", "bytes of all lives; a byte counts once for each life"),
    ("never_read_bytes", "integer", "bytes", "of them, bytes that were never loaded"),
    ("censored_share", "number", "", "share of the lives that had not ended when the run did"),
    ("inferred_share", "number", "", "share of the lives whose store was not seen"),
    ("loads", "integer", "", "rows of `trace` that load"),
    ("stores", "integer", "", "rows of `trace` that store"),
    ("bytes_read", "integer", "bytes", "bytes loaded, over all accesses"),
    ("bytes_written", "integer", "bytes", "bytes stored, over all accesses"),
    ("read_write_ratio", "number", "", "bytes loaded per byte stored"),
    ("distinct_bytes", "integer", "bytes", "distinct bytes touched"),
    ("step_working_set_median_bytes", "number", "bytes", "distinct bytes touched in a step, median over steps"),
    ("step_working_set_max_bytes", "integer", "bytes", "distinct bytes touched in a step, most of any step"),
    ("sequential_share", "number", "", "share of the accesses that begin where the one before ended"),
    ("same_page_share", "number", "", "share of the accesses in the page of the one before"),
    ("stride_mean_bytes", "number", "bytes", "distance between consecutive accesses, mean"),
    ("stride_median_bytes", "number", "bytes", "distance between consecutive accesses, median"),
    ("interval_p50_ns", "number", "ns", "time between two accesses of the same memory, median"),
    ("interval_p90_ns", "number", "ns", "the same, 90th percentile"),
    ("interval_p99_ns", "number", "ns", "the same, 99th percentile"),
    ("interval_mean_ns", "number", "ns", "the same, mean"),
    ("retention_estimate", "text", "", "what the retention is worth if accesses were sampled"),
    ("retention_p50_low_s", "number", "s", "least that the median can be if accesses were sampled"),
    ("retention_p50_high_s", "number", "s", "most that the median can be if accesses were sampled"),
    ("retention_p99_low_s", "number", "s", "least that the 99th percentile can be if accesses were sampled"),
    ("retention_p99_high_s", "number", "s", "most that the 99th percentile can be if accesses were sampled"),
    ("write_once_estimate", "text", "", "what the write-once ratio is worth if accesses were sampled"),
    ("write_once_low", "number", "", "least that the write-once ratio can be if accesses were sampled"),
    ("write_once_high", "number", "", "most that the write-once ratio can be if accesses were sampled"),
    ("not_estimable_reason", "text", "", "why a figure cannot be estimated from the sample"),
];

/// Columns of `metrics_by_region.csv` that `metrics.csv` does not have.
#[rustfmt::skip]
const BY_REGION: [Described; 6] = [
    ("region_id", "integer", "", "row of `region_map` with this id"),
    ("first_seen_ns", "integer", "ns", "time of the first access"),
    ("last_seen_ns", "integer", "ns", "time of the last access"),
    ("write_once_ratio", "number", "", "share of the stored bytes that were stored exactly once"),
    ("reads_per_write", "number", "", "loads per store"),
    ("distinct_pages", "integer", "4 KiB pages", "distinct pages touched"),
];

/// Columns of `retention_histogram.csv`, in order.
#[rustfmt::skip]
const HISTOGRAM: [Described; 4] = [
    ("region_type", "text", "", "region type"),
    ("from_s", "number", "s", "shortest life of the bin"),
    ("to_s", "number", "s", "where the next bin begins; in the last bin the longest life"),
    ("bytes", "integer", "bytes", "bytes of the lives; a byte counts once for each life"),
];

/// Columns of `summary.csv`, in order.
#[rustfmt::skip]
const SUMMARY: [Described; 17] = [
    ("model_id", "text", "", "model"),
    ("context_length", "integer", "tokens", "size of the context"),
    ("batch_size", "integer", "", "sequences computed together"),
    ("output_tokens", "integer", "tokens", "most tokens generated per sequence"),
    ("kv_type", "text", "", "type of the KV cache; `k/v` if keys and values differ"),
    ("flash_attention", "text", "", "`on` or `off`"),
    ("threads", "integer", "", "threads of the engine"),
    ("setup", "text", "", "fingerprint of all else that could make runs differ: processor, runtime, prompts, other options, definitions"),
    ("region_type", "text", "", "region type; empty for figures of runs as a whole"),
    ("metric", "text", "", "column of `metrics.csv`, or figure of a run; `suitability_is_…` is the share of runs with that class"),
    ("n", "integer", "", "runs with the figure"),
    ("mean", "number", "", "mean over the runs"),
    ("sd", "number", "", "standard deviation, with n − 1; empty for one run"),
    ("ci95_low", "number", "", "lower end of the 95 % confidence interval of the mean, by Student's t; empty for one run"),
    ("ci95_high", "number", "", "upper end"),
    ("min", "number", "", "smallest"),
    ("max", "number", "", "largest"),
];

/// Every column of every file that a dataset can have.
pub fn data_dictionary() -> Vec<DictionaryEntry> {
    let mut entries: Vec<DictionaryEntry> = Table::ALL.into_iter().flat_map(table_entries).collect();
    entries.extend(METRICS.iter().map(|column| entry("metrics.csv", column)));
    let described = |name: &&str| METRICS.iter().chain(&BY_REGION).find(|column| column.0 == *name);
    entries.extend(REGIONS_COLUMNS.iter().filter_map(described).map(|column| entry("metrics_by_region.csv", column)));
    entries.extend(HISTOGRAM.iter().map(|column| entry("retention_histogram.csv", column)));
    entries.extend(MEMORY_CSV_HEADER.split(',').map(memory_csv_entry));
    entries.extend(
        MANIFEST_COLUMNS
            .iter()
            .map(|column| entry("manifest.csv", &(column.name, column.type_text, column.unit, column.meaning))),
    );
    entries.extend(SUMMARY.iter().map(|column| entry("summary.csv", column)));
    entries
}

fn entry(file: &str, &(name, type_text, unit, meaning): &Described) -> DictionaryEntry {
    DictionaryEntry {
        file: file.to_owned(),
        column: name.to_owned(),
        type_text: type_text.to_owned(),
        // A field of a CSV file is empty where there is no figure; those that name the line never are.
        nullable: !["region_type", "region_id", "metric", "n", "mean", "run_id", "model_id"].contains(&name),
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
    // Writing text to memory does not fail.
    entries.iter().for_each(|entry| drop(writer.serialize(entry)));
    writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Aggregate;

    fn columns_of(file: &str) -> Vec<String> {
        data_dictionary().into_iter().filter(|entry| entry.file == file).map(|entry| entry.column).collect()
    }

    #[test]
    fn the_columns_are_those_of_the_files() {
        let report = dwell_analysis::Analyser::new(dwell_analysis::Options::default()).finish();
        let header =
            |csv: String| csv.lines().next().unwrap_or_default().split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(columns_of("metrics.csv"), header(report.metrics_csv()));
        assert_eq!(columns_of("metrics_by_region.csv"), header(report.regions_csv()));
        assert_eq!(columns_of("retention_histogram.csv"), header(report.retention_histogram_csv(10)));
        assert_eq!(columns_of("memory.csv").join(","), MEMORY_CSV_HEADER);
        assert_eq!(columns_of("summary.csv"), Aggregate::summary_columns());
    }

    #[test]
    fn every_column_has_a_meaning() {
        let entries = data_dictionary();
        assert!(entries.iter().all(|entry| !entry.meaning.is_empty() && !entry.type_text.is_empty()));
        assert!(entries.len() > 100);
        assert_eq!(dictionary_csv(&entries).lines().count(), entries.len() + 1);
    }
}
