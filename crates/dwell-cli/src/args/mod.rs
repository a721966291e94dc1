//! What can be typed.

mod model;
mod results;
mod run;
mod values;

use clap::{Parser, Subcommand};

pub(crate) use model::{ArchitectureArg, InfoArgs, MakeArgs, ModelCommand, PullArgs, WeightTypeArg};
pub(crate) use results::{AnalyseArgs, RecoverArgs, VerifyArgs};
pub(crate) use run::{MetricsArgs, RunArgs};
pub(crate) use values::{AutoSwitch, CollectorArg, DefinitionsArg, EngineArg, KvTypeArg, ResolutionArg, Switch};

const EXAMPLES: &str = "\
Examples:
  # Run the default model, record every access, print what its bytes did
  dwell run

  # A model and prompt of your own, with an 8-bit KV cache
  dwell run --model model.gguf --prompt \"Once upon a time\" --kv-type q8_0 --max-tokens 256

  # The figures again, by the definitions of mrm-trace
  dwell analyse results/smollm2-135m-instruct.q4_1/<run> --definitions mrm-trace

  # A model without a network: random weights of a chosen shape
  dwell model make tiny.gguf --layers 2 --embedding 64 && dwell run --model tiny.gguf";

/// Shows how long every byte of a running language model lives, who reads it, and what should hold it.
#[derive(Parser)]
#[command(name = "dwell", version, after_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a model and record every access to its weights, KV cache and activations.
    Run(Box<RunArgs>),
    /// Compute the metrics of a finished run again, with other definitions or thresholds.
    Analyse(AnalyseArgs),
    /// Check every file of a run against its manifest.
    Verify(VerifyArgs),
    /// Finish a run that was killed: make its tables from what was recorded.
    Recover(RecoverArgs),
    /// Get, make and describe model files.
    Model {
        #[command(subcommand)]
        command: ModelCommand,
    },
    /// The process that runs the model; started by `dwell run`.
    #[command(hide = true)]
    Worker,
}
