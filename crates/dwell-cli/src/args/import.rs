//! Arguments of `dwell import`: a subcommand for each importer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand, value_parser};
use dwell_build::import::{self, ImportOption, Importer, Takes};
use dwell_metadata::RunMetadata;

/// A format and what to import.
pub(crate) struct ImportCommand {
    pub(crate) importer: &'static dyn Importer,
    pub(crate) args: ImportArgs,
    /// Options of the format that were given; empty for those that take nothing.
    pub(crate) options: BTreeMap<&'static str, String>,
}

/// What every format takes.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Recorded files.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Results directory.
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    pub(crate) output: PathBuf,
    /// Name of the model that was served.
    #[arg(long, value_name = "NAME", default_value = RunMetadata::MODEL_OF_IMPORTS)]
    pub(crate) model_id: String,
    /// Name of the run; must not exist yet. Default: the time and random digits.
    #[arg(long, value_name = "NAME")]
    pub(crate) run_id: Option<String>,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Subcommand for ImportCommand {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(import::ALL.iter().map(|importer| subcommand(*importer))).subcommand_required(true)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        import::ALL.iter().any(|importer| importer.name() == name)
    }
}

impl FromArgMatches for ImportCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let importer = import::ALL.iter().copied().find(|importer| importer.name() == name).ok_or_else(missing)?;
        let given = |option: &ImportOption| Some((option.name, value_of(option, matches)?));
        Ok(Self {
            importer,
            args: ImportArgs::from_arg_matches(matches)?,
            options: importer.options().iter().filter_map(given).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn subcommand(importer: &dyn Importer) -> Command {
    let command = ImportArgs::augment_args(Command::new(importer.name())).about(importer.about());
    let command = command.mut_arg("files", |files| files.help(importer.files_help()));
    command.args(importer.options().iter().map(argument))
}

fn argument(option: &ImportOption) -> Arg {
    let argument = Arg::new(option.name).long(option.name).help(option.help);
    let argument = argument.conflicts_with_all(option.conflicts_with);
    match option.takes {
        Takes::Nothing => argument.action(ArgAction::SetTrue),
        Takes::Number(name) => argument.value_name(name).value_parser(value_parser!(u64).range(1..)),
        Takes::Text(name) => argument.value_name(name),
        Takes::OneOf(name, names) => argument.value_name(name).value_parser(PossibleValuesParser::new(names)),
    }
}

fn value_of(option: &ImportOption, matches: &ArgMatches) -> Option<String> {
    match option.takes {
        Takes::Nothing => matches.get_flag(option.name).then(String::new),
        Takes::Number(_) => matches.get_one::<u64>(option.name).map(u64::to_string),
        Takes::Text(_) | Takes::OneOf(_, _) => matches.get_one::<String>(option.name).cloned(),
    }
}
