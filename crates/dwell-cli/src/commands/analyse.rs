//! `dwell analyse`: the metrics of a finished run, or of all runs in a folder.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use dwell_analysis::{Definitions, MetricsReport, Options, RequestedMetrics};
use dwell_host::work_in_huge_pages;
use dwell_metadata::{DEFAULT_BINS, RunMetadata};
use dwell_metrics::{MetricsError, analyse_run, analyse_run_within, merge_parts};
use dwell_report::text::{region_tables, run_table};
use dwell_report::{RegionsSummary, RunResults};
use dwell_store::{FilesRead, RunDir, TreeKind};
use serde_json::Value;

use super::{analyse_part, analyse_share, analyse_tree};
use crate::args::AnalyseArgs;
use crate::changed_files::warn_of_changed_files;
use crate::messages::{Failure, hinted};
use crate::new_output::OutputFolder;
use crate::output::{print_result, step, unprinted_beside, width_chars};
use crate::shell::shell_word;

/// Nanoseconds in a millisecond.
const NS_PER_MS: u64 = 1_000_000;

pub(crate) fn run(args: &AnalyseArgs) -> anyhow::Result<ExitCode> {
    match super::kind_at(&args.path)? {
        TreeKind::Run => one_run(args),
        TreeKind::Tree => analyse_tree::run(args),
    }
}

fn one_run(args: &AnalyseArgs) -> anyhow::Result<ExitCode> {
    refuse_options_of_a_tree(args)?;
    refuse_requested_elsewhere(args)?;
    let run = RunDir::open(&args.path).map_err(hinted)?;
    warn_of_changed_files(&run, FilesRead::Tables);
    if args.scale.explain {
        return analyse_part::explain(&run, args);
    }
    if let Some(share) = args.scale.approximate {
        return analyse_share::run(&run, args, share);
    }
    if let (Some(part), Some(file)) = (args.scale.part, &args.scale.part_output) {
        return analyse_part::write(&run, args, part, file);
    }
    let mut report = step("computing the metrics", || computed(&run, args)).map_err(hinted)?;
    // A folder that another program made has no metadata, or others.
    let metadata = RunResults::load(&run).map(|results| results.metadata).unwrap_or_default();
    report.heed(metadata.quality.as_ref(), metadata.validity.as_ref());
    if let Some(unit) = metadata.time_unit() {
        report.withhold_times(unit);
    }
    if let Some(output) = &args.output {
        step("writing files", || write_files(&report, output, args.force))?;
    }
    print_report(&report, &metadata, args).map_err(|error| unprinted_beside(error, args.output.as_ref()))?;
    Ok(ExitCode::SUCCESS)
}

/// The report, in the way that the options ask for; it is the same in all of them.
fn computed(run: &RunDir, args: &AnalyseArgs) -> Result<MetricsReport, MetricsError> {
    let options = args.options();
    if args.scale.memory_limit.is_none() {
        work_in_huge_pages();
    }
    match args.scale.memory_limit {
        _ if !args.scale.merge_parts.is_empty() => merge_parts(run, options, &args.scale.merge_parts),
        Some(limit_bytes) => analyse_run_within(run, options, limit_bytes),
        None => analyse_run(run, options),
    }
}

fn print_report(report: &MetricsReport, metadata: &RunMetadata, args: &AnalyseArgs) -> anyhow::Result<()> {
    if args.json {
        return super::print_json(&json_of(report)?);
    }
    if report.window.is_none() {
        let path = shell_word(&args.path.display().to_string());
        return print_result(&format!("no accesses were recorded; `dwell compare {path}` shows memory and speed\n"));
    }
    if args.metrics.is_empty() {
        let regions = RegionsSummary::new(report, metadata.generation.as_ref());
        return print_result(&region_tables(&regions, width_chars()));
    }
    let mut facts = RunResults::default();
    facts.set_metrics(report.figures_of(&args.metrics));
    print_result(&run_table(&facts, &args.metrics))
}

/// The files that a run has of its metrics, those of metrics on request, and the report.
fn write_files(report: &MetricsReport, output: &Path, force: bool) -> anyhow::Result<()> {
    let mut files = OutputFolder::new(output);
    files.add("metrics.csv", report.metrics_csv());
    files.add("metrics_by_region.csv", report.regions_csv());
    if report.has_times() {
        files.add("retention_histogram.csv", report.retention_histogram_csv(DEFAULT_BINS));
    }
    report.requested_tables().into_iter().for_each(|(name, text)| files.add(name, text));
    files.add_json("report.json", &json_of(report)?)?;
    files.write(force)
}

impl AnalyseArgs {
    /// What the arguments mean to the analysis.
    pub(super) fn options(&self) -> Options {
        self.options_over(Options::default())
    }

    /// The same, where what is not given stays as it is.
    pub(super) fn options_over(&self, base: Options) -> Options {
        let options = self.figures.options_over(base);
        let window_ns = self.window_ms.map_or(options.window_ns, |window_ms| u64::from(window_ms) * NS_PER_MS);
        Options { requested: RequestedMetrics::among(&self.metrics), window_ns, ..options }
    }
}

/// Metrics on request keep what they need of all bytes in memory, and mrm-trace knows none of them.
fn refuse_requested_elsewhere(args: &AnalyseArgs) -> Result<(), Failure> {
    if args.options().requested.is_empty() {
        return Ok(());
    }
    if args.options().definitions != Definitions::Dwell {
        return Err(Failure::new("metrics on request are computed by dwell's definitions")
            .hint("leave out --definitions, or name standard metrics with --metrics"));
    }
    let scale = &args.scale;
    let is_limited = scale.memory_limit.is_some() || scale.approximate.is_some();
    let is_in_parts = scale.part.is_some() || !scale.merge_parts.is_empty() || is_limited;
    if !is_in_parts {
        return Ok(());
    }
    Err(Failure::new("metrics on request are computed of a whole trace, in as much memory as they need")
        .hint("leave out the options for parts and memory, or name standard metrics with --metrics"))
}

/// The report for programs; times are null where timestamps are none.
fn json_of(report: &MetricsReport) -> anyhow::Result<Value> {
    let mut json = serde_json::to_value(report).context("writing the metrics as JSON")?;
    if let (false, Value::Object(members)) = (report.has_times(), &mut json) {
        // What the classes ask for is set by the user, and stays in seconds.
        members
            .iter_mut()
            .filter(|(name, _)| *name != "thresholds")
            .for_each(|(name, value)| withhold_times(name, value));
    }
    Ok(json)
}

fn withhold_times(name: &str, value: &mut Value) {
    match value {
        _ if name.ends_with("_s") || name.ends_with("_ns") || name.starts_with("kept_") => *value = Value::Null,
        Value::Object(members) => members.iter_mut().for_each(|(name, value)| withhold_times(name, value)),
        Value::Array(values) => values.iter_mut().for_each(|value| withhold_times("", value)),
        _ => {}
    }
}

/// One run has nothing to be aggregated with.
fn refuse_options_of_a_tree(args: &AnalyseArgs) -> Result<(), Failure> {
    let given = [("--experiment", args.experiment.is_some()), ("--include", !args.include.is_empty())];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(Failure::new(format!("analysing one run found {option}, which is for several: {:?}", args.path))
                .hint("name the results directory to aggregate its runs"))
        }
    }
}
