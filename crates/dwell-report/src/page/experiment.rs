//! An experiment: what was measured over what was varied.

use std::collections::{BTreeMap, BTreeSet};

use dwell_analysis::statistics::Summary;
use serde::Serialize;

use super::run_regions::title;
use super::{Level, Statement};
use crate::aggregate::{Aggregate, Group, bounded_by, unit_of};
use crate::group::{GroupKey, telling_keys};
use crate::text::counted;

/// Metrics of runs as a whole that are drawn, with their titles.
const RUN_PLOTS: [(&str, &str); 3] = [
    ("decode_tokens_per_s", "Decode speed"),
    ("prompt_tokens_per_s", "Prompt speed"),
    ("worker_rss_peak_bytes", "Peak memory of the worker"),
];

/// Metrics of region types that are drawn, with their titles.
const REGION_PLOTS: [(&str, &str); 5] = [
    ("distinct_bytes", "bytes touched"),
    ("bytes_read", "bytes read"),
    ("retention_p99_low_s", "required retention, p99, at least"),
    ("retention_p99_low_steps", "required retention in steps, p99, at least"),
    ("write_once_ratio_mean", "share of bytes written once"),
];

/// What a page says of an experiment.
#[derive(Debug, Serialize)]
pub(super) struct ExperimentPage {
    name: String,
    description: String,
    headline: String,
    axes: Vec<String>,
    trust: Vec<Statement>,
    plots: Vec<Plot>,
    runs_included: usize,
    excluded: Vec<ExcludedRun>,
}

#[derive(Debug, Serialize)]
struct ExcludedRun {
    run_id: String,
    reason: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Plot {
    pub(crate) metric: String,
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) x_title: &'static str,
    pub(crate) x_is_number: bool,
    pub(crate) lines: Vec<Line>,
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
    /// Whether some runs ended before the quantile was reached. The titles of the page say so of all such plots.
    #[serde(skip)]
    pub(crate) is_bound: bool,
}

/// A figure of a group.
struct Measured<'a> {
    group: &'a Group,
    summary: &'a Summary,
    is_bound: bool,
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
        for Measured { group, summary, is_bound } in figures {
            let (x, line) = self.place(group);
            let point = Point {
                x,
                n: summary.n,
                mean: summary.mean,
                low: summary.ci95_low,
                high: summary.ci95_high,
                values: [summary.min, summary.max].into_iter().filter(|_| summary.n > 1).collect(),
                is_bound,
            };
            lines.entry(line).or_default().push(point);
        }
        let number = |point: &Point| point.x.as_f64().unwrap_or(0.0);
        lines.values_mut().for_each(|points| points.sort_by(|left, right| number(left).total_cmp(&number(right))));
        (!lines.is_empty()).then(|| Plot {
            metric: metric.to_owned(),
            title,
            unit: unit_of(metric).symbol(),
            x_title: self.x_title(),
            x_is_number: self.x.is_some(),
            lines: lines.into_iter().map(|(title, points)| Line { title, points }).collect(),
        })
    }
}

impl ExperimentPage {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn new(aggregate: &Aggregate) -> Self {
        let names: Vec<&str> = aggregate.experiments.iter().map(String::as_str).collect();
        let name = if names.is_empty() { "Runs".to_owned() } else { names.join(", ") };
        let excluded = aggregate.excluded.iter().map(|excluded| ExcludedRun {
            run_id: excluded.run_id.clone(),
            reason: match excluded.detail.as_str() {
                "" => excluded.reason.name().replace('_', " "),
                detail => format!("{} ({detail})", excluded.reason.name().replace('_', " ")),
            },
        });
        Self {
            headline: format!(
                "{} in {}; all: {}.",
                counted(aggregate.runs as u64, "run"),
                counted(aggregate.groups.len() as u64, "configuration"),
                aggregate.common_keys()
            ),
            name,
            description: aggregate.caption(),
            axes: axes_in_words(aggregate),
            trust: trust(aggregate),
            plots: plots(aggregate),
            runs_included: aggregate.runs,
            excluded: excluded.collect(),
        }
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
    let of_regions = REGION_PLOTS.iter().flat_map(|(metric, words)| {
        let axes = &axes;
        types.iter().filter_map(move |region_type| {
            let figures = aggregate.groups.iter().filter_map(|group| {
                let of = |metric: &str| group.region_figure(region_type, metric);
                let is_bound = bounded_by(metric).is_some_and(|quantile| of(quantile).is_none());
                Some(Measured { group, summary: of(metric)?, is_bound })
            });
            let plot = axes.plot(metric, format!("{}: {words}", title(region_type)), figures)?;
            // The name tells plots of a page apart.
            Some(Plot { metric: format!("{region_type}_{metric}"), ..plot })
        })
    });
    of_runs.chain(of_regions).collect()
}

fn axes_in_words(aggregate: &Aggregate) -> Vec<String> {
    let telling = telling_keys(aggregate.groups.iter().map(|group| &group.key));
    let values = |place: usize| -> Vec<String> {
        let mut values: Vec<String> = aggregate.groups.iter().map(|group| group.key.fields()[place].clone()).collect();
        values.sort_by(|left, right| match (left.parse::<f64>(), right.parse::<f64>()) {
            (Ok(left), Ok(right)) => left.total_cmp(&right),
            _ => left.cmp(right),
        });
        values.dedup();
        values
    };
    telling.into_iter().map(|place| format!("{}: {}", GroupKey::COLUMNS[place], values(place).join(", "))).collect()
}

fn trust(aggregate: &Aggregate) -> Vec<Statement> {
    let statement = |topic, level, text: String| Statement { topic, level, text, reasons: Vec::new() };
    let clean = aggregate.validity.get("clean").copied().unwrap_or(0);
    let validity = statement(
        "validity",
        if clean == aggregate.runs && clean > 0 { Level::Good } else { Level::Note },
        format!("{clean} of {} were not disturbed.", counted(aggregate.runs as u64, "run")),
    );
    let intervals = if aggregate.has_small_groups() {
        statement("repetitions", Level::Note, "Configurations with fewer than three runs have no interval.".to_owned())
    } else {
        statement(
            "repetitions",
            Level::Good,
            "Every configuration has three runs or more; intervals are 95 %.".to_owned(),
        )
    };
    let excluded = statement(
        "excluded",
        if aggregate.excluded.is_empty() { Level::Good } else { Level::Note },
        format!("Runs that do not count: {}.", aggregate.exclusions_text()),
    );
    vec![validity, intervals, excluded]
}
