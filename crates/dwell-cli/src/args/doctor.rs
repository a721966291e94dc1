//! Arguments of `dwell doctor`.

use std::path::PathBuf;

use clap::Args;
use dwell_events::CollectorName;

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Collectors and probes that must work for exit code 0.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = CollectorName::BY_DEFAULT)]
    pub(crate) collect: Vec<String>,
    /// Folder for a trial recording, which is removed.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
