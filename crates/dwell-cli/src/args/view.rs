//! Arguments of `dwell view`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct ViewArgs {
    /// Results directory, the folder of a model in one, or a run.
    #[arg(value_name = "PATH", default_value = "results")]
    pub(crate) path: PathBuf,
    /// Port on 127.0.0.1. Default: any that is free.
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Open the view in the browser.
    #[arg(long)]
    pub(crate) open: bool,
}
