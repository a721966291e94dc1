//! Arguments of `dwell trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{MetricsArgs, WatchingArgs};

#[derive(Args)]
pub(crate) struct TraceArgs {
    /// GGUF file that the command loads: adds where weights lie in it, and what a token takes by its shape.
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Name of the folder that the run goes to. Default: the model file's name, or that of the program.
    #[arg(long, value_name = "ID")]
    pub(crate) model_id: Option<String>,
    #[command(flatten)]
    pub(crate) watching: WatchingArgs,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Folder that run directories are made in.
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    pub(crate) output: PathBuf,
    /// Name of the run; it must not exist yet. Default: time and a random part.
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// Print the summary as JSON; it follows what the command prints.
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments. With --quiet no summary follows: standard output is the command's alone.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
