//! Runs or runtimes side by side.

use serde::Serialize;

use crate::compare::{CompareGroup, Comparison};
use crate::compare_figures::{FIGURES, Figure, NEEDED_P99};
use crate::text::or_dash;

/// Runs that are drawn beside each other at most; the table has all of them.
const MOST_DRAWN: usize = 6;

/// What a page says of a comparison.
#[derive(Debug, Serialize)]
pub(super) struct ComparisonPage {
    columns: Vec<String>,
    sections: Vec<Section>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Section {
    title: &'static str,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    label: &'static str,
    unit: &'static str,
    values: Vec<Option<f64>>,
    texts: Vec<String>,
}

/// Where a section begins in [`FIGURES`], by the name of its first figure.
const SECTIONS: [(&str, &str); 4] = [
    ("prompt_tokens", "Work"),
    ("load_s", "Time and speed"),
    ("peak_bytes", "Memory"),
    (NEEDED_P99, "Required retention"),
];

impl ComparisonPage {
    pub(super) fn new(comparison: &Comparison) -> Self {
        let mut sections: Vec<Section> = Vec::new();
        for figure in &FIGURES {
            if let Some((_, title)) = SECTIONS.iter().find(|(first, _)| *first == figure.name) {
                sections.push(Section { title, rows: Vec::new() });
            }
            let row = row(comparison, figure);
            if let (Some(section), true) = (sections.last_mut(), row.values.iter().any(Option::is_some)) {
                section.rows.push(row);
            }
        }
        sections.retain(|section| !section.rows.is_empty());
        let notes = comparison.warnings.iter().chain(&comparison.notes).cloned().collect();
        Self { columns: comparison.groups.iter().map(|group| comparison.label_of(group)).collect(), sections, notes }
    }
}

fn row(comparison: &Comparison, figure: &Figure) -> Row {
    let spread = |group: &CompareGroup| group.figures.get(figure.name).copied();
    Row {
        label: figure.label,
        unit: figure.unit.symbol(),
        values: comparison.groups.iter().map(|group| spread(group).map(|spread| spread.median)).collect(),
        texts: comparison
            .groups
            .iter()
            .map(|group| or_dash(spread(group), |spread| figure.text(spread.median)))
            .collect(),
    }
}

/// One run of each configuration, for what is drawn.
pub(super) fn drawn_runs(comparison: &Comparison) -> impl Iterator<Item = &std::path::Path> {
    comparison.groups.iter().filter_map(|group| group.paths.first().map(|path| path.as_path())).take(MOST_DRAWN)
}
