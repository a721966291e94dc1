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
    /// Groups (residual, attention, mlp, logits) and globs on the names that --list prints.
    #[arg(long, value_name = "GROUP|GLOB", num_args = 1.., value_delimiter = ',', default_value = "residual")]
    pub(crate) tensors: Vec<String>,
    /// Tensors of these layers only, as in `0,5-8`; tensors without a layer are captured too. Default: all.
    #[arg(long, value_name = "LAYERS")]
    pub(crate) layers: Option<String>,
    /// Which steps: the prompt, decoded tokens, or both.
    #[arg(long, value_parser = one_of(CapturedPhase::NAMES, CapturedPhase::from_name), default_value = "all")]
    pub(crate) phase: CapturedPhase,
    /// Every n-th step; step 0 is the prompt, step n the n-th decoded token.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) every: u64,
    /// Part of each tensor, as in numpy and outermost dimension first: `:, ::4`.
    #[arg(long, value_name = "SLICE", allow_hyphen_values = true, default_value = ":")]
    pub(crate) slice: String,
    /// Compute the last layer and the logits for every position of the prompt, not for its last one alone.
    #[arg(long)]
    pub(crate) all_positions: bool,
    /// How elements are stored: none, lz4, zstd, zstd:1 to zstd:19, float, bounded:abs:X, :range:X, :mse:X, :nmse:X.
    #[arg(long, value_name = "CODEC", default_value = "float")]
    pub(crate) codec: String,
    /// What happens when tensors come faster than the disk takes them.
    #[arg(long, value_parser = one_of(Pressure::NAMES, Pressure::from_name), default_value = "block")]
    pub(crate) pressure: Pressure,
    /// The most memory that tensors on their way to the file take.
    #[arg(long, value_name = "BYTES", value_parser = byte_count, default_value = "1GiB")]
    pub(crate) max_memory: u64,
    /// Tokens from one checkpoint to the next. Default: no checkpoints.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) checkpoint_every: Option<u64>,
    /// Resume a capture that was cut off from its last checkpoint; without one it begins.
    #[arg(long, conflicts_with = "force")]
    pub(crate) resume: bool,
    /// Replace the output if it exists.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print what there is to capture, and capture nothing.
    #[arg(long)]
    pub(crate) list: bool,
    /// Print the result as JSON, and no text.
    #[arg(long)]
    pub(crate) json: bool,
}
