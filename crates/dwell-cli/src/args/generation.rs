//! Arguments of everything that generates text: model, prompt, engine.

use std::path::PathBuf;

use clap::Args;
use dwell_events::engine::KvType;

use super::{AutoSwitch, Switch, one_of};

#[derive(Args)]
pub(crate) struct GenerationArgs {
    /// GGUF file, or a model name known to `dwell model pull` or the server. Default: smollm2.
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) model: Option<PathBuf>,
    /// Text of the prompt. Default: a question about refrigerators.
    #[arg(long, conflicts_with = "prompt_file")]
    pub(crate) prompt: Option<String>,
    /// File with the prompt; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt_file: Option<PathBuf>,
    /// Repeat or truncate the prompt to this many tokens, including the chat template. Default: no change.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) prompt_tokens: Option<u32>,
    /// Tokens to generate per sequence, at most.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_tokens: u32,
    /// Positions in the KV cache, for all sequences together; llama.cpp rounds up to 256.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub(crate) context_length: u32,
    /// Compute threads, 1 to 512. Default: one per processor.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<u32>,
    /// Tokens computed in one graph, at most.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) micro_batch_size: u32,
    /// Type of the KV cache.
    #[arg(long, value_parser = one_of(KvType::NAMES, KvType::from_name), default_value = "f16")]
    pub(crate) kv_type: KvType,
    /// Type of the keys, if different.
    #[arg(long, value_parser = one_of(KvType::NAMES, KvType::from_name))]
    pub(crate) kv_type_k: Option<KvType>,
    /// Type of the values, if different.
    #[arg(long, value_parser = one_of(KvType::NAMES, KvType::from_name))]
    pub(crate) kv_type_v: Option<KvType>,
    /// Compute attention as one fused operation; required for quantised values.
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) flash_attention: Switch,
    /// Map the weights from the file instead of reading them into memory.
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) mmap: Switch,
    /// Repack weights of some types for faster kernels when they are loaded.
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) repack: Switch,
    /// Allocate the full context length for sliding-window layers.
    #[arg(long)]
    pub(crate) full_window_cache: bool,
    /// Seed of the sampler; sequence n uses seed + n.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u32,
    /// Sampling temperature; 0 is greedy decoding.
    #[arg(long, value_name = "T", allow_negative_numbers = true, default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Wrap the prompt in the model's chat template; `auto`: if it has one.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) chat_template: AutoSwitch,
    /// Continue after the model's end-of-text token.
    #[arg(long)]
    pub(crate) ignore_end: bool,
}
