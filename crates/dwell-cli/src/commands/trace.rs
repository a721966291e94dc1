//! `dwell trace`: records any command that computes with ggml as a shared library.

use std::path::Path;
use std::process::ExitCode;

use dwell_build::BuildListener;
use dwell_events::engine::{EngineEvent, EngineKind, EngineOptions, Job};
use dwell_events::server::ServerOptions;
use dwell_record::RecordListener;
use dwell_store::new_run_id;

use crate::args::TraceArgs;
use crate::collector_choice::{Watched, choose_collectors};
use crate::interruption::Interruption;
use crate::messages::{EXIT_WITH_LOSS, Failure};
use crate::output::is_quiet;
use crate::terminal::Terminal;
use crate::{model_cache, model_file, run_request};

use super::run::{create_run_dir, print_summary, record_and_build};

pub(crate) fn run(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    let interruption = Interruption::listen()?;
    run_request::check_watching(&args.watching)?;
    run_request::check_recorder(&args.watching, EngineKind::Command, false)?;
    let (job, model_id) = (job(args)?, model_id(args)?);
    let watched = Watched { engine: EngineKind::Command, server: None, results: &args.output };
    let collectors = choose_collectors(&args.watching, &watched)?;
    let request = run_request::watched_job(job, model_id, collectors, &args.watching, &args.metrics);
    let run_id = args.run_id.clone().unwrap_or_else(new_run_id);
    let run = interruption.tracing_begins(|| create_run_dir(&args.output, &request.model_id, &run_id))?;
    let mut terminal = CommandTerminal { terminal: Terminal::new(args.json, "", 0), interruption: &interruption };
    let built = record_and_build(&run, &request, &interruption, &mut terminal);
    terminal.terminal.finish();
    let built = built?;
    match is_quiet() && !args.json {
        true if built.is_partial => Ok(ExitCode::from(EXIT_WITH_LOSS)),
        true => Ok(ExitCode::SUCCESS),
        false => print_summary(&built, args.json),
    }
}

/// The command as a job.
fn job(args: &TraceArgs) -> anyhow::Result<Job> {
    if args.command.first().is_none_or(|program| program.is_empty()) {
        let failure = Failure::new("reading the command: its first word is empty, the name of a program is needed");
        return Err(failure.hint("dwell trace -- python3 script.py").into());
    }
    let mut words = args.command.iter();
    let program = words.next().map(Into::into);
    let arguments = words.map(|word| {
        // Jobs are JSON, which has no other text.
        let failure = || Failure::new(format!("reading the command: an argument that is not UTF-8: {word:?}"));
        word.to_str().map(str::to_owned).ok_or_else(failure)
    });
    let arguments = arguments.collect::<Result<Vec<String>, Failure>>()?;
    let model = args.model.clone().unwrap_or_default();
    if args.model.is_some() {
        model_file::open_to_run(&model)?;
    }
    let model = if args.model.is_some() { std::path::absolute(&model)? } else { model };
    Ok(Job {
        engine: EngineKind::Command,
        server: ServerOptions { program, arguments, ..ServerOptions::default() },
        options: EngineOptions { time_resolution: args.watching.time_resolution, ..EngineOptions::new(model) },
        actions: Vec::new(),
    })
}

/// The folder of the run: by the given name, the model's file, or the program.
fn model_id(args: &TraceArgs) -> anyhow::Result<String> {
    if let Some(id) = &args.model_id {
        return Ok(id.clone());
    }
    let named_by = match &args.model {
        Some(file) => file.file_stem(),
        None => args.command.first().and_then(|program| Path::new(program).file_name()),
    };
    Ok(model_cache::id_of_name(&named_by.unwrap_or_default().to_string_lossy()))
}

/// Shows a traced command, and lets signals reach it.
struct CommandTerminal<'a> {
    terminal: Terminal,
    interruption: &'a Interruption,
}

impl RecordListener for CommandTerminal<'_> {
    fn engine_event(&mut self, event: &EngineEvent) {
        match event {
            EngineEvent::ProcessFound { pid, .. } => self.interruption.command_runs(*pid),
            EngineEvent::ProgramEnded { .. } => self.interruption.command_ended(),
            _ => self.terminal.engine_event(event),
        }
    }
}

impl BuildListener for CommandTerminal<'_> {
    fn building(&mut self, done: f64) {
        self.terminal.building(done);
    }
}
