//! Arguments of `dwell observe report`.

use std::path::PathBuf;

use clap::Args;
use dwell_report::FigureFormat;

#[derive(Args)]
pub(crate) struct ObserveReportArgs {
    /// Files of observations.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Run whose tokens are joined by time.
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<PathBuf>,
    /// Folder for figures, tables as CSV and report.json. Default: the table is printed only.
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    /// Format of the figures; may be repeated.
    #[arg(long, value_name = "FORMAT", value_parser = super::one_of(FigureFormat::NAMES, FigureFormat::from_name), default_value = "svg")]
    pub(crate) format: Vec<FigureFormat>,
    /// Replace existing files.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
