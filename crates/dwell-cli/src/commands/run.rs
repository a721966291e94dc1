//! `dwell run`: runs a model in a worker and leaves a run directory.

use std::process::ExitCode;

use dwell_run::{BuildOptions, BuiltRun, RunError, RunRequest, build_run, discard_run, record_run};
use dwell_store::{RunDir, StoreError, new_run_id};

use crate::args::{EngineArg, RunArgs};
use crate::interruption::Interruption;
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted, print_hints};
use crate::output::{print_result, say};
use crate::terminal::Terminal;
use crate::{model_cache, model_file, run_request, summary_text};

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let EngineArg::LlamaCpp = args.engine;
    let interruption = Interruption::listen()?;
    let actions = run_request::actions(args)?;
    let model = model_cache::resolve(args.model.as_deref())?;
    let file = model_file::open_to_run(&model.path)?;
    let request = run_request::request(args, actions, &model, &file);
    let run = create_run_dir(args, &model.id)?;
    let mut terminal = Terminal::new(args.json, args.max_tokens.into());
    let built = record_and_build(args, &run, &request, &interruption, &mut terminal);
    terminal.finish();
    print_summary(&built.map_err(hinted)?, args.json)
}

fn create_run_dir(args: &RunArgs, model_id: &str) -> Result<RunDir, Failure> {
    let run_id = args.run_id.clone().unwrap_or_else(new_run_id);
    RunDir::create(&args.output, model_id, &run_id).map_err(|error| {
        let failure = Failure::from_hinted(&error);
        match error {
            StoreError::Exists { .. } | StoreError::UnusableName { .. } => failure,
            _ => failure.hint("choose a folder that can be written to with `-o DIR`"),
        }
    })
}

fn record_and_build(
    args: &RunArgs,
    run: &RunDir,
    request: &RunRequest,
    interruption: &Interruption,
    terminal: &mut Terminal,
) -> Result<BuiltRun, RunError> {
    interruption.recording_begins(run.path());
    let facts = record_run(run, request, interruption.is_requested(), terminal).inspect_err(|error| {
        if !error.leaves_a_run() {
            discard_run(run);
        }
    })?;
    interruption.building_begins(run.path(), facts.is_interrupted);
    build_run(run, &BuildOptions { analysis: args.metrics.options() }, terminal)
}

/// Prints what a finished run says. Exit code 1 tells that something is missing from it.
pub(crate) fn print_summary(built: &BuiltRun, is_json: bool) -> anyhow::Result<ExitCode> {
    if is_json {
        super::print_json(&built.summary)?;
    } else {
        // Keeps the summary apart from the text before it, on a terminal that shows both.
        say(format_args!("\n"));
        print_result(&summary_text::summary(&built.summary))?;
        print_hints(&built.summary.failure_hints);
    }
    Ok(if built.is_partial { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}
