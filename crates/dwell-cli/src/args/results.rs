//! Arguments of the commands that read runs.

use std::path::PathBuf;

use clap::Args;

use super::MetricsArgs;

#[derive(Args)]
pub(crate) struct AnalyseArgs {
    /// Run directory.
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Print the whole report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Run directory.
    pub(crate) run: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RecoverArgs {
    /// Run directory.
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
