//! Runs side by side, for people.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use dwell_analysis::Unit;

use super::format::shortened;
use super::{counted, or_dash, table, totals, wrapped};
use crate::numbers::of_unit;
use crate::{CompareGroup, Comparison, ContextLine, FIGURES, Figure, Spread, exclusions_text};

/// Widest line of a table where there is no terminal.
const USUAL_WIDTH: usize = 100;
/// Between two columns.
const GAP: usize = 2;
/// Names are shortened to no less and no more than this, by how many columns are to stand beside each other.
const NAME_CHARS: RangeInclusive<usize> = 16..=28;
/// Place of the row with what sets configurations apart that have the same keys otherwise.
const SETUP_ROW: usize = 6;
/// Place of the row with the runs that were named on the command line.
const RUN_ROW: usize = 0;

/// The whole comparison: a column per configuration, in as many tables below each other as the width needs.
pub fn comparison_text(comparison: &Comparison, width_chars: Option<usize>) -> String {
    let width_chars = width_chars.unwrap_or(USUAL_WIDTH);
    let mut names = row_names(comparison);
    let name_chars = room_chars(&names, comparison.groups.len(), width_chars);
    let mut columns: Vec<Vec<String>> =
        comparison.groups.iter().map(|group| column(comparison, group, name_chars)).collect();
    // From the last row on: rows above keep their places.
    [SETUP_ROW, RUN_ROW].iter().for_each(|&row| wrap_row(row, &mut names, &mut columns, name_chars));
    // A row in which no configuration has anything says nothing.
    let is_shown = |row: &usize| columns.iter().any(|column| column[*row] != "–" && !column[*row].is_empty());
    let shown: Vec<usize> = (0..names.len()).filter(is_shown).collect();
    let pick = |cells: &[String]| shown.iter().map(|&row| cells[row].clone()).collect::<Vec<String>>();
    let names = pick(&names);
    let columns: Vec<Vec<String>> = columns.iter().map(|cells| pick(cells)).collect();
    let tables: Vec<String> =
        fitting(&names, &columns, width_chars).into_iter().map(|chunk| lines(&names, chunk)).collect();
    let mut text = tables.join("\n");
    text.push_str(&verdicts(comparison, width_chars));
    text.push_str(&context_table(&comparison.context_lines));
    text.push_str(&notes(comparison, width_chars));
    text
}

/// What each of so many columns can take, if they are to stand beside each other.
fn room_chars(names: &[String], columns: usize, width_chars: usize) -> usize {
    let names_chars = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let room = width_chars.saturating_sub(names_chars) / columns.max(1);
    room.saturating_sub(GAP).clamp(*NAME_CHARS.start(), *NAME_CHARS.end())
}

/// Gives what sets configurations apart as many lines as it needs: shortened, it would set nothing apart.
fn wrap_row(row: usize, names: &mut Vec<String>, columns: &mut [Vec<String>], width_chars: usize) {
    let texts: Vec<Vec<String>> = columns.iter().map(|column| wrapped(&column[row], width_chars)).collect();
    let lines = texts.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let replace = |cells: &mut Vec<String>, mut text: Vec<String>| {
        text.resize(lines, String::new());
        cells.splice(row..=row, text);
    };
    let name = names[row].clone();
    replace(names, vec![name]);
    columns.iter_mut().zip(texts).for_each(|(column, text)| replace(column, text));
}

fn row_names(comparison: &Comparison) -> Vec<String> {
    let kinds: BTreeSet<&str> =
        comparison.groups.iter().flat_map(|group| &group.total_kinds).map(String::as_str).collect();
    let kind = kinds.into_iter().collect::<Vec<_>>().join(", ").to_uppercase();
    let label = |figure: &Figure| match figure.is_of_kind() && !kind.is_empty() {
        true => format!("{} ({kind})", figure.label),
        false => figure.label.to_owned(),
    };
    let keys = ["run", "engine", "model", "KV type", "context", "start", "setup", "runs"].map(str::to_owned);
    keys.into_iter().chain(FIGURES.iter().map(label)).chain(["verdict".to_owned()]).collect()
}

fn column(comparison: &Comparison, group: &CompareGroup, name_chars: usize) -> Vec<String> {
    let key = &group.key;
    let named: Vec<String> = group.named_run_ids.iter().map(|run_id| shortened(run_id, name_chars)).collect();
    let keys = [
        named.join(" "),
        key.engine.clone(),
        shortened(&key.model_id, name_chars),
        or_dash(key.kv_type.clone(), |name| name),
        or_dash(key.context_length, |length| length.to_string()),
        or_dash(key.start.clone(), |name| name),
        comparison.setup_of(group),
        group.run_ids.len().to_string(),
    ];
    let figures = FIGURES.iter().map(|figure| or_dash(group.figures.get(figure.name), |spread| cell(figure, spread)));
    keys.into_iter().chain(figures).chain([classes(&group.verdicts)]).collect()
}

/// `12.3 ms`, of several runs with the smallest and largest: `12.3 ms (11.0–15.2)`.
fn cell(figure: &Figure, spread: &Spread) -> String {
    let median = figure.text(spread.median);
    if spread.n < 2 || spread.min == spread.max {
        return median;
    }
    let (min, max) = (figure.text(spread.min), figure.text(spread.max));
    let unit = median.rsplit_once(' ').map_or_else(String::new, |(_, unit)| format!(" {unit}"));
    match (min.strip_suffix(&unit), max.strip_suffix(&unit)) {
        // The unit of all three is said once.
        (Some(min), Some(max)) => format!("{median} ({min}–{max})"),
        _ => format!("{median} ({min}–{max})"),
    }
}

/// `preallocated`, or `2 preallocated, 1 below_resolution` if runs disagree.
fn classes(counts: &BTreeMap<String, usize>) -> String {
    match counts.keys().next() {
        None => "–".to_owned(),
        Some(only) if counts.len() == 1 => only.clone(),
        _ => totals(&counts.iter().map(|(class, count)| (*count as u64, class.as_str())).collect::<Vec<_>>()),
    }
}

/// As many columns beside each other as fit, and one at least.
fn fitting<'a>(names: &[String], columns: &'a [Vec<String>], width_chars: usize) -> Vec<&'a [Vec<String>]> {
    let width = |cells: &[String]| cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let (mut chunks, mut from, mut used) = (Vec::new(), 0, width(names));
    for (place, cells) in columns.iter().enumerate() {
        let needed = GAP + width(cells);
        if place > from && used + needed > width_chars {
            chunks.push(&columns[from..place]);
            (from, used) = (place, width(names));
        }
        used += needed;
    }
    chunks.push(&columns[from..]);
    chunks
}

fn lines(names: &[String], columns: &[Vec<String>]) -> String {
    let line = |(row, name): (usize, &String)| {
        std::iter::once(name.clone()).chain(columns.iter().map(|column| column[row].clone())).collect::<Vec<String>>()
    };
    table(&names.iter().enumerate().map(line).collect::<Vec<_>>())
}

/// What each verdict was made from.
fn verdicts(comparison: &Comparison, width_chars: usize) -> String {
    let mut text = String::new();
    for group in &comparison.groups {
        for sentence in &group.sentences {
            let lines =
                wrapped(&format!("{}: {sentence}", comparison.label_of(group)), width_chars.saturating_sub(GAP));
            text.push_str(&format!("\n{}", lines.join("\n  ")));
        }
    }
    if text.is_empty() { text } else { text + "\n" }
}

fn context_table(context_lines: &[ContextLine]) -> String {
    if context_lines.is_empty() {
        return String::new();
    }
    let header = ["memory over context length", "contexts", "runs", "per position", "theory", "ratio"];
    let mut cells = vec![header.map(str::to_owned).to_vec()];
    cells.extend(context_lines.iter().map(|line| {
        let kv_type = line.kv_type.as_deref().unwrap_or("–");
        let compute = if line.is_without_compute { " − compute" } else { "" };
        vec![
            format!(
                "{} {} {kv_type} ({}{compute})",
                line.engine,
                shortened(&line.model_id, *NAME_CHARS.end()),
                line.memory.name()
            ),
            line.context_lengths.to_string(),
            line.points.len().to_string(),
            of_unit(Unit::Bytes, line.bytes_per_token),
            or_dash(line.theory_bytes_per_token, |value| of_unit(Unit::Bytes, value)),
            or_dash(line.measured_by_theory, |value| format!("{value:.3}")),
        ]
    }));
    format!("\n{}", table(&cells))
}

fn notes(comparison: &Comparison, width_chars: usize) -> String {
    let mut text = String::from("\n");
    let runs: usize = comparison.groups.iter().map(|group| group.run_ids.len()).sum();
    let groups = counted(comparison.groups.len() as u64, "configuration");
    text.push_str(&format!("{} in {groups}", counted(runs as u64, "run")));
    if comparison.groups.iter().any(|group| group.run_ids.len() > 1) {
        text.push_str("; medians, with the smallest and largest of repetitions");
    }
    if !comparison.excluded.is_empty() {
        text.push_str(&format!("; {}", exclusions_text(&comparison.excluded)));
    }
    text.push('\n');
    for note in &comparison.notes {
        text.push_str(&format!(
            "{}\n",
            wrapped(&format!("note: {note}"), width_chars.saturating_sub(GAP)).join("\n  ")
        ));
    }
    text
}
