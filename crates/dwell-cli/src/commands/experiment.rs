//! `dwell run --config`: every run of an experiment.

use std::path::Path;
use std::process::ExitCode;

use dwell_experiment::{ExperimentDir, ExperimentError, ExperimentSummary, Resumable, Setup, execute};
use dwell_report::text::count;

use super::analyse_tree::include_command;
use crate::args::{RunArgs, exclusion_reason};
use crate::experiment_file::{ExperimentFile, ReadOptions};
use crate::experiment_view::ExperimentView;
use crate::interruption::Interruption;
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted, print_hints};
use crate::output::{print_result, say, step, unprinted};
use crate::run_request::command_line;
use crate::shell::shell_word;

pub(crate) fn run(args: &RunArgs, config: &Path) -> anyhow::Result<ExitCode> {
    let interruption = Interruption::listen()?;
    let options = ReadOptions {
        config,
        results: args.output.as_deref(),
        may_fetch: true,
        measures_slowdown: args.measure_slowdown,
    };
    let file = step("reading and checking the experiment", || ExperimentFile::read(&options))?;
    if !args.json || !file.is_runnable() {
        file.say_findings();
    }
    let (setup, collectors, _) = file.into_parts()?;
    let resume_command = resume_command(args, config);
    let summary = match open_dir(&setup, args)? {
        Opened::Finished(summary) => *summary,
        Opened::Begun(dir) => {
            interruption.experiment_begins(&resume_command);
            let mut view = ExperimentView::new(args.json);
            let summary = execute(&setup, &dir, &collectors, &command_line(), interruption.is_requested(), &mut view);
            view.finish();
            summary.map_err(|error| stopped(&error, &resume_command))?
        }
    };
    let not_printed = |error| unprinted(&error, &summary.dir);
    if args.json {
        super::print_json(&summary).map_err(not_printed)?;
    } else {
        print_result(&summary_text(&summary)).map_err(not_printed)?;
        if summary.finished < summary.planned {
            print_hints(&[format!("do what is missing with `{resume_command}`")]);
        }
    }
    if summary.is_without_counting_runs() {
        return Err(nothing_counts(&summary, &setup.results).into());
    }
    Ok(if summary.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_WITH_LOSS) })
}

/// An experiment that had to stop; what is done is kept.
fn stopped(error: &ExperimentError, resume_command: &str) -> Failure {
    let failure = Failure::from_hinted(error);
    match error {
        ExperimentError::DiskFull { .. } => failure.hint(format!("then resume: {resume_command}")),
        _ => failure,
    }
}

/// An experiment without a run that counts has no figures, though every run was done.
fn nothing_counts(summary: &ExperimentSummary, results: &Path) -> Failure {
    let message = format!("no run of the experiment counts, so summary.csv is empty: {}", summary.exclusions);
    let failure = Failure::new(message).after_the_work();
    let reasons = summary.excluded.keys().filter_map(|name| exclusion_reason(name).ok());
    let results = results.display().to_string();
    let analyse = ["dwell", "analyse", &results, "--experiment", &summary.id].map(str::to_owned);
    include_command(&analyse, reasons).into_iter().fold(failure, Failure::hint)
}

/// The command that goes on with what this one began.
fn resume_command(args: &RunArgs, config: &Path) -> String {
    let quoted = |path: &Path| shell_word(&path.display().to_string());
    let mut command = format!("dwell run --config {} --resume", quoted(config));
    if let Some(output) = &args.output {
        command.push_str(&format!(" --output {}", quoted(output)));
    }
    if args.measure_slowdown {
        command.push_str(" --measure-slowdown");
    }
    command
}

enum Opened {
    /// An execution to go on with, or a new one.
    Begun(ExperimentDir),
    /// There is nothing left to do.
    Finished(Box<ExperimentSummary>),
}

fn open_dir(setup: &Setup, args: &RunArgs) -> anyhow::Result<Opened> {
    if args.resume {
        match ExperimentDir::find(setup).map_err(hinted)? {
            Resumable::Unfinished(dir) => return Ok(Opened::Begun(dir)),
            Resumable::Finished { summary } => {
                say(format_args!("nothing to resume: all runs are done\n"));
                return Ok(Opened::Finished(summary));
            }
            Resumable::Nothing => say(format_args!("note: nothing to resume; the experiment begins\n")),
        }
    }
    ExperimentDir::create(setup, &command_line()).map(Opened::Begun).map_err(hinted)
}

fn summary_text(summary: &ExperimentSummary) -> String {
    let number = |runs: usize| count(runs as u64);
    let are_done = if summary.planned == 1 { "run is done" } else { "runs are done" };
    let mut text = format!("{} of {} {are_done}", number(summary.finished), number(summary.planned));
    if summary.already_finished > 0 {
        text.push_str(&format!(", {} of them before", number(summary.already_finished)));
    }
    if summary.partial > 0 {
        text.push_str(&format!(", {} partial", number(summary.partial)));
    }
    if summary.is_interrupted {
        text.push_str("; interrupted");
    }
    text.push('\n');
    for failed in &summary.failed {
        text.push_str(&format!("failed  {}/{}: {}\n", failed.model_id, failed.run_id, failed.message));
    }
    // If no run counts, the error says so and why.
    if !summary.exclusions.is_empty() && !summary.is_without_counting_runs() {
        text.push_str(&format!("{}\n", summary.exclusions));
    }
    text.push_str(&format!("{}\n", summary.dir.display()));
    text
}
