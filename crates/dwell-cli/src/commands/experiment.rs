//! `dwell run --config`: every run of an experiment.

use std::path::Path;
use std::process::ExitCode;

use dwell_experiment::{ExperimentDir, ExperimentSummary, Resumable, Setup, execute};

use crate::args::RunArgs;
use crate::experiment_file::{ExperimentFile, ReadOptions};
use crate::experiment_view::ExperimentView;
use crate::format::count;
use crate::interruption::Interruption;
use crate::messages::{EXIT_WITH_LOSS, hinted, print_hints};
use crate::output::{print_result, say};
use crate::run_request::command_line;

pub(crate) fn run(args: &RunArgs, config: &Path) -> anyhow::Result<ExitCode> {
    let interruption = Interruption::listen()?;
    let file = ExperimentFile::read(&ReadOptions {
        config,
        results: args.output.as_deref(),
        may_fetch: true,
        measures_slowdown: args.measure_slowdown,
    })?;
    if !args.json || !file.is_runnable() {
        file.say_findings();
    }
    let (setup, collectors, _) = file.into_parts()?;
    let Some(dir) = open_dir(&setup, args.resume)? else { return Ok(ExitCode::SUCCESS) };
    interruption.experiment_begins(&resume_command(config));
    let mut view = ExperimentView::new(args.json);
    let summary = execute(&setup, &dir, &collectors, &command_line(), interruption.is_requested(), &mut view);
    view.finish();
    let summary = summary.map_err(hinted)?;
    if args.json {
        super::print_json(&summary)?;
    } else {
        print_result(&summary_text(&summary))?;
        if summary.finished < summary.planned {
            print_hints(&[format!("do what is missing with `{}`", resume_command(config))]);
        }
    }
    Ok(if summary.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WITH_LOSS) })
}

fn resume_command(config: &Path) -> String {
    format!("dwell run --config '{}' --resume", config.display())
}

/// The execution to go on with, or a new one. None if there is nothing left to do.
fn open_dir(setup: &Setup, is_resumed: bool) -> anyhow::Result<Option<ExperimentDir>> {
    if is_resumed {
        match ExperimentDir::find(setup).map_err(hinted)? {
            Resumable::Unfinished(dir) => return Ok(Some(dir)),
            Resumable::Finished { dir } => {
                say(format_args!("nothing to resume: all runs are done\n"));
                print_result(&format!("{}\n", dir.display()))?;
                return Ok(None);
            }
            Resumable::Nothing => say(format_args!("note: nothing to resume; the experiment begins\n")),
        }
    }
    ExperimentDir::create(setup, &command_line()).map(Some).map_err(hinted)
}

fn summary_text(summary: &ExperimentSummary) -> String {
    let number = |runs: usize| count(runs as u64);
    let mut text = format!("{} of {} runs are done", number(summary.finished), number(summary.planned));
    if summary.already_finished > 0 {
        text.push_str(&format!(", {} of them before", number(summary.already_finished)));
    }
    if summary.partial > 0 {
        text.push_str(&format!(", {} are partial", number(summary.partial)));
    }
    if summary.is_interrupted {
        text.push_str("; interrupted");
    }
    text.push('\n');
    for failed in &summary.failed {
        text.push_str(&format!("failed  {}/{}: {}\n", failed.model_id, failed.run_id, failed.message));
    }
    if !summary.exclusions.is_empty() {
        text.push_str(&format!("{}\n", summary.exclusions));
    }
    text.push_str(&format!("{}\n", summary.dir.display()));
    text
}
