//! `dwell analyse` on a folder of runs: figures over repetitions.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use dwell_analysis::{Metric, metric_columns};
use dwell_experiment::list_experiments;
use dwell_metrics::{analyse_run, analyse_run_within};
use dwell_report::text::aggregate_text;
use dwell_report::{
    Aggregate, AggregateOptions, ExclusionReason, RunResults, aggregate, experiment_figures, missing_runs,
};
use dwell_store::{FilesRead, FoundRun, RunDir, runs_under};

use crate::args::{AnalyseArgs, MetricsArgs};
use crate::changed_files::warn_of_changed_files;
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted, print_failure};
use crate::new_output::OutputFolder;
use crate::output::{print_result, say, step, unprinted_beside};
use crate::run_request::command_line;
use crate::shell::shell_word;

pub(super) fn run(args: &AnalyseArgs) -> anyhow::Result<ExitCode> {
    if let Some(option) = args.scale.option_of_a_run() {
        let message = format!("analysing several runs found {option}, which is for one: {:?}", args.path);
        return Err(Failure::new(message).hint("name one run").into());
    }
    let found = step("reading runs", || read_runs(&args.path))?;
    let mut facts = found.facts;
    if args.figures.is_given() || !args.options().requested.is_empty() {
        for run in &mut facts {
            compute_again(run, args)?;
        }
    }
    let options = AggregateOptions {
        columns: args.metrics.iter().copied().flat_map(metric_columns).map(str::to_owned).collect(),
        experiment: args.experiment.clone(),
        include: args.include.clone(),
    };
    let aggregate = aggregate(&facts, &options).map_err(hinted)?;
    if aggregate.runs == 0 {
        return Err(nothing_counts(&aggregate, &args.path, &command_line()).into());
    }
    warn_of_missing_runs(&args.path, args.experiment.as_deref(), &facts);
    if let Some(output) = &args.output {
        step("writing files and plots", || write_files(&aggregate, output, args.force))?;
    }
    let printed = match args.json {
        true => super::print_json(&aggregate),
        false => print_result(&aggregate_text(&aggregate, &args.metrics)),
    };
    printed.map_err(|error| unprinted_beside(error, args.output.as_ref()))?;
    Ok(if found.has_unreadable { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

/// Says which experiments in a results directory planned more runs than are there to be aggregated.
pub(super) fn warn_of_missing_runs(results: &Path, experiment: Option<&str>, runs: &[RunResults]) {
    for missing in missing_runs(&list_experiments(results), experiment, runs) {
        say(format_args!("warning: {missing}\n"));
    }
}

/// The runs below a folder.
pub(super) struct ReadRuns {
    pub(super) facts: Vec<RunResults>,
    /// Whether some could not be read; standard error names them.
    pub(super) has_unreadable: bool,
}

/// Reads what is known of every run below a path. One that cannot be read is named and left out.
pub(super) fn read_runs(path: &Path) -> anyhow::Result<ReadRuns> {
    let mut runs = ReadRuns { facts: Vec::new(), has_unreadable: false };
    for found in runs_under(path).map_err(hinted)? {
        match read_run(&found) {
            Ok(facts) => runs.facts.push(facts),
            Err(failure) => {
                print_failure(&failure);
                runs.has_unreadable = true;
            }
        }
    }
    Ok(runs)
}

fn read_run(found: &FoundRun) -> Result<RunResults, Failure> {
    match &found.run {
        Ok(run) => {
            warn_of_changed_files(run, FilesRead::Results);
            RunResults::load(run).map_err(|error| Failure::from_hinted(&error))
        }
        Err(error) => Err(Failure::from_hinted(error)),
    }
}

/// Figures by other definitions or thresholds than those in `metrics.csv` are made from the tables.
fn compute_again(run: &mut RunResults, args: &AnalyseArgs) -> anyhow::Result<()> {
    let own = run.metadata.build.as_ref().map(|build| build.analysis).filter(|_| !args.figures.is_given());
    let options = args.options_over(own.unwrap_or_default());
    let is_known = run.is_computed_with(&options) && args.window_ms.is_none() && has_metrics(run, &args.metrics);
    if !run.is_finished() || run.metrics.is_empty() || is_known {
        return Ok(());
    }
    say(format_args!("computing the metrics of {}/{}\n", run.metadata.model_id, run.metadata.run_id));
    let opened = RunDir::open(&run.path).map_err(hinted)?;
    let report = match args.scale.memory_limit {
        Some(limit_bytes) => analyse_run_within(&opened, options, limit_bytes),
        None => analyse_run(&opened, options),
    };
    let mut report = report.map_err(hinted)?;
    report.heed(run.metadata.quality.as_ref(), run.metadata.validity.as_ref());
    if let Some(unit) = run.metadata.time_unit() {
        report.withhold_times(unit);
    }
    run.set_metrics(report.figures_of(&Metric::ALL));
    Ok(())
}

/// Whether `metrics.csv` of the run has each of the metrics.
fn has_metrics(run: &RunResults, metrics: &[Metric]) -> bool {
    let has = |column: &str| run.metrics.iter().any(|line| line.values.contains_key(column));
    metrics.iter().all(|metric| metric_columns(*metric).into_iter().any(has))
}

/// `command` is what was typed.
pub(super) fn nothing_counts(aggregate: &Aggregate, path: &Path, command: &[String]) -> Failure {
    let message = format!("aggregating runs found none that counts ({}): {path:?}", aggregate.exclusions_text());
    let reasons: BTreeSet<ExclusionReason> = aggregate.excluded.iter().map(|excluded| excluded.reason).collect();
    let include = include_command(command, reasons.iter().copied());
    let is_unfinished = reasons.contains(&ExclusionReason::Unfinished);
    let path = shell_word(&path.display().to_string());
    let recover = is_unfinished.then(|| format!("finish runs that were killed with `dwell recover {path}`"));
    include.into_iter().chain(recover).fold(Failure::new(message), Failure::hint)
}

/// The command again with the runs that are repetitions all the same. Warm-up and untraced runs are none: means over them
/// would be of different work.
pub(super) fn include_command(
    command: &[String],
    reasons: impl IntoIterator<Item = ExclusionReason>,
) -> Option<String> {
    let flawed = reasons.into_iter().filter(|reason| reason.is_of_flawed_repetition());
    let names: Vec<&str> = flawed.map(ExclusionReason::name).collect();
    let words: Vec<String> = command.iter().map(|word| shell_word(word)).collect();
    (!names.is_empty()).then(|| format!("include excluded runs: {} --include {}", words.join(" "), names.join(",")))
}

fn write_files(aggregate: &Aggregate, output: &Path, force: bool) -> anyhow::Result<()> {
    let mut files = OutputFolder::new(output);
    files.add("summary.csv", aggregate.summary_csv());
    files.add_json("summary.json", aggregate)?;
    files.add_figures(&experiment_figures(aggregate).map_err(hinted)?);
    files.write(force)
}

impl MetricsArgs {
    /// Whether any of the options was given.
    fn is_given(&self) -> bool {
        let thresholds = [
            self.high_write_once,
            self.high_retention_secs,
            self.medium_write_once,
            self.medium_retention_secs,
            self.at_tokens_per_sec,
        ];
        self.definitions.is_some() || thresholds.iter().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use dwell_report::Exclusion;

    use super::*;

    #[test]
    fn only_what_can_be_taken_in_is_hinted_at() {
        let hints = |reasons: &[ExclusionReason]| {
            let excluded = |&reason: &ExclusionReason| Exclusion {
                model_id: "m".to_owned(),
                run_id: "r".to_owned(),
                reason,
                detail: String::new(),
            };
            let aggregate = Aggregate { excluded: reasons.iter().map(excluded).collect(), ..Aggregate::default() };
            let command = ["dwell", "analyse", "my results"].map(str::to_owned);
            nothing_counts(&aggregate, Path::new("results"), &command).hints().to_vec()
        };
        let recover = "finish runs that were killed with `dwell recover results`";
        assert_eq!(hints(&[ExclusionReason::Unfinished]), [recover]);
        let several = [ExclusionReason::Contaminated, ExclusionReason::Unfinished, ExclusionReason::Warmup];
        let include = "include excluded runs: dwell analyse 'my results' --include contaminated";
        assert_eq!(hints(&several), [include, recover]);
        // A warm-up is no repetition, and a failed run has no figures.
        assert!(hints(&[ExclusionReason::Warmup, ExclusionReason::Untraced, ExclusionReason::Failed]).is_empty());
        assert!(hints(&[]).is_empty());
    }
}
