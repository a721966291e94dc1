//! The plots of an experiment, for its page and for its figure: which metrics, over what, and which of them vary.

use std::collections::{BTreeMap, BTreeSet};

use dwell_analysis::Unit;
use dwell_analysis::statistics::Summary;
use serde::Serialize;

use super::run_regions::title;
use crate::aggregate::{Aggregate, Group, bounded_by, unit_of};
use crate::group::{GroupKey, telling_keys};
use crate::numbers::of_unit;

/// Metrics of runs as a whole that are drawn, with their titles.
const RUN_PLOTS: [(&str, &str); 3] = [
    ("decode_tokens_per_s", "Decode speed"),
    ("prompt_tokens_per_s", "Prompt speed"),
    ("worker_rss_peak_bytes", "Peak memory of the worker"),
];

/// Metrics of region types that are drawn, with their titles. Those of lower bounds stand for the quantile: where it was reached,
/// both are equal.
const REGION_PLOTS: [(&str, &str); 5] = [
    ("distinct_bytes", "bytes touched"),
    ("bytes_read", "bytes read"),
    (NEEDED, "needed, p99"),
    (RETENTION, "required retention, p99"),
    ("write_once_ratio_mean", "share of bytes written once"),
];
/// A time that holds at one speed, which its title names.
const NEEDED: &str = "needed_p99_low_s";
const RETENTION: &str = "retention_p99_low_steps";
/// Metrics that count whole steps.
const IN_STEPS: [&str; 2] = [NEEDED, RETENTION];

/// Means that differ by less say nothing over what was varied.
const LEAST_CHANGE: f64 = 1e-3;

#[derive(Debug, Serialize)]
pub(crate) struct Plot {
    pub(crate) metric: String,
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) x_title: &'static str,
    pub(crate) x_is_number: bool,
    pub(crate) lines: Vec<Line>,
    /// How values are written.
    #[serde(skip)]
    quantity: Unit,
}

#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) title: String,
    pub(crate) points: Vec<Point>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Point {
    pub(crate) x: serde_json::Value,
    pub(crate) n: u64,
    pub(crate) mean: f64,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    values: Vec<f64>,
    /// Whether some runs ended before the quantile was reached, so that the mean is a lower bound: as long as the runs are.
    pub(crate) is_bound: bool,
}

impl Plot {
    pub(crate) fn points(&self) -> impl Iterator<Item = &Point> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    pub(crate) fn has_bounds(&self) -> bool {
        self.points().any(|point| point.is_bound)
    }

    fn varies(&self) -> bool {
        let means = || self.points().map(|point| point.mean);
        let (least, most) = (means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max));
        most - least > LEAST_CHANGE * most.abs().max(least.abs())
    }
}

impl Line {
    /// Neighbouring values, which a line may join. A bound says nothing of how values change, so no line leads to one.
    pub(crate) fn joined(&self) -> impl Iterator<Item = &[Point]> {
        self.points.split(|point| point.is_bound).filter(|points| points.len() > 1)
    }
}

/// A figure of a group.
struct Measured<'a> {
    group: &'a Group,
    summary: &'a Summary,
    is_bound: bool,
}

impl Measured<'_> {
    /// That something lasts longer than nothing says nothing.
    fn is_known(&self) -> bool {
        !(self.is_bound && self.summary.max == 0.0)
    }
}

/// Which key is on the axis of all plots, and which tell lines apart.
struct Axes {
    x: Option<usize>,
    lines: Vec<usize>,
}

impl Axes {
    /// The number that takes the most values is on the axis; without one, the groups themselves are.
    fn of(aggregate: &Aggregate) -> Self {
        let telling = telling_keys(aggregate.groups.iter().map(|group| &group.key));
        let values = |place: usize| -> BTreeSet<String> {
            aggregate.groups.iter().map(|group| group.key.fields()[place].clone()).collect()
        };
        let is_number = |place: &usize| values(*place).iter().all(|value| value.parse::<f64>().is_ok());
        let x = telling.iter().copied().filter(is_number).max_by_key(|&place| values(place).len());
        Self { x, lines: telling.into_iter().filter(|&place| Some(place) != x).collect() }
    }

    fn x_title(&self) -> &'static str {
        self.x.map_or("configuration", |place| GroupKey::COLUMNS[place])
    }

    /// The place of a group on the axis, and the line that it belongs to.
    fn place(&self, group: &Group) -> (serde_json::Value, String) {
        let words = group.key.words(&self.lines);
        match self.x {
            Some(place) => {
                let number: f64 = group.key.fields()[place].parse().unwrap_or(0.0);
                (number.into(), words)
            }
            None => (serde_json::Value::from(words), String::new()),
        }
    }

    fn plot<'a>(&self, metric: &str, title: String, figures: impl Iterator<Item = Measured<'a>>) -> Option<Plot> {
        let mut lines: BTreeMap<String, Vec<Point>> = BTreeMap::new();
        for measured in figures {
            let (x, line) = self.place(measured.group);
            // A line without points is kept, so that a line has the same colour in all plots.
            let points = lines.entry(line).or_default();
            points.extend(measured.is_known().then(|| point(x, &measured)));
        }
        let number = |point: &Point| point.x.as_f64().unwrap_or(0.0);
        lines.values_mut().for_each(|points| points.sort_by(|left, right| number(left).total_cmp(&number(right))));
        lines.values().any(|points| !points.is_empty()).then(|| Plot {
            metric: metric.to_owned(),
            title,
            unit: unit_symbol(metric),
            x_title: self.x_title(),
            x_is_number: self.x.is_some(),
            lines: lines.into_iter().map(|(title, points)| Line { title, points }).collect(),
            quantity: unit_of(metric),
        })
    }
}

fn point(x: serde_json::Value, Measured { summary, is_bound, .. }: &Measured<'_>) -> Point {
    Point {
        x,
        n: summary.n,
        mean: summary.mean,
        low: summary.ci95_low,
        high: summary.ci95_high,
        values: [summary.min, summary.max].into_iter().filter(|_| summary.n > 1).collect(),
        is_bound: *is_bound,
    }
}

/// The unit of an axis; numbers of tokens and steps have theirs in the names of their metrics.
fn unit_symbol(metric: &str) -> &'static str {
    match unit_of(metric) {
        Unit::None if metric.ends_with("_tokens_per_s") => "tokens/s",
        Unit::None if metric.ends_with("_steps") => "steps",
        unit => unit.symbol(),
    }
}

/// One plot per metric, and per region type if it is of one.
pub(crate) fn plots(aggregate: &Aggregate) -> Vec<Plot> {
    let axes = Axes::of(aggregate);
    let of_runs = RUN_PLOTS.iter().filter_map(|(metric, title)| {
        let figures = aggregate
            .groups
            .iter()
            .filter_map(|group| Some(Measured { group, summary: group.figures.get(*metric)?, is_bound: false }));
        axes.plot(metric, (*title).to_owned(), figures)
    });
    let types = aggregate.region_types();
    let speed = speed_of_classes(aggregate).map_or_else(String::new, |speed| format!(" at {speed} tokens/s"));
    let of_regions = REGION_PLOTS.iter().flat_map(|(metric, words)| {
        let (axes, speed) = (&axes, if *metric == NEEDED { speed.as_str() } else { "" });
        types.iter().filter_map(move |region_type| {
            let figures = aggregate.groups.iter().filter_map(|group| {
                let of = |metric: &str| group.region_figure(region_type, metric);
                let is_bound = bounded_by(metric).is_some_and(|quantile| of(quantile).is_none());
                Some(Measured { group, summary: of(metric)?, is_bound })
            });
            let plot = axes.plot(metric, format!("{}: {words}{speed}", title(region_type)), figures)?;
            // The name tells plots of a page apart.
            Some(Plot { metric: format!("{region_type}_{metric}"), ..plot })
        })
    });
    of_runs.chain(of_regions).collect()
}

/// Tokens per second that the classes and needed times of all runs hold at; none if runs differ.
pub(super) fn speed_of_classes(aggregate: &Aggregate) -> Option<String> {
    let speeds: BTreeSet<String> = aggregate
        .groups
        .iter()
        .flat_map(|group| &group.regions)
        .filter_map(|region| region.figures.get("suitability_tokens_per_s"))
        .flat_map(|speed| [speed.min, speed.max].map(|speed| speed.to_string()))
        .collect();
    speeds.first().filter(|_| speeds.len() == 1).cloned()
}

/// Plots in which anything changes, and the others; if nothing was varied, all are drawn.
pub(crate) fn varying(plots: Vec<Plot>) -> (Vec<Plot>, Vec<Plot>) {
    let (varying, unchanged): (Vec<Plot>, Vec<Plot>) = plots.into_iter().partition(Plot::varies);
    if varying.is_empty() { (unchanged, varying) } else { (varying, unchanged) }
}

/// What every configuration has, in a line.
pub(super) fn unchanged_words(plot: &Plot) -> String {
    let value = plot.points().next().map_or(0.0, |point| point.mean);
    let bound = if plot.has_bounds() { "> " } else { "" };
    let unit = if plot.quantity == Unit::None { plot.unit } else { "" };
    if value == 0.0 && IN_STEPS.iter().any(|metric| plot.metric.ends_with(metric)) {
        return format!("{}: less than 1 step", plot.title);
    }
    let text = format!("{}: {bound}{} {unit}", plot.title, of_unit(plot.quantity, value));
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use dwell_analysis::Value as Figure;
    use serde_json::json;

    use super::*;
    use crate::{AggregateOptions, RunResults, aggregate};

    /// A run with a context length and these numbers of its KV cache.
    fn run(context_length: u32, numbers: &[(&'static str, f64)]) -> RunResults {
        let metadata = json!({
            "run_id": format!("r{context_length}"), "model_id": "tiny", "state": "complete",
            "options": {"context_length": context_length}, "generation": {"decode_tokens_per_s": 100.0 + f64::from(context_length)}});
        let mut run = RunResults { metadata: serde_json::from_value(metadata).unwrap(), ..RunResults::default() };
        let numbers = numbers.iter().map(|&(column, number)| (column, Figure::Number(number)));
        let speed = [("suitability_tokens_per_s", Figure::Number(20.0))];
        run.set_metrics(vec![("kv_cache".into(), numbers.chain(speed).collect())]);
        run
    }

    fn plots_of(runs: &[RunResults]) -> Vec<Plot> {
        plots(&aggregate(runs, &AggregateOptions::default()).unwrap())
    }

    fn find<'a>(plots: &'a [Plot], metric: &str) -> Option<&'a Plot> {
        plots.iter().find(|plot| plot.metric == metric)
    }

    #[test]
    fn bounds_are_marked_and_never_joined_by_a_line() {
        let reached = [("needed_p99_s", 1.5), ("needed_p99_low_s", 1.5)];
        let runs = [run(64, &reached), run(128, &reached), run(256, &[("needed_p99_low_s", 12.8)])];
        let plots = plots_of(&runs);
        let line = &find(&plots, "kv_cache_needed_p99_low_s").unwrap().lines[0];
        assert_eq!(line.points.iter().map(|point| point.is_bound).collect::<Vec<_>>(), [false, false, true]);
        let joined: Vec<usize> = line.joined().map(<[Point]>::len).collect();
        assert_eq!(joined, [2], "the bound is left out of the line");
    }

    #[test]
    fn a_bound_of_nothing_is_no_point() {
        let plots = plots_of(&[run(64, &[("needed_p99_low_s", 0.0)]), run(128, &[("needed_p99_low_s", 0.0)])]);
        assert!(find(&plots, "kv_cache_needed_p99_low_s").is_none());
        let reached = [("needed_p99_s", 0.0), ("needed_p99_low_s", 0.0)];
        assert!(find(&plots_of(&[run(64, &reached)]), "kv_cache_needed_p99_low_s").is_some(), "0 is a value");
    }

    #[test]
    fn what_does_not_vary_is_said_and_not_drawn() {
        let numbers = [
            ("distinct_bytes", 2048.0),
            ("needed_p99_s", 0.0),
            ("needed_p99_low_s", 0.0),
            ("write_once_ratio_mean", 0.0),
        ];
        let (drawn, unchanged) = varying(plots_of(&[run(64, &numbers), run(128, &numbers)]));
        assert_eq!(drawn.iter().map(|plot| plot.metric.as_str()).collect::<Vec<_>>(), ["decode_tokens_per_s"]);
        let words: Vec<String> = unchanged.iter().map(unchanged_words).collect();
        let needed = "KV cache: needed, p99 at 20 tokens/s: less than 1 step";
        let written = "KV cache: share of bytes written once: 0.000";
        assert_eq!(words, ["KV cache: bytes touched: 2.00 KiB", needed, written]);
        let (drawn, unchanged) = varying(plots_of(&[run(64, &numbers)]));
        assert_eq!((drawn.len(), unchanged.len()), (4, 0), "with one configuration, all are drawn");
    }

    #[test]
    fn titles_name_the_speed_and_units_are_known() {
        let plots = plots_of(&[run(64, &[("needed_p99_low_s", 1.5), ("retention_p99_low_steps", 30.0)])]);
        let needed = find(&plots, "kv_cache_needed_p99_low_s").unwrap();
        assert_eq!((needed.title.as_str(), needed.unit), ("KV cache: needed, p99 at 20 tokens/s", "s"));
        assert_eq!(find(&plots, "kv_cache_retention_p99_low_steps").unwrap().unit, "steps");
        assert_eq!(find(&plots, "decode_tokens_per_s").unwrap().unit, "tokens/s");
    }
}
