//! Arguments of the commands that describe the command line to others.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// Shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages, such as ~/.local/share/man/man1.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Replace existing files.
    #[arg(long)]
    pub(crate) force: bool,
}
