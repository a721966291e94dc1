//! `dwell verify` on a folder of runs: one line per run, then what `manifest.csv` says of them.

use std::process::ExitCode;

use dwell_collectors::tables;
use dwell_report::text::verify_tree_text;
use dwell_store::{RunOutcome, TreeReport, verify_tree};
use indicatif::ProgressBar;

use crate::args::VerifyArgs;
use crate::messages::{EXIT_WITH_LOSS, hinted, print_hints};
use crate::output::{print_result, step};
use crate::terminal::count_bar;

pub(crate) fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let bar = if args.json { ProgressBar::hidden() } else { count_bar("verifying") };
    let on_run = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let report = step("checking files", || verify_tree(&args.path, &tables(), &on_run));
    bar.finish_and_clear();
    let report = report.map_err(hinted)?;
    if args.json {
        super::print_json(&report)?;
    } else {
        print_result(&verify_tree_text(&report))?;
        print_hints(&hints(&report, args));
    }
    Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WITH_LOSS) })
}

fn hints(report: &TreeReport, args: &VerifyArgs) -> Vec<String> {
    let is_unfinished = report.runs.iter().any(|run| matches!(run.outcome, RunOutcome::Unfinished { .. }));
    let recover = format!("finish what was killed with `dwell recover '{}'`", args.path.display());
    is_unfinished.then_some(recover).into_iter().collect()
}
