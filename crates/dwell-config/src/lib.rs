//! An experiment as a file: keys, checks, translation from mrm-trace, the list of runs, prompts. No I/O.
//!
//! [`parse`] takes the text of a file and gives an [`Experiment`] or everything that is wrong with it. What a key
//! takes, its default and its effect are in one table, [`keys`], which the checks, [`json_schema`] and the
//! documentation follow.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod builtin_prompts;
mod check;
mod experiment;
mod key_table;
mod keys;
mod mrm_trace;
mod parse;
mod plan;
mod problem;
mod prompts;
mod rules;
mod schema;
mod server;
mod server_rules;
mod values;
mod yaml;

pub use experiment::{
    AnalyserConfig, CollectorsConfig, Experiment, LabellerConfig, ModelConfig, OutputConfig, ProcessConfig,
    PromptsConfig, Sweep, TelemetryConfig, TensorOpsConfig, ThresholdsConfig,
};
pub use key_table::keys;
pub use keys::{DefaultValue, Key, Kind, ListRule};
pub use parse::{Parsed, parse};
pub use plan::{Combination, MOST_RUNS, Plan, PlanError, PlannedKind, PlannedRun};
pub use problem::{ConfigError, Note, Problem};
pub use prompts::{PromptError, PromptItem, actions, builtin_prompts, parse_prompts, prompt_keys, select};
pub use rules::CONTEXT_GRAIN;
pub use schema::json_schema;
pub use server::{KvEventsConfig, ServerConfig};
pub use values::{Dtype, Figures};
