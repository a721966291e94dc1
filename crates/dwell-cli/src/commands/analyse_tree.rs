//! `dwell analyse` on a folder of runs: figures over repetitions.

use std::path::Path;
use std::process::ExitCode;

use dwell_analysis::{Metric, metric_columns};
use dwell_metrics::analyse_run;
use dwell_report::text::aggregate_text;
use dwell_report::{Aggregate, AggregateOptions, RunResults, aggregate, experiment_figures};
use dwell_store::{FoundRun, RunDir, runs_under};

use crate::args::{AnalyseArgs, MetricsArgs};
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted, print_failure};
use crate::new_output::OutputFolder;
use crate::output::{print_result, say, step};

pub(super) fn run(args: &AnalyseArgs) -> anyhow::Result<ExitCode> {
    let found = step("reading runs", || read_runs(&args.path))?;
    let mut facts = found.facts;
    if args.figures.is_given() {
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
        return Err(nothing_counts(&aggregate, &args.path).into());
    }
    if let Some(output) = &args.output {
        step("writing files and plots", || write_files(&aggregate, output, args.force))?;
    }
    if args.json {
        super::print_json(&aggregate)?;
    } else {
        print_result(&aggregate_text(&aggregate, &args.metrics))?;
    }
    Ok(if found.has_unreadable { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
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
        Ok(run) => RunResults::load(run).map_err(|error| Failure::from_hinted(&error)),
        Err(error) => Err(Failure::from_hinted(error)),
    }
}

/// Figures by other definitions or thresholds than those in `metrics.csv` are made from the tables.
fn compute_again(run: &mut RunResults, args: &AnalyseArgs) -> anyhow::Result<()> {
    let options = args.figures.options();
    if !run.is_finished() || run.metrics.is_empty() || run.is_computed_with(&options) {
        return Ok(());
    }
    say(format_args!("computing the metrics of {}/{}\n", run.metadata.model_id, run.metadata.run_id));
    let mut report = analyse_run(&RunDir::open(&run.path).map_err(hinted)?, options).map_err(hinted)?;
    report.heed(run.metadata.quality.as_ref(), run.metadata.validity.as_ref());
    run.set_metrics(report.figures_of(&Metric::ALL));
    Ok(())
}

pub(super) fn nothing_counts(aggregate: &Aggregate, path: &Path) -> Failure {
    Failure::new(format!("aggregating runs found none that counts ({}): {path:?}", aggregate.exclusions_text()))
        .hint("take excluded runs in with `--include`, for one `--include warmup,contaminated`")
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
