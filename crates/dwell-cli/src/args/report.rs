//! Arguments of `dwell report`.

use std::path::PathBuf;

use clap::Args;
use dwell_report::ExclusionReason;

use super::results::exclusion_reason;

#[derive(Args)]
pub(crate) struct ReportArgs {
    /// Run directories, results directories, or folders of models in one. Several runs are compared.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Report on this experiment of the results directory, by id or name.
    #[arg(long, value_name = "ID")]
    pub(crate) experiment: Option<String>,
    /// Include runs of the experiment that do not count for these reasons.
    #[arg(long, value_name = "REASON", value_delimiter = ',', value_parser = exclusion_reason, requires = "experiment")]
    pub(crate) include: Vec<ExclusionReason>,
    /// Draw what these files of `dwell observe` say into the timeline of a run.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "experiment")]
    pub(crate) observations: Vec<PathBuf>,
    /// File to write. Default: report.html in the current folder.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
    /// Open the report in the browser.
    #[arg(long)]
    pub(crate) open: bool,
}
