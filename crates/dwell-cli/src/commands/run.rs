//! `dwell run`: runs a model in a worker and leaves a run directory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dwell_build::{BuildListener, BuildSetup, BuiltRun, build_run};
use dwell_events::CollectorName;
use dwell_files::FileError;
use dwell_metadata::{RunRequest, UntracedRun};
use dwell_record::{RecordListener, record_run};
use dwell_report::text::summary_text;
use dwell_report::{LossSummary, RUN_VIEWS, RunSummary};
use dwell_store::{RunDir, StoreError, new_run_id};

use crate::args::RunArgs;
use crate::collector_choice::{Watched, choose_collectors};
use crate::engine_model::EngineModel;
use crate::interruption::Interruption;
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted, print_hints};
use crate::output::{is_quiet, print_result, say, step, unprinted, width_chars};
use crate::run_request;
use crate::terminal::Terminal;

/// Added to the name of a run for the one that is not recorded.
const UNTRACED_SUFFIX: &str = "-untraced";

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    if let Some(config) = &args.config {
        return super::experiment::run(args, config);
    }
    let interruption = Interruption::listen()?;
    let actions = run_request::actions(args)?;
    let model = step("choosing the model", || EngineModel::choose(args))?;
    let results = args.output.clone().unwrap_or_else(|| PathBuf::from("results"));
    let watched = Watched { engine: args.engine, server: Some(&args.server), results: &results };
    let collectors = choose_collectors(&args.watching, &watched)?;
    let mut request = run_request::request(args, actions, &model, collectors);
    let run_id = args.run_id.clone().unwrap_or_else(new_run_id);
    let one = OneRun {
        results: &results,
        is_quiet: args.json || is_quiet(),
        model_name: model.name_shown(),
        tokens_max: args.generation.max_tokens,
        interruption: &interruption,
    };
    if args.measure_slowdown {
        request.untraced = Some(one.run_untraced(&request, &format!("{run_id}{UNTRACED_SUFFIX}"))?);
    }
    print_summary(&one.run(&request, &run_id)?, args.json)
}

/// What to do if the directory of a run exists.
pub(super) const OTHER_RUN_ID: &str = "choose another run id: --run-id ID";

/// What the runs of a command share.
struct OneRun<'a> {
    results: &'a Path,
    is_quiet: bool,
    model_name: String,
    tokens_max: u32,
    interruption: &'a Interruption,
}

impl OneRun<'_> {
    fn run(&self, request: &RunRequest, run_id: &str) -> anyhow::Result<BuiltRun> {
        let make = || create_run_dir(self.results, &request.model_id, run_id);
        let run = self.interruption.recording_begins(make)?;
        let terminal = Terminal::new(self.is_quiet, &self.model_name, self.tokens_max.into());
        let mut terminal = match request.job.engine.is_embedded() {
            true => terminal.asking_for_context(request.job.options.context_length),
            false => terminal,
        };
        let built = record_and_build(&run, request, self.interruption, &mut terminal);
        terminal.finish();
        built
    }

    /// Runs the same without recording accesses.
    fn run_untraced(&self, request: &RunRequest, run_id: &str) -> anyhow::Result<UntracedRun> {
        if !self.is_quiet {
            say(format_args!("measuring the slowdown: first running without recording, as {run_id}\n"));
        }
        let mut request = request.clone();
        request.collectors = request.collectors.without(CollectorName::TENSOR_OPS);
        request.substitutes.retain(|substitute| substitute.collector != CollectorName::TENSOR_OPS.name());
        let built = self.run(&request, run_id)?;
        let generation = built.metadata.generation;
        Ok(UntracedRun {
            run_id: run_id.to_owned(),
            prompt_tokens_per_s: generation.and_then(|generation| generation.prompt_tokens_per_s),
            decode_tokens_per_s: generation.and_then(|generation| generation.decode_tokens_per_s),
        })
    }
}

/// Records a run and makes its tables.
pub(super) fn record_and_build<L: RecordListener + BuildListener>(
    run: &RunDir,
    request: &RunRequest,
    interruption: &Interruption,
    listener: &mut L,
) -> anyhow::Result<BuiltRun> {
    let recorded = step("recording", || record_run(run, request, interruption.is_requested(), listener));
    let facts = recorded
        .inspect_err(|error| {
            if !error.leaves_a_run() {
                run.discard();
            }
        })
        .map_err(hinted)?;
    interruption.building_begins(run.path(), facts.is_interrupted);
    step("making tables and metrics", || build_run(run, &BuildSetup::drawing(&RUN_VIEWS), listener)).map_err(hinted)
}

pub(super) fn create_run_dir(results: &Path, model_id: &str, run_id: &str) -> Result<RunDir, Failure> {
    RunDir::create(results, model_id, run_id).map_err(|error| {
        let failure = Failure::from_hinted(&error);
        match error {
            StoreError::File(FileError::Exists { .. }) => failure.hint(OTHER_RUN_ID),
            StoreError::UnusableName { .. } => failure,
            _ => failure.hint("choose a folder that can be written to with `-o DIR`"),
        }
    })
}

/// Prints what a finished run says. Exit code 1 tells that something is missing from it.
pub(crate) fn print_summary(built: &BuiltRun, is_json: bool) -> anyhow::Result<ExitCode> {
    let losses = built.losses.iter().map(LossSummary::from).collect();
    let summary = RunSummary::new(&built.path, &built.metadata, &built.metrics, losses);
    let printed = if is_json {
        super::print_json(&summary)
    } else {
        // Keeps the summary apart from the text before it, on a terminal that shows both.
        say(format_args!("\n"));
        print_result(&summary_text(&summary, width_chars()))
    };
    printed.map_err(|error| unprinted(&error, &built.path))?;
    if !is_json {
        print_hints(&summary.failure_hints);
    }
    Ok(if built.is_partial { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}
