//! Arguments of `dwell compare`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct CompareArgs {
    /// Run directories, results directories, or folders of models in one.
    #[arg(required_unless_present = "experiment", value_name = "RUN")]
    pub(crate) paths: Vec<PathBuf>,
    /// Compare the configurations of an experiment: its id or name in `results`, or its folder RESULTS/experiments/ID.
    #[arg(long, value_name = "ID")]
    pub(crate) experiment: Option<PathBuf>,
    /// Folder for compare.csv, context.csv, compare.json and plots.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Replace existing files.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Print the comparison as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
