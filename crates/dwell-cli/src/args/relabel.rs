//! Arguments of `dwell relabel`.

use std::path::PathBuf;

use clap::Args;
use dwell_events::UnknownPolicy;

use super::one_of;

#[derive(Args)]
pub(crate) struct RelabelArgs {
    /// Run directory, or a trace.parquet of dwell or mrm-trace.
    pub(crate) input: PathBuf,
    /// Run directory to create; must not exist yet.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Rules file. Default: built-in rules.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Policy for accesses that cannot be labelled: keep as unknown, skip and count, or fail.
    #[arg(long, value_parser = one_of(UnknownPolicy::NAMES, UnknownPolicy::from_name), default_value = "keep")]
    pub(crate) unknown: UnknownPolicy,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
