//! Arguments of `dwell run`.

use std::path::PathBuf;

use clap::Args;
use dwell_events::Definitions;
use dwell_events::engine::EngineKind;

use super::{GenerationArgs, ServerArgs, WatchingArgs, one_of};

/// What an experiment file says itself, or names itself.
const SINGLE_RUN_OPTIONS: [&str; 55] = [
    "engine",
    "model",
    "prompt",
    "prompt_file",
    "prompt_tokens",
    "actions",
    "max_tokens",
    "context_length",
    "threads",
    "batch_size",
    "micro_batch_size",
    "parallel",
    "kv_unified",
    "kv_type",
    "kv_type_k",
    "kv_type_v",
    "flash_attention",
    "mmap",
    "repack",
    "full_window_cache",
    "context_shift",
    "seed",
    "temperature",
    "chat_template",
    "ignore_end",
    "collect",
    "fallback",
    "time_resolution",
    "sample_interval_ms",
    "perf_period",
    "perf_ldlat",
    "baseline_secs",
    "sensor_interval_ms",
    "definitions",
    "high_write_once",
    "high_retention_secs",
    "medium_write_once",
    "medium_retention_secs",
    "at_tokens_per_sec",
    "run_id",
    "url",
    "program",
    "server_arg",
    "device",
    "server_pid",
    "model_name",
    "api",
    "api_key_env",
    "start",
    "ready_secs",
    "kv_events",
    "kv_events_replay",
    "kv_events_topic",
    "keep_token_ids",
    "kv_bytes_per_token",
];

/// How metrics are computed. What is not given stays as the run, or dwell, has it.
#[derive(Args)]
pub(crate) struct MetricsArgs {
    /// Definitions of the metrics. Default: dwell.
    #[arg(long, value_parser = one_of(Definitions::NAMES, Definitions::from_name))]
    pub(crate) definitions: Option<Definitions>,
    /// Lowest share of stored data that stays for the retention of class high_mrm. Default: 0.8.
    #[arg(long, value_name = "RATIO", value_parser = parse_ratio)]
    pub(crate) high_write_once: Option<f64>,
    /// Lowest retention p99 of class high_mrm, in seconds. Default: 10.
    #[arg(long, value_name = "SECS", value_parser = parse_retention_secs)]
    pub(crate) high_retention_secs: Option<f64>,
    /// Lowest share of stored data that stays for the retention of class medium_mrm. Default: 0.5.
    #[arg(long, value_name = "RATIO", value_parser = parse_ratio)]
    pub(crate) medium_write_once: Option<f64>,
    /// Lowest retention p50 of class medium_mrm, in seconds. Default: 1.
    #[arg(long, value_name = "SECS", value_parser = parse_retention_secs)]
    pub(crate) medium_retention_secs: Option<f64>,
    /// Decode speed of one sequence that converts steps to seconds for suitability. Default: 20.
    #[arg(long, value_name = "N", value_parser = parse_tokens_per_sec)]
    pub(crate) at_tokens_per_sec: Option<f64>,
}

/// Longest retention that a threshold may ask for, as in experiment files.
const RETENTION_MOST_SECS: f64 = 1e9;

fn parse_ratio(text: &str) -> Result<f64, String> {
    parse_within(text, 0.0..=1.0)
}

fn parse_retention_secs(text: &str) -> Result<f64, String> {
    parse_within(text, 0.0..=RETENTION_MOST_SECS)
}

/// Slowest and fastest pace that suitability may be asked at, as in experiment files.
const TOKENS_PER_SEC: std::ops::RangeInclusive<f64> = 1e-3..=1e6;

fn parse_tokens_per_sec(text: &str) -> Result<f64, String> {
    parse_within(text, TOKENS_PER_SEC)
}

fn parse_within(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    let is_within = range.contains(&number);
    if is_within { Ok(number) } else { Err(format!("it must be from {} to {}", range.start(), range.end())) }
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// Run every combination of this experiment file.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = SINGLE_RUN_OPTIONS)]
    pub(crate) config: Option<PathBuf>,
    /// Resume an interrupted experiment.
    #[arg(long, requires = "config")]
    pub(crate) resume: bool,
    /// Engine that runs the model.
    #[arg(long, value_parser = one_of(EngineKind::PROMPTED, EngineKind::from_name), default_value = "llama_cpp")]
    pub(crate) engine: EngineKind,
    #[command(flatten)]
    pub(crate) generation: GenerationArgs,
    /// JSON file with a list of actions (prompt, generate, remove, copy, shift), in place of one prompt.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "prompt_file", "prompt_tokens", "max_tokens"])]
    pub(crate) actions: Option<PathBuf>,
    /// Tokens given to the engine at once, at most.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub(crate) batch_size: u32,
    /// Sequences generated in parallel from the same prompt, 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) parallel: u32,
    /// Share one pool of KV cells among all sequences; else each has context length / parallel, rounded up to 256.
    #[arg(long)]
    pub(crate) kv_unified: bool,
    /// If the context is full, drop its older half and continue generating.
    #[arg(long)]
    pub(crate) context_shift: bool,
    #[command(flatten)]
    pub(crate) watching: WatchingArgs,
    /// Measure the slowdown: first do the same run without recording, as <RUN>-untraced.
    #[arg(long)]
    pub(crate) measure_slowdown: bool,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Results directory. Default: results, or that of the experiment file.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Name of the run; must not exist yet. Default: the time and random digits.
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    // Last, since its heading would go on over what comes behind it.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
