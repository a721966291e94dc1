//! Runs or runtimes side by side.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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
    run_titles: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Section {
    title: &'static str,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    label: String,
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
        let drawn: Vec<&Path> = drawn_runs(comparison).collect();
        Self { columns: columns(comparison), sections, notes, run_titles: run_titles(&drawn) }
    }
}

/// Names of the columns: the run, or how many runs, and its configuration.
fn columns(comparison: &Comparison) -> Vec<String> {
    let first: Vec<&Path> =
        comparison.groups.iter().map(|group| group.paths.first().map_or(Path::new(""), PathBuf::as_path)).collect();
    let names = run_titles(&first);
    let column = |(group, name): (&CompareGroup, String)| {
        let who = match group.paths.len() {
            0 | 1 => name,
            runs => format!("{runs} runs"),
        };
        let parts = [who, comparison.label_of(group)].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(" · ")
    };
    comparison.groups.iter().zip(names).map(column).collect()
}

/// What a figure is; totals of memory with their kind.
fn label(comparison: &Comparison, figure: &Figure) -> String {
    let kinds: BTreeSet<String> =
        comparison.groups.iter().flat_map(|group| &group.total_kinds).map(|kind| kind.to_uppercase()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(" or ");
    match figure.name {
        "peak_bytes" | "steady_bytes" if !kinds.is_empty() => format!("{} ({kinds})", figure.label),
        _ => figure.label.to_owned(),
    }
}

fn row(comparison: &Comparison, figure: &Figure) -> Row {
    let spread = |group: &CompareGroup| group.figures.get(figure.name).copied();
    Row {
        label: label(comparison, figure),
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
pub(super) fn drawn_runs(comparison: &Comparison) -> impl Iterator<Item = &Path> {
    comparison.groups.iter().filter_map(|group| group.paths.first().map(|path| path.as_path())).take(MOST_DRAWN)
}

/// The shortest ends of paths that tell runs apart: the run, with its model or further folders where runs have the same name.
fn run_titles(paths: &[&Path]) -> Vec<String> {
    let names = |path: &Path| -> Vec<String> {
        path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let paths: Vec<Vec<String>> = paths.iter().map(|path| names(path)).collect();
    let end = |names: &[String], length: usize| names[names.len().saturating_sub(length)..].join("/");
    let title = |(at, path): (usize, &Vec<String>)| {
        let is_alone = |length: &usize| {
            (0..paths.len()).all(|other| other == at || end(&paths[other], *length) != end(path, *length))
        };
        end(path, (1..path.len()).find(is_alone).unwrap_or(path.len()))
    };
    paths.iter().enumerate().map(title).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spread;
    use crate::compare::CompareKey;

    fn group(paths: &[&str]) -> CompareGroup {
        CompareGroup {
            key: CompareKey {
                engine: "llama_cpp".to_owned(),
                kv_type: Some("f16".to_owned()),
                ..CompareKey::default()
            },
            paths: paths.iter().map(PathBuf::from).collect(),
            figures: Spread::of([1024.0]).map(|spread| ("peak_bytes", spread)).into_iter().collect(),
            total_kinds: ["pss".to_owned()].into(),
            ..CompareGroup::default()
        }
    }

    #[test]
    fn columns_name_their_runs_and_totals_their_kind_of_memory() {
        let comparison = Comparison {
            groups: vec![group(&["results/m/short64"]), group(&["results/m/a", "results/m/b"])],
            context_lines: Vec::new(),
            drawn_context_lines: Vec::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            excluded: Vec::new(),
        };
        let page = ComparisonPage::new(&comparison);
        assert_eq!(page.columns, ["short64 · llama_cpp · f16", "2 runs · llama_cpp · f16"]);
        assert_eq!(page.sections[0].rows[0].label, "peak memory, sampled (PSS)");
    }

    #[test]
    fn runs_of_the_same_name_are_told_apart_by_their_folders() {
        let titles = |paths: &[&str]| run_titles(&paths.iter().map(Path::new).collect::<Vec<_>>());
        assert_eq!(titles(&["results/m/a", "results/m/b"]), ["a", "b"]);
        assert_eq!(titles(&["results/small/demo", "results/large/demo"]), ["small/demo", "large/demo"]);
        assert_eq!(titles(&["/x/m/demo", "/y/m/demo", "/y/m/b"]), ["x/m/demo", "y/m/demo", "b"]);
        assert_eq!(titles(&["m/demo", "m/demo"]), ["m/demo", "m/demo"]);
    }
}
