//! Arguments of the commands that look at an experiment file.

use std::path::PathBuf;

use clap::Args;

/// An experiment file, for a look at it.
#[derive(Args)]
pub(crate) struct ExperimentArgs {
    /// Experiment file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Results directory. Default: that of the file.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
