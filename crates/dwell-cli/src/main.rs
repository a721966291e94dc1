//! `dwell`: the command line. It reads arguments, calls the stages, prints; the work is in the other crates.

#![forbid(unsafe_code)]
// They panic on a closed pipe; `output` has what to use instead.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod browser;
mod browser_runtimes;
mod cache;
mod capture_view;
mod changed_files;
mod collector_choice;
mod commands;
mod duckdb;
mod engine_model;
mod experiment_file;
mod experiment_view;
mod interruption;
mod messages;
mod model_cache;
mod model_file;
mod new_output;
mod observe_target;
mod observe_view;
mod output;
mod run_request;
mod same_file;
mod serving;
mod shell;
mod terminal;
mod text_view;
mod version;
mod watch_record;
mod watch_summary;
mod watch_target;
mod watch_view;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::FromArgMatches;
use signal_hook::consts::SIGXFSZ;

use args::{Cli, Command, ModelCommand};
use output::{Verbosity, set_verbosity, step};

fn main() -> ExitCode {
    outlive_file_size_limits();
    let cli = Cli::from_arg_matches(&Cli::typed_command().get_matches()).unwrap_or_else(|error| error.exit());
    set_verbosity(match (cli.quiet, cli.verbose) {
        (true, _) => Verbosity::Quiet,
        (false, true) => Verbosity::Verbose,
        (false, false) => Verbosity::Normal,
    });
    let done = step("total", || run(cli.command)).map(changed_files::exit_code);
    done.unwrap_or_else(|error| messages::report(&error))
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => commands::run::run(&args),
        Command::Trace(args) => commands::trace::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::Observe(args) => commands::observe::run(&args),
        Command::Capture(args) => commands::capture::run(&args),
        Command::Validate(args) => commands::validate::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Ls(args) => commands::ls::run(&args),
        Command::Show(args) => commands::show::run(&args),
        Command::Analyse(args) => commands::analyse::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::View(args) => commands::view::run(&args),
        Command::Web(args) => commands::web::run(&args),
        Command::Figure(args) => commands::figure::run(&args),
        Command::Sql(args) => commands::sql::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Recover(args) => commands::recover::run(&args),
        Command::Relabel(args) => commands::relabel::run(&args),
        Command::Import { command } => commands::import::run(&command),
        Command::Schema => commands::schema::run(),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Tensors { command } => commands::tensors::run(&command),
        Command::Model { command } => match command {
            ModelCommand::Pull(args) => commands::model_pull::run(&args),
            ModelCommand::Make(args) => commands::model_make::run(&args),
            ModelCommand::Info(args) => commands::model_info::run(&args),
            ModelCommand::Tensors { metadata } => commands::model_tensors::run(&metadata),
        },
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::man::run(&args),
        Command::PlannedRun => commands::planned_run::run(),
        Command::Guard { kill, command } => commands::guard::run(&command, kill),
        Command::Worker => Ok(dwell_worker::run()),
        Command::CaptureWorker => Ok(dwell_worker::run_capture()),
    }
}

/// A file that reaches `ulimit -f` is then an error of the write, as a full disk is. Without a handler the signal kills.
fn outlive_file_size_limits() {
    // It is set and never read: that there is a handler is enough.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}
