//! Figures over repetitions, for people.

use std::collections::BTreeMap;

use dwell_analysis::statistics::Summary;
use dwell_analysis::{Definitions, Metric, label_of, metric_columns};

use super::format::{percent, percent_between};
use super::{count, counted, table, totals};
use crate::aggregate::lower_bound_of;
use crate::numbers::of_unit;
use crate::{Aggregate, Group, RunResults, unit_of};

/// Columns of `metrics.csv` that are shown if nobody chooses others.
const COLUMNS: [&str; 13] = [
    "distinct_bytes",
    "bytes_read",
    "bytes_written",
    "read_write_ratio",
    "needed_p99_s",
    "retention_p99_steps",
    "stays_p50_s",
    "retention_p50_s",
    "retention_p99_s",
    "censored_share",
    "kept_low_share",
    "write_once_ratio_mean",
    "suitability",
];

/// What all runs together say.
pub fn aggregate_text(aggregate: &Aggregate, metrics: &[Metric]) -> String {
    let names: Vec<&str> = aggregate.experiments.iter().map(String::as_str).collect();
    let validity: Vec<(u64, &str)> = aggregate.validity.iter().map(|(class, count)| (*count as u64, *class)).collect();
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<10} {value}\n"));
    if !names.is_empty() {
        // Runs of their own are no part of an experiment, though they are aggregated with it.
        let only = match aggregate.experiment_runs < aggregate.runs {
            true => format!(" ({} of {})", aggregate.experiment_runs, counted(aggregate.runs as u64, "run")),
            false => String::new(),
        };
        line("experiment", names.join(", ") + &only);
    }
    let groups = counted(aggregate.groups.len() as u64, "group");
    line("runs", format!("{} in {groups}; validity: {}", aggregate.runs, totals(&validity)));
    line("excluded", aggregate.exclusions_text());
    line("common", aggregate.common_keys());
    for group in &aggregate.groups {
        text.push_str(&format!("\n{}, {}\n", aggregate.label_of(group), counted(group.run_ids.len() as u64, "run")));
        text.push_str(&run_figures(group));
        text.push_str(&group_table(group, metrics));
    }
    let words = |set: &std::collections::BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
    text.push_str(&format!(
        "\nmeans ± half of the 95 % confidence interval, definitions of {}, basis {}\n",
        words(&aggregate.definitions),
        words(&aggregate.basis)
    ));
    text.push_str(labels_explained(aggregate));
    if aggregate.has_small_groups() {
        text.push_str("a group of fewer than three runs has no interval: too little is known of its spread\n");
    }
    text
}

/// What labels say, of which not every word does.
fn labels_explained(aggregate: &Aggregate) -> &'static str {
    let is_by_lives = aggregate.definitions.iter().any(|name| name == Definitions::Dwell.name());
    match is_by_lives || aggregate.definitions.is_empty() {
        true => {
            "needed: store to last load before the next store, stays: store to overwriting or eviction, both at the speed of the \
             suitability; open: lives that had not ended; kept: share of what is stored that stays for the retention of \
             high_mrm; once: stored once; >: at least, as far as the runs show; <: below one step, or below the time \
             resolution\n"
        }
        false => {
            "p50, p99 in this run: first store to last load of a region, over regions; once: share of a region's addresses \
             that were stored once, mean over regions\n"
        }
    }
}

/// The chosen metrics of one run.
pub fn run_table(run: &RunResults, metrics: &[Metric]) -> String {
    let types: Vec<&str> = run.metrics.iter().map(|line| line.region_type.as_str()).collect();
    let value = |region_type: &str, column: &str| {
        let line = run.metrics.iter().find(|line| line.region_type == region_type)?;
        let Some(value) = line.values.get(column) else {
            return lower_bound_of(column).and_then(|bound| at_least(column, line.number(bound)?));
        };
        let number = |number: f64| match resolution(column, |of| line.number(of)).filter(|_| number == 0.0) {
            Some(resolution) => below(column, resolution),
            None => figure(column, number),
        };
        kept(column, |of| line.number(of)).or(Some(value.number().map_or_else(|| value.to_string(), number)))
    };
    figure_table(&types, &columns_of(metrics), value)
}

fn columns_of(metrics: &[Metric]) -> Vec<&'static str> {
    if metrics.is_empty() { COLUMNS.to_vec() } else { metrics.iter().copied().flat_map(metric_columns).collect() }
}

/// A line per figure, a column per region type. Figures that nothing has are left out.
fn figure_table(types: &[&str], columns: &[&'static str], value: impl Fn(&str, &str) -> Option<String>) -> String {
    let header = std::iter::once("").chain(types.iter().copied()).map(str::to_owned).collect();
    let mut lines: Vec<Vec<String>> = vec![header];
    let is_known = |column: &str| types.iter().all(|region_type| value(region_type, column).is_some());
    for column in columns.iter().copied().filter(|column| !bounded_by(column).is_some_and(is_known)) {
        let values: Vec<Option<String>> = types.iter().map(|region_type| value(region_type, column)).collect();
        if values.iter().any(Option::is_some) {
            let cells = values.into_iter().map(|value| value.unwrap_or_else(|| "–".to_owned()));
            lines.push(std::iter::once(label_of(column).to_owned()).chain(cells).collect());
        }
    }
    table(&lines)
}

/// The figure that a bound is of. Where the figure is known, its bounds say no more.
fn bounded_by(column: &str) -> Option<&'static str> {
    match column {
        "retention_p50_low_s" | "retention_p50_high_s" => Some("retention_p50_s"),
        "retention_p99_low_s" | "retention_p99_high_s" => Some("retention_p99_s"),
        "write_once_low" | "write_once_high" => Some("write_once_ratio_mean"),
        _ => None,
    }
}

fn group_table(group: &Group, metrics: &[Metric]) -> String {
    let types: Vec<&str> = group.regions.iter().map(|region| region.region_type.as_str()).collect();
    figure_table(&types, &columns_of(metrics), |region_type, column| {
        if column == "suitability" {
            let region = group.regions.iter().find(|region| region.region_type == region_type)?;
            return Some(classes(&region.suitability)).filter(|text| !text.is_empty());
        }
        let mean = |of: &str| group.region_figure(region_type, of).map(|summary| summary.mean);
        let spread = |summary: &Summary| match resolution(column, mean).filter(|_| summary.min == 0.0) {
            Some(resolution) if summary.max == 0.0 => below(column, resolution),
            // Times below the resolution are not 0, so that their mean is not known.
            Some(resolution) => format!("≤ {}", figure(column, summary.max.max(resolution))),
            None => with_spread(column, summary),
        };
        let known = kept(column, mean).or_else(|| group.region_figure(region_type, column).map(spread));
        let least = || at_least(column, group.region_figure(region_type, lower_bound_of(column)?)?.min);
        known.or_else(least)
    })
}

/// `low_mrm`, or `2 low_mrm, 1 medium_mrm` if runs disagree.
fn classes(counts: &BTreeMap<String, usize>) -> String {
    match counts.iter().next() {
        Some((class, _)) if counts.len() == 1 => class.clone(),
        _ => totals(&counts.iter().map(|(class, count)| (*count as u64, class.as_str())).collect::<Vec<_>>()),
    }
}

/// Speed, memory and cost of watching, one line.
fn run_figures(group: &Group) -> String {
    let names = [
        ("prompt_tokens_per_s", "prompt", " tokens/s"),
        ("decode_tokens_per_s", "decode", " tokens/s"),
        ("worker_rss_peak_bytes", "worker memory", ""),
        ("observer_cpu_mean_pct", "observer CPU", " %"),
        ("decode_speed_share", "speed of untraced decoding", ""),
    ];
    let known = names.iter().filter_map(|(metric, name, unit)| {
        let summary = group.figures.get(*metric)?;
        Some(format!("{name} {}{unit}", with_spread(metric, summary)))
    });
    let text = known.collect::<Vec<_>>().join(", ");
    if text.is_empty() { text } else { text + "\n" }
}

/// `12.3 ± 0.4`, or with both ends where the interval is not the same to both sides: `0.951 (0.912 to 0.993)`.
fn with_spread(column: &str, summary: &Summary) -> String {
    let mean = figure(column, summary.mean);
    let Some((low, high)) = summary.ci95_low.zip(summary.ci95_high) else { return mean };
    let (below, above) = (summary.mean - low, high - summary.mean);
    if (above - below).abs() <= 1e-9 * summary.mean.abs() {
        return format!("{mean} ± {}", figure(column, above));
    }
    format!("{mean} ({} to {})", figure(column, low), figure(column, high))
}

/// What a time is below that is given as 0: one step, or the distance of two times in the trace. None for other figures.
fn resolution(column: &str, number: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let in_trace = || number("time_resolution_s").filter(|resolution_s| *resolution_s > 0.0);
    match column {
        column if column.ends_with("_steps") => Some(1.0),
        "needed_p50_s" | "needed_p99_s" | "stays_p50_s" => {
            number("suitability_tokens_per_s").map(|tokens_per_s| 1.0 / tokens_per_s).or_else(in_trace)
        }
        "retention_p50_s" | "retention_p90_s" | "retention_p99_s" | "residency_p50_s" | "residency_p99_s" => in_trace(),
        _ => None,
    }
}

fn below(column: &str, resolution: f64) -> String {
    format!("< {}", figure(column, resolution))
}

/// The share that stays, which has a column for each of its bounds; none for another column.
fn kept(column: &str, number: impl Fn(&str) -> Option<f64>) -> Option<String> {
    (column == "kept_low_share").then(|| Some(percent_between((number(column)?, number("kept_high_share")?)))).flatten()
}

/// What the figure is at least, of any run. That it is at least nothing says nothing.
fn at_least(column: &str, low: f64) -> Option<String> {
    (low > 0.0).then(|| format!("> {}", figure(column, low)))
}

/// A figure in the unit of its column, as the tables of one run show it.
fn figure(column: &str, value: f64) -> String {
    match column {
        "censored_share" | "never_read_share" | "kept_low_share" | "kept_high_share" => percent(value),
        column if column.ends_with("_steps") && value.fract() == 0.0 => count(value as u64),
        _ => of_unit(unit_of(column), value),
    }
}
