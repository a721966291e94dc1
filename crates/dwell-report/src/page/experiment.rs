//! An experiment: what was measured over what was varied.

use std::collections::BTreeSet;

use dwell_analysis::validity::ValidityClass;
use serde::Serialize;

use super::experiment_plots::{Plot, plots, speed_of_classes, unchanged_words, varying};
use super::run_regions::title;
use super::{Level, Statement};
use crate::aggregate::Aggregate;
use crate::exclusion::{ExclusionReason, taken_in_texts};
use crate::group::{GroupKey, telling_keys};
use crate::text::{capitalised, counted};

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
    unchanged: Vec<String>,
    runs_included: usize,
    excluded: Vec<ExcludedRun>,
}

#[derive(Debug, Serialize)]
struct ExcludedRun {
    run_id: String,
    reason: String,
}

impl ExperimentPage {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
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
        let (plots, unchanged) = varying(plots(aggregate));
        Self {
            headline: if has_runs { headline(aggregate) } else { "No run of this experiment counts.".to_owned() },
            name,
            description: if has_runs { description(aggregate) } else { String::new() },
            answer: answer(aggregate),
            axes: axes_in_words(aggregate),
            trust: if has_runs { trust(aggregate) } else { vec![trust_in_nothing(aggregate, asked)] },
            plots,
            unchanged: unchanged.iter().map(unchanged_words).collect(),
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

/// What a reader of the plots must know: how means and intervals were made, and whose definitions hold.
fn description(aggregate: &Aggregate) -> String {
    let small = if aggregate.has_small_groups() { "; a group of fewer than three runs has none" } else { "" };
    let means = format!("Means with 95 % confidence intervals (Student t){small}");
    let of = |name: &str, words: &BTreeSet<String>| {
        let words = words.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        (!words.is_empty()).then(|| format!("{name} {words}"))
    };
    let known = [of("definitions of", &aggregate.definitions), of("basis", &aggregate.basis)];
    let known = capitalised(&known.into_iter().flatten().collect::<Vec<_>>().join("; "));
    [means, known].into_iter().filter(|part| !part.is_empty()).map(|part| part + ".").collect::<Vec<_>>().join(" ")
}

/// Why none does.
fn why_no_run_counts(aggregate: &Aggregate) -> String {
    match aggregate.excluded.is_empty() {
        true => "No run was found.".to_owned(),
        false => format!("{}.", capitalised(&aggregate.exclusions_text())),
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
        text: why_no_run_counts(aggregate),
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
    if let (Some(speed), false) = (speed_of_classes(aggregate), sentences.is_empty()) {
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
    fn an_experiment_of_which_why_no_run_counts_says_so_and_how_to_include_them() {
        let page = page(&[run("a", "low_mrm", "contaminated"), run("b", "low_mrm", "contaminated")], &[]);
        let why = "2 runs excluded: 2 contaminated.";
        assert_eq!((&page["name"], &page["headline"]), (&json!("e1"), &json!("No run of this experiment counts.")));
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
    fn what_is_not_known_leaves_no_empty_sentence() {
        let page = page(&[run("a", "low_mrm", "clean")], &[]);
        let text = page["description"].as_str().unwrap();
        assert_eq!(
            text,
            "Means with 95 % confidence intervals (Student t); a group of fewer than three runs has none."
        );
    }

    #[test]
    fn common_settings_and_exclusions_are_said_once() {
        let page = page(&[run("a", "low_mrm", "clean"), run("b", "low_mrm", "contaminated")], &[]);
        let said = page.to_string();
        assert_eq!(said.matches("1 run excluded").count(), 1, "{said}");
        assert_eq!(said.matches("tiny").count(), 1, "{said}");
    }
}
