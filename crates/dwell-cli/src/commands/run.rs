//! `dwell run`: runs a model in a worker and leaves a run directory.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use dwell_events::engine::{Action, EngineOptions, Job, TimeResolution};
use dwell_gguf::GgufFile;
use dwell_run::{BuildOptions, BuiltRun, RunError, RunRequest, build_run, record_run};
use dwell_store::{RunDir, new_run_id};

use crate::args::{AutoSwitch, CollectorArg, EngineArg, ResolutionArg, RunArgs};
use crate::messages::{EXIT_WITH_LOSS, Failure, hinted};
use crate::model_cache::{self, Model};
use crate::summary_text;
use crate::terminal::Terminal;

/// Asks for some hundred tokens of plain text.
const DEFAULT_PROMPT: &str = "Explain, step by step, how a refrigerator keeps food cold.";

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let EngineArg::LlamaCpp = args.engine;
    let interrupted = interruption_flag()?;
    let model = model_cache::resolve(args.model.as_deref())?;
    let file = GgufFile::open(&model.path).map_err(hinted)?;
    let request = request(args, &model, &file)?;
    let run_id = args.run_id.clone().unwrap_or_else(new_run_id);
    let run = RunDir::create(&args.output, &model.id, &run_id).map_err(hinted)?;
    let mut terminal = Terminal::new(args.json);
    let result = record_run(&run, &request, &interrupted, &mut terminal).and_then(|()| {
        let options = BuildOptions { analysis: args.metrics.options(), ..BuildOptions::default() };
        build_run(&run, &options, &mut terminal)
    });
    terminal.finish();
    match result {
        Ok(built) => print_summary(&built, args.json),
        Err(error) => {
            if matches!(error, RunError::Engine { .. } | RunError::WorkerDied { .. } | RunError::Spawn { .. }) {
                // Nothing was computed, so there is nothing to keep.
                let _ = std::fs::remove_dir_all(run.path());
            }
            Err(hinted(error))
        }
    }
}

/// Prints what a finished run says. Exit code 1 tells that something is missing from it.
pub(crate) fn print_summary(built: &BuiltRun, is_json: bool) -> anyhow::Result<ExitCode> {
    if is_json {
        super::print_json(&built.summary)?;
    } else {
        print!("{}", summary_text::summary(&built.summary));
    }
    Ok(if built.is_partial { ExitCode::from(EXIT_WITH_LOSS) } else { ExitCode::SUCCESS })
}

/// Set by Ctrl-C. The worker gets the signal too and ends by itself; the observer then builds what there is.
fn interruption_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, flag.clone()).context("setting the signal handler")?;
    }
    Ok(flag)
}

fn request(args: &RunArgs, model: &Model, file: &GgufFile) -> anyhow::Result<RunRequest> {
    Ok(RunRequest {
        job: Job { options: engine_options(args, model, file), actions: actions(args)? },
        model_id: model.id.clone(),
        is_traced: args.collect.contains(&CollectorArg::TensorOps),
        sample_interval: Duration::from_millis(args.sample_interval_ms),
        command_line: std::env::args().collect(),
    })
}

fn engine_options(args: &RunArgs, model: &Model, file: &GgufFile) -> EngineOptions {
    let has_template = file.text("tokenizer.chat_template").is_some();
    EngineOptions {
        model: model.path.clone(),
        context_length: args.context_length,
        threads: args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u32)),
        batch_size: args.batch_size,
        micro_batch_size: args.micro_batch_size.min(args.batch_size),
        parallel: args.parallel,
        kv_unified: args.kv_unified,
        kv_type_k: args.kv_type_k.unwrap_or(args.kv_type).kv_type(),
        kv_type_v: args.kv_type_v.unwrap_or(args.kv_type).kv_type(),
        flash_attention: args.flash_attention.is_on(),
        mmap: args.mmap.is_on(),
        repack: args.repack.is_on(),
        full_window_cache: args.full_window_cache,
        context_shift: args.context_shift,
        seed: args.seed,
        temperature: args.temperature,
        chat_template: match args.chat_template {
            AutoSwitch::Auto => has_template,
            AutoSwitch::On => true,
            AutoSwitch::Off => false,
        },
        ignore_end: args.ignore_end,
        time_resolution: match args.time_resolution {
            ResolutionArg::Step => TimeResolution::Step,
            ResolutionArg::Layer => TimeResolution::Layer,
            ResolutionArg::Op => TimeResolution::Op,
        },
    }
}

/// One prompt and what follows it, or the actions of a file.
fn actions(args: &RunArgs) -> anyhow::Result<Vec<Action>> {
    let Some(path) = &args.actions else {
        let sequences: Vec<i32> = (0..args.parallel as i32).collect();
        return Ok(vec![
            Action::Prompt { text: prompt(args)?, sequences: sequences.clone() },
            Action::Generate { max_tokens: args.max_tokens, sequences },
        ]);
    };
    let unreadable = |reason: String| {
        let failure = Failure::new(format!("reading the actions failed with {reason}: {path:?}"));
        failure.hint(r#"an action looks like {"do": "generate", "max_tokens": 8, "sequences": [0]}"#)
    };
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    Ok(serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?)
}

fn prompt(args: &RunArgs) -> anyhow::Result<String> {
    match (&args.prompt, &args.prompt_file) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(path)) if path == Path::new("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("reading the prompt from standard input")?;
            Ok(text)
        }
        (None, Some(path)) => std::fs::read_to_string(path).map_err(|error| {
            let failure = Failure::new(format!("reading the prompt failed with {error}: {path:?}"));
            failure.hint("give a file of UTF-8 text, or the text itself with --prompt").into()
        }),
        (None, None) => Ok(DEFAULT_PROMPT.to_owned()),
    }
}
