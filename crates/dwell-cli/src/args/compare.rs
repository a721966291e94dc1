//! Arguments of `dwell compare`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct CompareArgs {
    /// Run directories, results directories, or folders of models in one.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) paths: Vec<PathBuf>,
    /// Folder to write compare.csv, context.csv, compare.json and figures to.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Print the whole comparison as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
