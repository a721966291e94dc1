//! An experiment: what was measured over what was varied.

use std::collections::{BTreeMap, BTreeSet};

use dwell_analysis::statistics::Summary;
use dwell_analysis::validity::ValidityClass;
use serde::Serialize;

use super::run_regions::title;
use super::{Level, Statement};
use crate::aggregate::{Aggregate, Group, bounded_by, unit_of};
use crate::exclusion::{ExclusionReason, taken_in_texts};
use crate::group::{GroupKey, telling_keys};
use crate::text::{capitalised, counted};

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
    ("needed_p99_low_s", "needed, p99, at least (at the stated speed)"),
    ("retention_p99_low_steps", "required retention in steps, p99, at least"),
    ("write_once_ratio_mean", "share of bytes written once"),
];

/// What a page says of an experiment.
#[derive(Debug, Serialize)]
pub(super) struct ExperimentPage {
    name: String,
    description: String,
    headline: String,
    answer: Vec<String>,
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

    /// The page of an experiment that was asked for by its id or name.
    pub(super) fn new(aggregate: &Aggregate, asked: &str) -> Self {
        let names: Vec<&str> = aggregate.experiments.iter().map(String::as_str).collect();
        let name = if names.is_empty() { asked.to_owned() } else { names.join(", ") };
        let excluded = aggregate.excluded.iter().map(|excluded| ExcludedRun {
            run_id: excluded.run_id.clone(),
            reason: match excluded.detail.as_str() {
                "" => excluded.reason.name().replace('_', " "),
                detail => format!("{} ({detail})", excluded.reason.name().replace('_', " ")),
            },
        });
        let has_runs = aggregate.runs > 0;
        Self {
            headline: if has_runs { headline(aggregate) } else { no_run_counts(aggregate) },
            name,
            description: if has_runs { aggregate.caption() } else { String::new() },
            answer: answer(aggregate),
            axes: axes_in_words(aggregate),
            trust: if has_runs { trust(aggregate) } else { vec![trust_in_nothing(aggregate, asked)] },
            plots: plots(aggregate),
            runs_included: aggregate.runs,
            excluded: excluded.collect(),
        }
    }
}

/// What ran.
fn headline(aggregate: &Aggregate) -> String {
    let ran = format!(
        "{} in {}",
        counted(aggregate.runs as u64, "run"),
        counted(aggregate.groups.len() as u64, "configuration")
    );
    match aggregate.common_keys() {
        common if common.is_empty() => format!("{ran}."),
        common => format!("{ran}; all: {common}."),
    }
}

fn no_run_counts(aggregate: &Aggregate) -> String {
    match aggregate.excluded.is_empty() {
        true => "No run of this experiment counts: none was found.".to_owned(),
        false => format!("No run of this experiment counts: {}.", aggregate.exclusions_text()),
    }
}

/// Why no run counts, and which command takes runs in.
fn trust_in_nothing(aggregate: &Aggregate, asked: &str) -> Statement {
    let reasons: BTreeSet<ExclusionReason> = aggregate.excluded.iter().map(|excluded| excluded.reason).collect();
    let can_be_included: Vec<&ExclusionReason> = reasons.iter().filter(|reason| reason.can_be_included()).collect();
    // Warm-ups and the like are no measurements: they are named only where there is nothing else.
    let measured: Vec<&ExclusionReason> =
        can_be_included.iter().copied().filter(|reason| !reason.is_of_no_repetition()).collect();
    let named = if measured.is_empty() { can_be_included } else { measured };
    let include = (!named.is_empty()).then(|| {
        let names: Vec<&str> = named.iter().map(|reason| reason.name()).collect();
        format!("To include runs: `dwell report RESULTS --experiment {asked} --include {}`.", names.join(","))
    });
    let recover = reasons
        .contains(&ExclusionReason::Unfinished)
        .then(|| "To finish runs that were killed: `dwell recover RESULTS`.".to_owned());
    Statement {
        topic: "runs",
        level: Level::Bad,
        text: no_run_counts(aggregate),
        reasons: include.into_iter().chain(recover).collect(),
    }
}

/// The class of each region type, and in how many runs.
fn answer(aggregate: &Aggregate) -> Vec<String> {
    let runs = counted(aggregate.runs as u64, "run");
    let types = aggregate.region_types();
    let known = REGION_ORDER.iter().copied().filter(|region_type| types.contains(region_type));
    let others = types.iter().copied().filter(|region_type| !REGION_ORDER.contains(region_type));
    let mut sentences: Vec<String> = known
        .chain(others)
        .filter_map(|region_type| {
            let mut classes: Vec<(&str, usize)> = aggregate.classes_of(region_type).into_iter().collect();
            classes.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
            let counts: Vec<String> =
                classes.iter().map(|(class, count)| format!("{} in {count}", class_words(class))).collect();
            (!counts.is_empty()).then(|| format!("{}: {} of {runs}.", title(region_type), counts.join(", ")))
        })
        .collect();
    let speeds: BTreeSet<String> = aggregate
        .groups
        .iter()
        .flat_map(|group| &group.regions)
        .filter_map(|region| region.figures.get("suitability_tokens_per_s"))
        .flat_map(|speed| [speed.min, speed.max].map(|speed| speed.to_string()))
        .collect();
    if let (Some(speed), 1, false) = (speeds.first(), speeds.len(), sentences.is_empty()) {
        sentences
            .push(format!("The classes hold at {speed} tokens/s of one sequence, whatever the speed of these runs."));
    }
    sentences
}

/// The order in which a reader asks for them.
const REGION_ORDER: [&str; 7] =
    ["weight", "kv_cache", "recurrent_state", "activation", "work_buffer", "runtime", "unknown"];

fn class_words(class: &str) -> String {
    match class {
        "high_mrm" => "well suited (high_mrm)".to_owned(),
        "medium_mrm" => "suited in part (medium_mrm)".to_owned(),
        "low_mrm" => "not suited (low_mrm)".to_owned(),
        other => other.replace('_', " "),
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
    vec![disturbances(aggregate), repetitions(aggregate), exclusions(aggregate)]
}

fn statement(topic: &'static str, level: Level, text: impl Into<String>) -> Statement {
    Statement { topic, level, text: text.into(), reasons: Vec::new() }
}

fn disturbances(aggregate: &Aggregate) -> Statement {
    let (all, runs) = (aggregate.runs, counted(aggregate.runs as u64, "run"));
    let of = |class: ValidityClass| aggregate.validity.get(class.name()).copied().unwrap_or(0);
    let (disturbed, slightly, unknown) =
        (of(ValidityClass::Contaminated), of(ValidityClass::Marginal), of(ValidityClass::Unknown));
    let were = |count: usize| if count == 1 { "was" } else { "were" };
    let sentences: Vec<String> = [
        (disturbed > 0).then(|| format!("{disturbed} of {runs} {} disturbed.", were(disturbed))),
        (slightly > 0).then(|| format!("{slightly} of {runs} {} disturbed a little.", were(slightly))),
        (unknown > 0).then(|| format!("Whether the machine was disturbed is not known for {unknown} of {runs}.")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let level = match disturbed {
        disturbed if disturbed == all => Level::Bad,
        _ if sentences.is_empty() => Level::Good,
        _ => Level::Note,
    };
    let text = if sentences.is_empty() { "No run was disturbed.".to_owned() } else { sentences.join(" ") };
    Statement { reasons: taken_in_texts(&aggregate.included), ..statement("validity", level, text) }
}

fn repetitions(aggregate: &Aggregate) -> Statement {
    if aggregate.has_small_groups() {
        return statement("repetitions", Level::Note, "Configurations with fewer than three runs have no interval.");
    }
    statement("repetitions", Level::Good, "Every configuration has three runs or more; intervals are 95 %.")
}

fn exclusions(aggregate: &Aggregate) -> Statement {
    if aggregate.excluded.is_empty() && aggregate.included.is_empty() {
        return statement("excluded", Level::Good, "Every run counts.");
    }
    statement("excluded", Level::Note, format!("{}.", capitalised(&aggregate.exclusions_text())))
}

#[cfg(test)]
mod tests {
    use dwell_analysis::Value as Figure;
    use serde_json::{Value, json};

    use super::*;
    use crate::{AggregateOptions, RunResults, aggregate};

    /// A run of the experiment `e1`, with the class of its KV cache and whether it was disturbed.
    fn run(run_id: &str, class: &str, validity: &str) -> RunResults {
        let metadata = json!({
            "run_id": run_id, "model_id": "tiny", "state": "complete", "validity": {"class": validity, "reasons": []},
            "experiment": {"id": "e1", "name": "study", "run_kind": "repetition"}});
        let mut run = RunResults { metadata: serde_json::from_value(metadata).unwrap(), ..RunResults::default() };
        run.set_metrics(vec![(
            "kv_cache".into(),
            vec![
                ("suitability", Figure::Text(class.to_owned())),
                ("suitability_tokens_per_s", Figure::Number(20.0)),
                ("needed_p99_low_s", Figure::Number(1.5)),
                ("retention_p99_low_s", Figure::Number(9.0)),
            ],
        )]);
        run
    }

    fn page(runs: &[RunResults], include: &[ExclusionReason]) -> Value {
        let options =
            AggregateOptions { columns: Vec::new(), experiment: Some("e1".to_owned()), include: include.to_vec() };
        serde_json::to_value(ExperimentPage::new(&aggregate(runs, &options).unwrap(), "e1")).unwrap()
    }

    fn levels(page: &Value) -> Vec<(&str, &str)> {
        let statements = page["trust"].as_array().unwrap();
        statements
            .iter()
            .map(|statement| (statement["level"].as_str().unwrap(), statement["text"].as_str().unwrap()))
            .collect()
    }

    #[test]
    fn an_experiment_of_which_no_run_counts_says_so_and_how_to_include_them() {
        let page = page(&[run("a", "low_mrm", "contaminated"), run("b", "low_mrm", "contaminated")], &[]);
        let why = "No run of this experiment counts: 2 runs excluded: 2 contaminated.";
        assert_eq!((&page["name"], &page["headline"]), (&json!("e1"), &json!(why)));
        assert_eq!(page["description"], "");
        assert_eq!(levels(&page), [("bad", why)]);
        assert_eq!(
            page["trust"][0]["reasons"],
            json!(["To include runs: `dwell report RESULTS --experiment e1 --include contaminated`."])
        );
        assert_eq!((&page["answer"], &page["plots"]), (&json!([]), &json!([])));
    }

    #[test]
    fn disturbed_runs_that_are_included_are_a_problem_if_all_are_and_a_note_if_some() {
        let disturbed = |run_id| run(run_id, "low_mrm", "contaminated");
        let clean = |run_id| run(run_id, "low_mrm", "clean");
        let include = [ExclusionReason::Contaminated];
        let all = page(&[disturbed("a"), disturbed("b"), disturbed("c")], &include);
        assert_eq!(levels(&all)[0], ("bad", "3 of 3 runs were disturbed."));
        assert_eq!(levels(&all)[2], ("note", "No run excluded; taken in on request: 3 contaminated."));
        let some = page(&[disturbed("a"), clean("b"), clean("c")], &include);
        assert_eq!(levels(&some)[0], ("note", "1 of 3 runs was disturbed."));
        let without = page(&[disturbed("a"), clean("b"), clean("c"), clean("d")], &[]);
        assert_eq!(levels(&without)[0], ("good", "No run was disturbed."));
        assert_eq!(levels(&without)[2], ("note", "1 run excluded: 1 contaminated."));
        assert_eq!(levels(&page(&[clean("b")], &[]))[2], ("good", "Every run counts."));
    }

    #[test]
    fn an_experiment_answers_with_the_classes_of_its_runs() {
        let runs = [run("a", "medium_mrm", "clean"), run("b", "medium_mrm", "clean"), run("c", "not_rated", "clean")];
        let speed = "The classes hold at 20 tokens/s of one sequence, whatever the speed of these runs.";
        let some = page(&runs, &[]);
        assert_eq!(
            some["answer"],
            json!(["KV cache: suited in part (medium_mrm) in 2, not rated in 1 of 3 runs.", speed])
        );
        let all = page(&runs[..2], &[]);
        assert_eq!(all["answer"][0], "KV cache: suited in part (medium_mrm) in 2 of 2 runs.");
    }

    #[test]
    fn needed_times_are_drawn_at_the_speed_of_the_classes() {
        let page = page(&[run("a", "low_mrm", "clean")], &[]);
        let plots = page["plots"].as_array().unwrap();
        let needed = plots.iter().find(|plot| plot["metric"] == "kv_cache_needed_p99_low_s").unwrap();
        assert_eq!(needed["title"], "KV cache: needed, p99, at least (at the stated speed)");
        assert_eq!((&needed["unit"], &needed["lines"][0]["points"][0]["mean"]), (&json!("s"), &json!(1.5)));
        assert!(plots.iter().all(|plot| plot["metric"] != "kv_cache_retention_p99_low_s"));
    }

    #[test]
    fn what_is_not_known_leaves_no_empty_sentence() {
        let page = page(&[run("a", "low_mrm", "clean")], &[]);
        let text = page["description"].as_str().unwrap();
        assert!(text.starts_with("Means of 1 run in 1 group with"), "{text}");
        assert!(!text.contains("Definitions of") && !text.contains("asis"), "{text}");
    }
}
