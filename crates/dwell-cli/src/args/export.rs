//! Arguments of `dwell export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormatArg {
    /// Hugging Face.
    Hf,
    /// Zenodo.
    Zenodo,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Run directory, results directory, or the folder of a model in one.
    pub(crate) path: PathBuf,
    /// Where the dataset is to be published.
    #[arg(long, value_enum)]
    pub(crate) format: ExportFormatArg,
    /// Folder to make; it must not exist yet.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// SPDX name of the licence of the data, such as CC-BY-4.0. Default: that of the experiment.
    #[arg(long, value_name = "SPDX")]
    pub(crate) licence: Option<String>,
    /// Title of the dataset. Default: the name of the experiment.
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Export what the collectors wrote too.
    #[arg(long)]
    pub(crate) with_raw: bool,
    /// Export every finished run, also those that do not count.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print what was exported as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
