//! `dwell show`: what `dwell run` said of a run, again.

use std::path::PathBuf;
use std::process::ExitCode;

use dwell_report::RunSummary;
use dwell_report::text::summary_text;
use dwell_store::{FilesRead, RunDir, TreeKind};

use crate::args::ShowArgs;
use crate::changed_files::warn_of_changed_files;
use crate::messages::{Failure, hinted, print_hints};
use crate::output::{print_result, step, width_chars};
use crate::shell::shell_word;

pub(crate) fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    if super::kind_at(&args.run)? == TreeKind::Tree {
        let path = shell_word(&args.run.display().to_string());
        let failure = Failure::new(format!("showing a run found a folder of runs: {:?}", args.run));
        return Err(failure.hint(format!("list the runs: dwell ls {path}")).into());
    }
    let run = RunDir::open(&args.run).map_err(hinted)?;
    warn_of_changed_files(&run, FilesRead::Tables);
    let summary = step("computing the metrics", || RunSummary::load(&run)).map_err(hinted)?;
    // As it was typed, which is how `dwell run` shows it.
    let run_dir = as_typed(args);
    let report = summary.report.as_ref().and_then(|report| report.file_name()).map(|name| run_dir.join(name));
    let summary = RunSummary { run_dir, report, ..summary };
    if args.json {
        super::print_json(&summary)?;
    } else {
        print_result(&summary_text(&summary, width_chars()))?;
        print_hints(&summary.failure_hints);
    }
    Ok(ExitCode::SUCCESS)
}

/// Without the slash that a shell completes.
fn as_typed(args: &ShowArgs) -> PathBuf {
    args.run.components().collect()
}
