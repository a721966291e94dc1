//! Arguments of `dwell doctor`.

use std::path::PathBuf;

use clap::Args;
use dwell_events::CollectorName;

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// What has to work for exit code 0: collectors, or any name that is listed.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = CollectorName::BY_DEFAULT)]
    pub(crate) collect: Vec<String>,
    /// Folder in which a recording is tried; nothing of it is left.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
