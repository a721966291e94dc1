//! Arguments of `dwell ls` and `dwell show`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct LsArgs {
    /// Results directory, the folder of a model in one, or a run.
    #[arg(value_name = "PATH", default_value = "results")]
    pub(crate) path: PathBuf,
    /// Print the list as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Run directory, or the id of a run in `results`.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
