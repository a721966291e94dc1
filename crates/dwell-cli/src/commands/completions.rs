//! `dwell completions`: the command line for a shell.

use std::process::ExitCode;

use clap::{Command, CommandFactory};

use crate::args::{Cli, CompletionsArgs};
use crate::output::print_for_programs;

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown(&Cli::command()), "dwell", &mut script);
    print_for_programs(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// The command without what is hidden: shells would offer commands that only dwell itself starts.
fn shown(command: &Command) -> Command {
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).map(shown);
    Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(command.get_version().unwrap_or_default().to_owned())
        .visible_aliases(command.get_visible_aliases().map(str::to_owned))
        .args(command.get_arguments().cloned())
        .subcommands(subcommands)
}
