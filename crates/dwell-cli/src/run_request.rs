//! From the arguments of `dwell run` to what is to be done; what cannot be done is refused before anything starts.

use std::io::{ErrorKind, Read};
use std::path::Path;

use dwell_events::CollectorName;
use dwell_events::engine::{Action, EngineKind, EngineOptions, Job};
use dwell_events::server::{Api, ServerOptions};
use dwell_files::{WRITTEN_BY_HAND_MAX_BYTES, read_text_at_most};
use dwell_gguf::GgufFile;
use dwell_metadata::{BuildOptions, RunRequest};

use crate::args::{AutoSwitch, GenerationArgs, MetricsArgs, RunArgs, WatchingArgs};
use crate::collector_choice::{RunCollectors, kv_events, missing_recorder};
use crate::engine_model::{EngineModel, check_engine_options};
use crate::messages::Failure;
use crate::shell::shell_word;

/// Asks for some hundred tokens of plain text.
const DEFAULT_PROMPT: &str = "Explain, step by step, how a refrigerator keeps food cold.";

/// Longest look at the machine before a run.
const MOST_BASELINE_SECS: f64 = 600.0;

/// Sequences whose shares in a KV block are followed.
const MOST_SEQUENCES: u32 = 64;

/// The work that the arguments ask for, apart from the model.
///
/// It does not look at the model, so that a wrong argument is told before a model is fetched.
pub(crate) fn actions(args: &RunArgs) -> anyhow::Result<Vec<Action>> {
    check_options(args)?;
    check_engine_options(args)?;
    if let Some(path) = &args.actions {
        return actions_in(path);
    }
    let sequences: Vec<i32> = (0..args.parallel.cast_signed()).collect();
    Ok(vec![
        Action::Prompt {
            text: prompt(&args.generation)?,
            sequences: sequences.clone(),
            fill_to_tokens: args.generation.prompt_tokens,
        },
        Action::Generate { max_tokens: args.generation.max_tokens, sequences },
    ])
}

/// The request for these actions on a model.
pub(crate) fn request(
    args: &RunArgs,
    actions: Vec<Action>,
    model: &EngineModel,
    collectors: RunCollectors,
) -> RunRequest {
    let job =
        Job { engine: args.engine, server: server_options(args, model), options: run_options(args, model), actions };
    watched_job(job, model.id.clone(), collectors, &args.watching, &args.metrics)
}

/// The request for a job that is watched so.
pub(crate) fn watched_job(
    job: Job,
    model_id: String,
    collectors: RunCollectors,
    watching: &WatchingArgs,
    metrics: &MetricsArgs,
) -> RunRequest {
    RunRequest {
        job,
        model_id,
        collectors: collectors.used,
        baseline_ms: (watching.baseline_secs * 1000.0) as u64,
        sensor_interval_ms: watching.sensor_interval_ms,
        command_line: command_line(),
        build: BuildOptions { analysis: metrics.options(), ..BuildOptions::default() },
        experiment: None,
        fallbacks: collectors.fallbacks,
        refusals: collectors.refusals,
        substitutes: collectors.substitutes,
        untraced: None,
    }
}

/// As it was typed.
pub(crate) fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Refuses options that the engine does not check; it checks the others.
fn check_options(args: &RunArgs) -> Result<(), Failure> {
    if args.parallel == 0 || args.parallel > MOST_SEQUENCES {
        let found = args.parallel;
        let failure = Failure::new(format!(
            "checking the options: parallel is {found}, 1 to {MOST_SEQUENCES} are possible (sequences that are followed)"
        ));
        return Err(failure.hint(format!("--parallel {}", if found == 0 { 1 } else { MOST_SEQUENCES })));
    }
    check_watching(&args.watching)?;
    check_publisher(args)?;
    check_recorder(&args.watching, args.engine, args.server.url.is_some())?;
    check_temperature(&args.generation)
}

/// Refuses ways of watching that are none.
pub(crate) fn check_watching(args: &WatchingArgs) -> Result<(), Failure> {
    let found = args.baseline_secs;
    if !(0.0..=MOST_BASELINE_SECS).contains(&found) {
        let failure = Failure::new(format!(
            "checking the options: baseline-secs is {found}, 0 to {MOST_BASELINE_SECS} are possible"
        ));
        return Err(failure.hint("--baseline-secs 2, or 0 to leave it out"));
    }
    Ok(())
}

/// The collector of KV events listens to a publisher.
fn check_publisher(args: &RunArgs) -> Result<(), Failure> {
    let is_listening = args.watching.collect.has(CollectorName::KV_EVENTS);
    if !is_listening || args.server.kv_events.is_some() || !args.watching.fallback.is_empty() {
        return Ok(());
    }
    let message = "checking the options: the collector kv_events without the address of a publisher";
    Err(Failure::new(message).hint("--kv-events tcp://127.0.0.1:5557"))
}

/// Refuses to record accesses by name where the recorder's library is missing: the run would have none.
pub(crate) fn check_recorder(args: &WatchingArgs, engine: EngineKind, is_joined: bool) -> Result<(), Failure> {
    if !args.collect.is_named(CollectorName::TENSOR_OPS) || !args.fallback.is_empty() {
        return Ok(());
    }
    missing_recorder(engine, is_joined).map_or(Ok(()), |reason| {
        Err(Failure::new(format!("checking the options: {reason}"))
            .hint("build it with `cargo build --release -p dwell-preload` and put it beside dwell")
            .hint("or sample memory alone: --collect process"))
    })
}

/// The job is sent as JSON, which has no other numbers than finite ones.
pub(crate) fn check_temperature(args: &GenerationArgs) -> Result<(), Failure> {
    if !args.temperature.is_finite() || args.temperature < 0.0 {
        let found = args.temperature;
        let failure =
            Failure::new(format!("checking the options: temperature is {found}, a finite number from 0 is needed"));
        return Err(failure.hint("--temperature 0 for the likeliest token, 0.8 to draw"));
    }
    Ok(())
}

fn actions_in(path: &Path) -> anyhow::Result<Vec<Action>> {
    let refused = |reason: String| Failure::new(format!("reading the actions {reason}: {path:?}"));
    let text = read_text_at_most(path, WRITTEN_BY_HAND_MAX_BYTES)
        .map_err(|error| refused(format!("failed with {error}")).hint(check_path_hint(path)))?;
    let unfit = |reason: String| {
        refused(reason).hint(r#"an action looks like {"do": "generate", "max_tokens": 8, "sequences": [0]}"#)
    };
    let actions: Vec<Action> = serde_json::from_str(&text).map_err(|error| unfit(format!("failed with {error}")))?;
    if actions.is_empty() {
        return Err(unfit("found none, at least 1 is needed".to_owned()).into());
    }
    Ok(actions)
}

fn check_path_hint(path: &Path) -> String {
    format!("check the path: ls -l {}", shell_word(&path.display().to_string()))
}

/// The prompt that is asked for.
pub(crate) fn prompt(args: &GenerationArgs) -> Result<String, Failure> {
    let text = match (&args.prompt, &args.prompt_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => prompt_in(path).map_err(|error| {
            let failure = Failure::new(format!("reading the prompt failed with {error}: {path:?}"));
            match error.kind() {
                ErrorKind::NotFound => failure.hint(check_path_hint(path)),
                _ => failure.hint("give a file of UTF-8 text, or the text itself with --prompt"),
            }
        })?,
        (None, None) => DEFAULT_PROMPT.to_owned(),
    };
    if text.is_empty() {
        let failure = Failure::new("reading the prompt found no text, at least 1 character is needed");
        return Err(failure.hint("give a text with --prompt, or leave it out for the default one"));
    }
    Ok(text)
}

fn prompt_in(path: &Path) -> std::io::Result<String> {
    if path != Path::new("-") {
        return read_text_at_most(path, WRITTEN_BY_HAND_MAX_BYTES);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

fn server_options(args: &RunArgs, model: &EngineModel) -> ServerOptions {
    let server = &args.server;
    let (api, template) = asked_how(args, model);
    ServerOptions {
        url: server.url.clone(),
        program: server.program.clone(),
        arguments: server.server_arg.clone(),
        device: server.device,
        pid: server.server_pid,
        model_name: model.name.clone(),
        api,
        template,
        api_key_variable: server.api_key_env.clone(),
        start: server.start,
        ready_within_s: Some(server.ready_secs),
        kv_bytes_per_token: server.kv_bytes_per_token,
        kv_events: kv_events(server),
    }
}

/// How a server is asked, and the template that dwell fills for it.
///
/// As the embedded engine would ask: a model with a template is given it, filled by dwell, so that every engine computes the
/// same tokens. Where that cannot be, the server is asked for a chat and has its own template: a model that only the server
/// has is taken for one with a template.
fn asked_how(args: &RunArgs, model: &EngineModel) -> (Api, Option<String>) {
    let switch = args.generation.chat_template;
    let has_template = model.file.as_ref().is_none_or(has_chat_template);
    let is_wanted = match args.server.api {
        Some(Api::Chat) => return (Api::Chat, None),
        // The text as it is, unless the template is asked for by name.
        Some(Api::Completion) => switch == AutoSwitch::On,
        None => wants_template(switch, has_template),
    };
    if !is_wanted {
        return (Api::Completion, None);
    }
    // The embedded engine fills the template itself; a file that only tells a shape is not what the server runs.
    let is_filled_here = args.engine.profile().runs_model_file() && !args.engine.is_embedded();
    let template = model.file.as_ref().filter(|_| is_filled_here).and_then(chat_template);
    match template.filter(|template| dwell_worker::can_fill_template(template)) {
        Some(template) => (Api::Completion, Some(template.to_owned())),
        None => (args.server.api.unwrap_or(Api::Chat), None),
    }
}

fn chat_template(file: &GgufFile) -> Option<&str> {
    file.text("tokenizer.chat_template")
}

fn has_chat_template(file: &GgufFile) -> bool {
    chat_template(file).is_some()
}

fn wants_template(switch: AutoSwitch, has_template: bool) -> bool {
    match switch {
        AutoSwitch::Auto => has_template,
        AutoSwitch::On => true,
        AutoSwitch::Off => false,
    }
}

fn run_options(args: &RunArgs, model: &EngineModel) -> EngineOptions {
    EngineOptions {
        batch_size: args.batch_size,
        micro_batch_size: args.generation.micro_batch_size.min(args.batch_size),
        parallel: args.parallel,
        kv_unified: args.kv_unified,
        context_shift: args.context_shift,
        time_resolution: args.watching.time_resolution,
        ..engine_options(&args.generation, &model.path, model.file.as_ref())
    }
}

/// How the engine is set up for one sequence.
pub(crate) fn engine_options(args: &GenerationArgs, model: &Path, file: Option<&GgufFile>) -> EngineOptions {
    EngineOptions {
        context_length: args.context_length,
        threads: args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u32)),
        micro_batch_size: args.micro_batch_size,
        kv_type_k: args.kv_type_k.unwrap_or(args.kv_type),
        kv_type_v: args.kv_type_v.unwrap_or(args.kv_type),
        flash_attention: args.flash_attention.is_on(),
        mmap: args.mmap.is_on(),
        repack: args.repack.is_on(),
        full_window_cache: args.full_window_cache,
        seed: args.seed,
        temperature: args.temperature,
        chat_template: wants_template(args.chat_template, file.is_some_and(has_chat_template)),
        ignore_end: args.ignore_end,
        ..EngineOptions::new(model.to_owned())
    }
}
