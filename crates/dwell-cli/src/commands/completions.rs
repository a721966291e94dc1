//! `dwell completions`: the command line for a shell.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::output::print_for_programs;

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "dwell", &mut script);
    print_for_programs(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
