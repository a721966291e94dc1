//! `compare.csv` and `context.csv`.

use std::collections::{BTreeMap, BTreeSet};

use dwell_events::csv_cell;

use crate::compare::{CompareGroup, Comparison};
use crate::compare_context::ContextLine;
use crate::compare_figures::FIGURES;

/// Columns before the figures.
const KEY_COLUMNS: [&str; 11] = [
    "engine",
    "model_id",
    "kv_type",
    "context_length",
    "start",
    "setup",
    "n",
    "run_ids",
    "verdict",
    "memory_kind",
    "measured_basis",
];

const CONTEXT_COLUMNS: [&str; 12] = [
    "engine",
    "model_id",
    "kv_type",
    "memory_kind",
    "is_without_compute",
    "context_lengths",
    "n",
    "bytes_per_token",
    "ci95_low",
    "ci95_high",
    "theory_bytes_per_token",
    "measured_by_theory",
];

impl Comparison {
    /// One line per configuration: its keys, then median, smallest and largest of every figure. A field is empty where
    /// there is no figure.
    pub fn compare_csv(&self) -> String {
        let spread_columns =
            FIGURES.iter().flat_map(|figure| ["median", "min", "max"].map(|which| format!("{}_{which}", figure.name)));
        let header: Vec<String> = KEY_COLUMNS.into_iter().map(str::to_owned).chain(spread_columns).collect();
        lines(std::iter::once(header).chain(self.groups.iter().map(|group| self.fields(group))))
    }

    /// One line per engine, model and type of cache with several context lengths.
    pub fn context_csv(&self) -> String {
        let header = CONTEXT_COLUMNS.map(str::to_owned).to_vec();
        lines(std::iter::once(header).chain(self.context_lines.iter().map(context_fields)))
    }

    fn fields(&self, group: &CompareGroup) -> Vec<String> {
        let key = &group.key;
        let keys = [
            key.engine.clone(),
            key.model_id.clone(),
            key.kv_type.clone().unwrap_or_default(),
            number(key.context_length),
            key.start.clone().unwrap_or_default(),
            key.setup.setup.clone(),
            group.run_ids.len().to_string(),
            group.run_ids.join(" "),
            classes(&group.verdicts),
            words(&group.total_kinds),
            words(&group.measured_bases),
        ];
        let spreads = FIGURES.iter().flat_map(|figure| {
            let spread = group.figures.get(figure.name);
            [spread.map(|spread| spread.median), spread.map(|spread| spread.min), spread.map(|spread| spread.max)]
        });
        keys.into_iter().chain(spreads.map(number)).collect()
    }
}

fn context_fields(line: &ContextLine) -> Vec<String> {
    vec![
        line.engine.clone(),
        line.model_id.clone(),
        line.kv_type.clone().unwrap_or_default(),
        line.memory.name().to_owned(),
        line.is_without_compute.to_string(),
        line.context_lengths.to_string(),
        line.points.len().to_string(),
        line.bytes_per_token.to_string(),
        number(line.low_bytes_per_token),
        number(line.high_bytes_per_token),
        number(line.theory_bytes_per_token),
        number(line.measured_by_theory),
    ]
}

/// `preallocated`, or `preallocated 2 below_resolution 1` if runs disagree.
fn classes(counts: &BTreeMap<String, usize>) -> String {
    match counts.keys().next() {
        Some(only) if counts.len() == 1 => only.clone(),
        _ => counts.iter().map(|(class, count)| format!("{class} {count}")).collect::<Vec<_>>().join(" "),
    }
}

fn words(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn number<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn lines(records: impl Iterator<Item = Vec<String>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for record in records {
        // Writing to memory fails only for lines of unequal length, and all have the header's.
        let _ = writer.write_record(record.iter().map(|field| csv_cell(field).into_owned()));
    }
    writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}
