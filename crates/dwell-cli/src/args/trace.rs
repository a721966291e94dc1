//! Arguments of `dwell trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{MetricsArgs, WatchingArgs};

#[derive(Args)]
pub(crate) struct TraceArgs {
    /// GGUF file that the command loads; adds file offsets of weights, and KV cache bytes per token.
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Name of the model's folder in the results. Default: name of the model file or the program.
    #[arg(long, value_name = "ID")]
    pub(crate) model_id: Option<String>,
    #[command(flatten)]
    pub(crate) watching: WatchingArgs,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Results directory.
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    pub(crate) output: PathBuf,
    /// Name of the run; must not exist yet. Default: the time and random digits.
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// Print the summary as JSON, after the output of the command.
    #[arg(long)]
    pub(crate) json: bool,
    /// Command and its arguments. With --quiet, dwell prints no summary to standard output.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
