//! Arguments of the commands that read runs.

use std::path::PathBuf;

use clap::Args;
use dwell_analysis::Metric;
use dwell_report::ExclusionReason;

use super::{MetricsArgs, one_of};

#[derive(Args)]
pub(crate) struct AnalyseArgs {
    /// Run directory, results directory, or the folder of a model in one. Several runs are aggregated.
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) figures: MetricsArgs,
    /// Metrics to show or aggregate. Default: all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = one_of(Metric::NAMES, Metric::from_name))]
    pub(crate) metrics: Vec<Metric>,
    /// Aggregate only the runs of this experiment, by id or name.
    #[arg(long, value_name = "ID|NAME")]
    pub(crate) experiment: Option<String>,
    /// Include runs that do not count for these reasons: failed, partial, warmup, untraced, relabelled, quality_fail,
    /// contaminated.
    #[arg(long, value_name = "REASONS", value_delimiter = ',', value_parser = exclusion_reason)]
    pub(crate) include: Vec<ExclusionReason>,
    /// Folder for summary.csv, summary.json and plots of the aggregate.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Replace existing files.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A run that was not finished has no figures to take in.
pub(crate) fn exclusion_reason(name: &str) -> Result<ExclusionReason, String> {
    let known = ExclusionReason::ALL.into_iter().filter(|reason| reason.can_be_included());
    let names = || known.clone().map(ExclusionReason::name).collect::<Vec<_>>().join(", ");
    known.clone().find(|reason| reason.name() == name).ok_or_else(|| format!("known are {}", names()))
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Run directory, results directory, or the folder of a model in one.
    pub(crate) path: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RecoverArgs {
    /// Run directory, results directory, or the folder of a model in one.
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
