//! Arguments of `dwell compare`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct CompareArgs {
    /// Run directories, results directories, or folders of models in one.
    #[arg(required_unless_present = "experiment", value_name = "RUN")]
    pub(crate) paths: Vec<PathBuf>,
    /// Compare the configurations of an experiment, by its folder: RESULTS/experiments/ID.
    #[arg(long, value_name = "DIR")]
    pub(crate) experiment: Option<PathBuf>,
    /// Folder to write compare.csv, context.csv, compare.json and plots to.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Replace files of the output that exist.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Print the whole comparison as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
