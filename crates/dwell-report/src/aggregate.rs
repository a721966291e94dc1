//! Runs as groups of repetitions: mean, spread and confidence interval of every figure.

use std::collections::{BTreeMap, BTreeSet};

use dwell_analysis::Unit;
use dwell_analysis::metrics::type_column;
use dwell_analysis::statistics::{INTERVAL_SAMPLES_MIN, Ratio, Summary};
use serde::Serialize;

use crate::ReportError;
use crate::exclusion::{Exclusion, ExclusionReason, exclusion_of, exclusions_and_inclusions_text};
use crate::group::{GroupKey, telling_keys, varying_keys};
use crate::run_results::{MetricsLine, RunResults};

/// The column of `metrics.csv` with the class rather than a number.
const SUITABILITY: &str = "suitability";

/// What to aggregate.
#[derive(Clone, Debug, Default)]
pub struct AggregateOptions {
    /// Columns of `metrics.csv`; empty takes all.
    pub columns: Vec<String>,
    /// Id or name of the one experiment whose runs are taken.
    pub experiment: Option<String>,
    /// Reasons for which runs are not excluded after all.
    pub include: Vec<ExclusionReason>,
}

/// What all runs together say.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Aggregate {
    /// Experiments of the runs that count, by name; empty for runs of their own.
    pub experiments: BTreeSet<String>,
    /// Runs that count.
    pub runs: usize,
    /// How many of them belong to these experiments.
    pub experiment_runs: usize,
    /// How many of them are of each class of validity.
    pub validity: BTreeMap<&'static str, usize>,
    /// Runs that do not count.
    pub excluded: Vec<Exclusion>,
    /// Runs that count though they usually would not, because that was asked for.
    pub included: Vec<Exclusion>,
    /// Whose definitions the figures follow.
    pub definitions: BTreeSet<String>,
    /// How the figures were obtained.
    pub basis: BTreeSet<String>,
    /// Repetitions, by key.
    pub groups: Vec<Group>,
}

/// Runs with equal keys.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// What they have in common.
    pub key: GroupKey,
    /// Stands for the whole key, in the tables of exported datasets too.
    pub configuration: String,
    /// The runs.
    pub run_ids: Vec<String>,
    /// Figures of the runs as a whole: speed, memory, cost of watching.
    pub figures: BTreeMap<String, Summary>,
    /// Figures by region type.
    pub regions: Vec<RegionGroup>,
}

/// One region type in a group.
#[derive(Clone, Debug, Serialize)]
pub struct RegionGroup {
    /// The type.
    pub region_type: String,
    /// Columns of `metrics.csv`.
    pub figures: BTreeMap<String, Summary>,
    /// How many runs gave each class of suitability.
    pub suitability: BTreeMap<String, usize>,
}

impl Group {
    /// A figure of a region type.
    pub fn region_figure(&self, region_type: &str, metric: &str) -> Option<&Summary> {
        self.regions.iter().find(|region| region.region_type == region_type)?.figures.get(metric)
    }
}

impl Aggregate {
    /// Every region type, by name.
    pub fn region_types(&self) -> BTreeSet<&str> {
        self.groups.iter().flat_map(|group| &group.regions).map(|region| region.region_type.as_str()).collect()
    }

    /// How many of the runs that count gave a region type each class of suitability.
    pub fn classes_of(&self, region_type: &str) -> BTreeMap<&str, usize> {
        let mut classes = BTreeMap::new();
        for region in self.groups.iter().flat_map(|group| &group.regions) {
            for (class, runs) in region.suitability.iter().filter(|_| region.region_type == region_type) {
                *classes.entry(class.as_str()).or_default() += runs;
            }
        }
        classes
    }

    /// Whether some group has too few runs for an interval.
    pub fn has_small_groups(&self) -> bool {
        self.groups.iter().any(|group| group.run_ids.len() < INTERVAL_SAMPLES_MIN)
    }

    /// What sets a group apart from the others, in words; the model if there is one group only.
    pub fn label_of(&self, group: &Group) -> String {
        let mut places = telling_keys(self.groups.iter().map(|group| &group.key));
        if places.is_empty() {
            places.push(0);
        }
        group.key.words(&places)
    }

    /// What all groups have in common, in words.
    pub fn common_keys(&self) -> String {
        let varying = varying_keys(self.groups.iter().map(|group| &group.key));
        let common: Vec<usize> = (0..GroupKey::COLUMNS.len()).filter(|place| !varying.contains(place)).collect();
        self.groups.first().map_or_else(String::new, |group| group.key.words(&common))
    }

    /// Which runs do not count, and which do though they usually do not.
    pub fn exclusions_text(&self) -> String {
        exclusions_and_inclusions_text(&self.excluded, &self.included)
    }

    /// Takes in a run that counts.
    fn note(&mut self, run: &RunResults) {
        self.runs += 1;
        *self.validity.entry(run.metadata.validity_class().name()).or_default() += 1;
        self.experiment_runs += usize::from(run.metadata.experiment.is_some());
        self.experiments.extend(run.metadata.experiment.as_ref().map(|experiment| experiment.about.name.clone()));
        self.definitions.extend(run.definitions().map(str::to_owned));
        self.basis.extend(run.bases().into_iter().map(str::to_owned));
    }
}

/// Groups the runs that count and summarises their figures.
pub fn aggregate(runs: &[RunResults], options: &AggregateOptions) -> Result<Aggregate, ReportError> {
    let chosen = runs_of_experiment(runs, options.experiment.as_deref())?;
    let mut aggregate = Aggregate::default();
    let mut groups: BTreeMap<GroupKey, Vec<&RunResults>> = BTreeMap::new();
    for run in chosen {
        match exclusion_of(run, &options.include) {
            Some(exclusion) => aggregate.excluded.push(exclusion),
            None => {
                aggregate.included.extend(exclusion_of(run, &[]));
                aggregate.note(run);
                groups.entry(GroupKey::of(run)).or_default().push(run);
            }
        }
    }
    aggregate.groups = groups.into_iter().map(|(key, runs)| group(key, &runs, &options.columns)).collect();
    Ok(aggregate)
}

/// The runs of one experiment, or all.
fn runs_of_experiment<'a>(
    runs: &'a [RunResults],
    experiment: Option<&str>,
) -> Result<Vec<&'a RunResults>, ReportError> {
    let Some(wanted) = experiment else { return Ok(runs.iter().collect()) };
    let chosen: Vec<&RunResults> = runs.iter().filter(|run| run.is_of(wanted)).collect();
    if chosen.is_empty() { Err(unknown_experiment(runs, wanted)) } else { Ok(chosen) }
}

/// None of the runs is of the experiment that was asked for.
pub(crate) fn unknown_experiment<'a>(runs: impl IntoIterator<Item = &'a RunResults>, wanted: &str) -> ReportError {
    let known: BTreeSet<String> = runs
        .into_iter()
        .filter_map(|run| run.metadata.experiment.as_ref())
        .map(|experiment| format!("{} ({})", experiment.about.name, experiment.id))
        .collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.into_iter().collect::<Vec<_>>().join(", ") };
    ReportError::UnknownExperiment { wanted: wanted.to_owned(), known }
}

fn group(key: GroupKey, runs: &[&RunResults], columns: &[String]) -> Group {
    let region_types: BTreeSet<&str> =
        runs.iter().flat_map(|run| &run.metrics).map(|line| line.region_type.as_str()).collect();
    let regions = region_types.into_iter().map(|region_type| {
        let lines: Vec<&MetricsLine> =
            runs.iter().flat_map(|run| &run.metrics).filter(|line| line.region_type == region_type).collect();
        region_group(region_type, &lines, columns)
    });
    Group {
        configuration: key.configuration(),
        key,
        run_ids: runs.iter().map(|run| run.metadata.run_id.clone()).collect(),
        figures: run_figures(runs),
        regions: regions.collect(),
    }
}

fn region_group(region_type: &str, lines: &[&MetricsLine], columns: &[String]) -> RegionGroup {
    let is_chosen = |column: &str| columns.is_empty() || columns.iter().any(|chosen| chosen == column);
    let names: BTreeSet<&String> =
        lines.iter().flat_map(|line| line.values.keys()).filter(|column| is_chosen(column)).collect();
    let numbers = |column: &str| -> Vec<f64> {
        let is_bound_only = |line: &&MetricsLine| line.number(column).is_none() && has_lower_bound(line, column);
        // The mean of the runs in which a quantile was reached would be that of the short lives.
        if lines.iter().any(is_bound_only) {
            return Vec::new();
        }
        lines.iter().filter_map(|line| line.number(column)).collect()
    };
    let mut suitability = BTreeMap::new();
    if is_chosen(SUITABILITY) {
        for class in lines.iter().filter_map(|line| line.name(SUITABILITY)) {
            *suitability.entry(class.to_owned()).or_default() += 1;
        }
    }
    RegionGroup {
        region_type: region_type.to_owned(),
        figures: names
            .into_iter()
            .filter_map(|column| Some((column.clone(), Summary::of(&numbers(column))?)))
            .collect(),
        suitability,
    }
}

fn has_lower_bound(line: &MetricsLine, column: &str) -> bool {
    lower_bound_of(column).is_some_and(|bound| line.number(bound).is_some())
}

/// The column with the lower bound of a quantile, which is all that is known where runs ended before it was reached.
pub(crate) fn lower_bound_of(column: &str) -> Option<&'static str> {
    BOUNDS.iter().find(|(of, _)| *of == column).map(|(_, bound)| *bound)
}

/// The column of the quantile that a lower bound is of.
pub(crate) fn bounded_by(bound: &str) -> Option<&'static str> {
    BOUNDS.iter().find(|(_, of)| *of == bound).map(|(column, _)| *column)
}

/// Columns of quantiles, with those of their lower bounds.
const BOUNDS: [(&str, &str); 9] = [
    ("retention_p50_s", "retention_p50_low_s"),
    ("retention_p99_s", "retention_p99_low_s"),
    ("retention_p50_steps", "retention_p50_low_steps"),
    ("retention_p99_steps", "retention_p99_low_steps"),
    ("residency_p50_s", "residency_p50_low_s"),
    ("residency_p99_s", "residency_p99_low_s"),
    ("needed_p50_s", "needed_p50_low_s"),
    ("needed_p99_s", "needed_p99_low_s"),
    ("stays_p50_s", "stays_p50_low_s"),
];

/// A figure of a run as a whole.
#[derive(Clone, Copy, Debug)]
pub struct RunFigure {
    /// Name in `summary.csv`.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// How a run gives it.
    pub get: fn(&RunResults) -> Option<f64>,
    /// For a figure that was divided by one of another run: how a run names that.
    pub reference: Option<fn(&RunResults) -> Option<&str>>,
}

/// The unrecorded run that speeds were divided by.
fn untraced_run(run: &RunResults) -> Option<&str> {
    Some(&run.metadata.observer_effect.as_ref()?.slowdown.as_ref()?.untraced_run_id)
}

/// The figures of runs as a whole: speed, memory, cost of watching.
#[rustfmt::skip]
pub static RUN_FIGURES: [RunFigure; 6] = [
    RunFigure { name: "prompt_tokens_per_s", unit: Unit::None, get: |run| run.metadata.generation?.prompt_tokens_per_s, reference: None },
    RunFigure { name: "decode_tokens_per_s", unit: Unit::None, get: |run| run.metadata.generation?.decode_tokens_per_s, reference: None },
    RunFigure { name: "worker_rss_peak_bytes", unit: Unit::Bytes, get: |run| run.metadata.observer_effect.as_ref()?.worker.rss_peak_bytes.map(|bytes| bytes as f64), reference: None },
    RunFigure { name: "observer_cpu_mean_pct", unit: Unit::None, get: |run| run.metadata.observer_effect.as_ref()?.observer.cpu_mean_pct, reference: None },
    RunFigure { name: "prompt_speed_share", unit: Unit::Ratio, get: |run| run.metadata.observer_effect.as_ref()?.slowdown.as_ref()?.prompt_speed_share, reference: Some(untraced_run) },
    RunFigure { name: "decode_speed_share", unit: Unit::Ratio, get: |run| run.metadata.observer_effect.as_ref()?.slowdown.as_ref()?.decode_speed_share, reference: Some(untraced_run) },
];

/// Figures of runs as a whole; one that no run has is left out.
fn run_figures(runs: &[&RunResults]) -> BTreeMap<String, Summary> {
    let summary = |figure: &RunFigure| {
        let values = runs.iter().copied().filter_map(|run| Some((run, (figure.get)(run)?)));
        let values = values.filter(|(_, value)| value.is_finite());
        match figure.reference {
            None => Summary::of(&values.map(|(_, value)| value).collect::<Vec<_>>()),
            Some(reference) => {
                let ratio = |(run, value)| Ratio { value, reference: reference(run).unwrap_or_default() };
                Summary::of_ratios(&values.map(ratio).collect::<Vec<_>>())
            }
        }
    };
    RUN_FIGURES.iter().filter_map(|figure| Some((figure.name.to_owned(), summary(figure)?))).collect()
}

/// Unit of a figure in `summary.csv`: a column of `metrics.csv`, or a figure of runs as a whole.
pub fn unit_of(figure: &str) -> Unit {
    let of_run = || RUN_FIGURES.iter().find(|known| known.name == figure).map(|known| known.unit);
    type_column(figure).map(|column| column.unit).or_else(of_run).unwrap_or(Unit::None)
}
