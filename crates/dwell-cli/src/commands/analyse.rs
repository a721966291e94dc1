//! `dwell analyse`: the metrics of a finished run, or of all runs in a folder.

use std::process::ExitCode;

use dwell_analysis::MetricsReport;
use dwell_metrics::{MetricsError, analyse_run, analyse_run_within, merge_parts};
use dwell_report::text::{region_tables, run_table};
use dwell_report::{RegionsSummary, RunResults};
use dwell_store::{FilesRead, RunDir, TreeKind};

use super::{analyse_part, analyse_tree};
use crate::args::AnalyseArgs;
use crate::changed_files::warn_of_changed_files;
use crate::messages::{Failure, hinted};
use crate::output::{print_result, step, width_chars};
use crate::shell::shell_word;

pub(crate) fn run(args: &AnalyseArgs) -> anyhow::Result<ExitCode> {
    match super::kind_at(&args.path)? {
        TreeKind::Run => one_run(args),
        TreeKind::Tree => analyse_tree::run(args),
    }
}

fn one_run(args: &AnalyseArgs) -> anyhow::Result<ExitCode> {
    refuse_options_of_a_tree(args)?;
    let run = RunDir::open(&args.path).map_err(hinted)?;
    warn_of_changed_files(&run, FilesRead::Tables);
    if args.scale.explain {
        return analyse_part::explain(&run, args);
    }
    if let (Some(part), Some(file)) = (args.scale.part, &args.scale.part_output) {
        return analyse_part::write(&run, args, part, file);
    }
    let mut report = step("computing the metrics", || computed(&run, args)).map_err(hinted)?;
    // A folder that another program made has no metadata, or others.
    let metadata = RunResults::load(&run).map(|results| results.metadata).unwrap_or_default();
    report.heed(metadata.quality.as_ref(), metadata.validity.as_ref());
    if args.json {
        super::print_json(&report)?;
    } else if report.window.is_none() {
        let path = shell_word(&args.path.display().to_string());
        print_result(&format!("no accesses were recorded; `dwell compare {path}` shows memory and speed\n"))?;
    } else if args.metrics.is_empty() {
        let regions = RegionsSummary::new(&report, metadata.generation.as_ref());
        print_result(&region_tables(&regions, width_chars()))?;
    } else {
        let mut facts = RunResults::default();
        facts.set_metrics(report.figures_of(&args.metrics));
        print_result(&run_table(&facts, &args.metrics))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The report, in the way that the options ask for; it is the same in all of them.
fn computed(run: &RunDir, args: &AnalyseArgs) -> Result<MetricsReport, MetricsError> {
    let options = args.figures.options();
    match args.scale.memory_limit {
        _ if !args.scale.merge_parts.is_empty() => merge_parts(run, options, &args.scale.merge_parts),
        Some(limit_bytes) => analyse_run_within(run, options, limit_bytes),
        None => analyse_run(run, options),
    }
}

/// One run has nothing to be aggregated with.
fn refuse_options_of_a_tree(args: &AnalyseArgs) -> Result<(), Failure> {
    let given = [
        ("--experiment", args.experiment.is_some()),
        ("--include", !args.include.is_empty()),
        ("--output", args.output.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(Failure::new(format!("analysing one run found {option}, which is for several: {:?}", args.path))
                .hint("name the results directory to aggregate its runs"))
        }
    }
}
