//! Hugging Face: a dataset card with its front matter.

use std::fmt::Write;

use dwell_events::schema::Table;

use super::{Dataset, Exporter};

/// The hub of Hugging Face.
#[derive(Debug)]
pub(super) struct HuggingFace;

impl Exporter for HuggingFace {
    fn name(&self) -> &'static str {
        "hf"
    }

    fn title(&self) -> &'static str {
        "Hugging Face"
    }

    fn front_matter(&self, dataset: &Dataset<'_>) -> String {
        front_matter_of(dataset)
    }
}

/// Quoted so that YAML takes it for text, whatever it holds: JSON strings are YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn front_matter_of(dataset: &Dataset<'_>) -> String {
    let mut text = String::from("---\n");
    text.push_str(&dataset.licence.front_matter());
    let _ = writeln!(text, "pretty_name: {}", quoted(&dataset.title));
    text.push_str("tags:\n- llm\n- memory-trace\n- kv-cache\n- managed-retention-memory\n");
    let _ = writeln!(text, "size_categories:\n- {}", size_category(dataset.origin.trace_rows));
    text.push_str("configs:\n");
    for table in dataset.tables.iter().filter(|table| has_table(dataset, **table)) {
        let _ = writeln!(text, "- config_name: {}\n  data_files: \"data/*/*/{}\"", table.name(), table.file_name());
    }
    text.push_str("---\n\n");
    text
}

fn has_table(dataset: &Dataset<'_>, table: Table) -> bool {
    dataset.runs.iter().any(|run| run.path.join(table.file_name()).is_file())
}

/// The class of Hugging Face for so many rows.
fn size_category(rows: u64) -> &'static str {
    const CLASSES: [(u64, &str); 8] = [
        (1_000, "n<1K"),
        (10_000, "1K<n<10K"),
        (100_000, "10K<n<100K"),
        (1_000_000, "100K<n<1M"),
        (10_000_000, "1M<n<10M"),
        (100_000_000, "10M<n<100M"),
        (1_000_000_000, "100M<n<1B"),
        (10_000_000_000, "1B<n<10B"),
    ];
    CLASSES.iter().find(|(limit, _)| rows < *limit).map_or("10B<n<100B", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_class_holds_the_rows() {
        let classes = [0, 999, 1_000, 205_727, 99_999_999, 20_000_000_000].map(size_category);
        assert_eq!(classes, ["n<1K", "n<1K", "1K<n<10K", "100K<n<1M", "10M<n<100M", "10B<n<100B"]);
    }
}
