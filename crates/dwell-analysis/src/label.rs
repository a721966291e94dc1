//! What tables for people call figures: one label for each, wherever it is shown.

/// Columns of `metrics.csv` with their labels. Values are shown with their units, so labels have none.
const LABELS: [(&str, &str); 18] = [
    ("distinct_bytes", "size"),
    ("bytes_read", "all read"),
    ("bytes_written", "all written"),
    ("read_write_ratio", "read:write"),
    ("needed_p50_s", "needed p50"),
    ("needed_p99_s", "needed p99"),
    ("retention_p50_steps", "steps p50"),
    ("retention_p99_steps", "steps p99"),
    ("retention_p50_s", "p50 in this run"),
    ("retention_p99_s", "p99 in this run"),
    ("stays_p50_s", "stays p50"),
    ("kept_low_share", "kept"),
    ("residency_p50_s", "stays p50 in this run"),
    ("residency_p99_s", "stays p99 in this run"),
    ("censored_share", "open"),
    ("never_read_share", "unread"),
    ("write_once_ratio_mean", "once"),
    ("suitability", "suitability"),
];

/// The label of a column of `metrics.csv`; a column that only files and chosen metrics show goes by its name.
pub fn label_of(column: &'static str) -> &'static str {
    LABELS.iter().find(|(name, _)| *name == column).map_or(column, |(_, label)| label)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::metrics::type_column;

    #[test]
    fn every_label_is_of_one_column_that_there_is() {
        let labels: BTreeSet<&str> = LABELS.iter().map(|(_, label)| *label).collect();
        assert_eq!(labels.len(), LABELS.len());
        for (column, label) in LABELS {
            assert!(type_column(column).is_some(), "{column}");
            assert_eq!(label_of(column), label);
        }
        assert_eq!(label_of("retention_max_s"), "retention_max_s");
    }
}
