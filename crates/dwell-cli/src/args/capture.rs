//! Arguments of `dwell capture`.

use std::path::PathBuf;

use clap::Args;
use dwell_capture::CapturedPhase;
use dwell_tensors::Pressure;

use super::values::byte_count;
use super::{GenerationArgs, one_of};

#[derive(Args)]
pub(crate) struct CaptureArgs {
    #[command(flatten)]
    pub(crate) generation: GenerationArgs,
    /// Tensor stream to write; its folder must exist.
    #[arg(short, long, value_name = "FILE", required_unless_present = "list")]
    pub(crate) output: Option<PathBuf>,
    /// Tensors to capture: groups (residual, attention, mlp, logits) or globs on the names of --list.
    #[arg(long, value_name = "GROUP|GLOB", num_args = 1.., value_delimiter = ',', default_value = "residual")]
    pub(crate) tensors: Vec<String>,
    /// Only these layers, such as `0,5-8`; does not affect tensors without a layer. Default: all.
    #[arg(long, value_name = "LAYERS")]
    pub(crate) layers: Option<String>,
    /// Steps to capture: the prompt, decoded tokens, or both.
    #[arg(long, value_parser = one_of(CapturedPhase::NAMES, CapturedPhase::from_name), default_value = "all")]
    pub(crate) phase: CapturedPhase,
    /// Capture every N-th step; step 0 is the prompt, step n the n-th decoded token.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) every: u64,
    /// Part of each tensor, in numpy syntax, outermost dimension first: `:, ::4`.
    #[arg(long, value_name = "SLICE", allow_hyphen_values = true, default_value = ":")]
    pub(crate) slice: String,
    /// Compute the last layer and the logits for every position of the prompt, not only the last.
    #[arg(long)]
    pub(crate) all_positions: bool,
    /// Codec: none, lz4, zstd, zstd:1 to zstd:19, float, bounded:abs:X, :range:X, :mse:X, :nmse:X.
    #[arg(long, value_name = "CODEC", default_value = "float")]
    pub(crate) codec: String,
    /// Policy if tensors arrive faster than the disk can write.
    #[arg(long, value_parser = one_of(Pressure::NAMES, Pressure::from_name), default_value = "block")]
    pub(crate) pressure: Pressure,
    /// Memory limit for tensors not yet written.
    #[arg(long, value_name = "BYTES", value_parser = byte_count, default_value = "1GiB")]
    pub(crate) max_memory: u64,
    /// Tokens between checkpoints. Default: no checkpoints.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) checkpoint_every: Option<u64>,
    /// Resume an interrupted capture from its last checkpoint, or start one.
    #[arg(long, conflicts_with = "force")]
    pub(crate) resume: bool,
    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
    /// List the tensors of the model and exit.
    #[arg(long)]
    pub(crate) list: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
