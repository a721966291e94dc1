//! `dwell man`: a manual page for each command.

use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use dwell_report::text::counted;

use crate::args::{Cli, ManArgs};
use crate::new_output::OutputFolder;
use crate::output::{print_result, unprinted};

pub(crate) fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = OutputFolder::new(&args.output);
    add_pages(&command, &mut pages)?;
    pages.write(args.force)?;
    print_result(&format!("{}\n{}\n", counted(pages.len() as u64, "page"), args.output.display()))
        .map_err(|error| unprinted(&error, &args.output))?;
    Ok(ExitCode::SUCCESS)
}

/// The page of a command and those of its subcommands.
fn add_pages(command: &Command, pages: &mut OutputFolder) -> std::io::Result<()> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    pages.add(format!("{name}.1"), page);
    let mut shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    shown.try_for_each(|subcommand| add_pages(subcommand, pages))
}
