//! Arguments of everything that generates text: model, prompt, engine.

use std::path::PathBuf;

use clap::Args;
use dwell_events::engine::KvType;

use super::{AutoSwitch, Switch, one_of};

#[derive(Args)]
pub(crate) struct GenerationArgs {
    /// GGUF file, or the name of a model that `dwell model pull` or the server knows. Default: smollm2.
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) model: Option<PathBuf>,
    /// Text to continue or to answer. Default: a question about refrigerators.
    #[arg(long, conflicts_with = "prompt_file")]
    pub(crate) prompt: Option<String>,
    /// File with the prompt; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt_file: Option<PathBuf>,
    /// Tokens that the prompt has, template included: its text is repeated or cut to this length. Default: as it is.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) prompt_tokens: Option<u32>,
    /// Most tokens to generate, per sequence.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_tokens: u32,
    /// Positions in the KV cache, over all sequences; llama.cpp rounds up to 256.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub(crate) context_length: u32,
    /// Threads that compute prompts and tokens, 1 to 512. Default: one per processor.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<u32>,
    /// Most tokens computed in one graph.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) micro_batch_size: u32,
    /// Type of keys and values in the cache.
    #[arg(long, value_parser = one_of(KvType::NAMES, KvType::from_name), default_value = "f16")]
    pub(crate) kv_type: KvType,
    /// Type of the keys, if it is to differ.
    #[arg(long, value_parser = one_of(KvType::NAMES, KvType::from_name))]
    pub(crate) kv_type_k: Option<KvType>,
    /// Type of the values, if it is to differ.
    #[arg(long, value_parser = one_of(KvType::NAMES, KvType::from_name))]
    pub(crate) kv_type_v: Option<KvType>,
    /// Compute attention as one fused operation; quantised values need it.
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) flash_attention: Switch,
    /// Map weights from the file rather than reading them into memory.
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) mmap: Switch,
    /// Let the engine rearrange weights of some types at load for faster kernels.
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) repack: Switch,
    /// Give sliding-window layers a cache of the full context length.
    #[arg(long)]
    pub(crate) full_window_cache: bool,
    /// Seed of the sampler; sequence n draws with seed + n.
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
}
