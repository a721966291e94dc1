//! Printing. `print!` and `eprint!` panic when nobody reads any more, as after `dwell run | head -1`; these do not.
//!
//! Results go to standard output, everything else to standard error: with `--quiet` only errors, with `--verbose` also what
//! is done and how long it takes.

use std::fmt::{self, Arguments};
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use dwell_host::was_standard_output_closed;
use dwell_report::text::{DEFAULT_WIDTH_CHARS, fitted, seconds, visible};

use crate::messages::Failure;

/// How much is said beside the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Errors alone.
    Quiet,
    /// Progress, notes and hints too.
    #[default]
    Normal,
    /// What is done too, with its time.
    Verbose,
}

/// Set once, before anything is printed: a command that was not told otherwise is neither quiet nor verbose.
static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// Says how much is to be said.
pub(crate) fn set_verbosity(verbosity: Verbosity) {
    // Only `main` calls it, and once.
    let _ = VERBOSITY.set(verbosity);
}

/// Whether only errors are said beside the result.
pub(crate) fn is_quiet() -> bool {
    verbosity() == Verbosity::Quiet
}

fn verbosity() -> Verbosity {
    VERBOSITY.get().copied().unwrap_or_default()
}

/// Prints a result for people on standard output. What came from outside and would be obeyed by a terminal is shown instead;
/// on a terminal, lines are made to fit.
pub(crate) fn print_result(text: &str) -> anyhow::Result<()> {
    let text = visible(text);
    match result_width() {
        Some(width_chars) => print_for_programs(&fitted(&text, width_chars)),
        None => print_for_programs(&text),
    }
}

/// Prints a result on standard output as it is.
///
/// A reader that went away has what it wanted. Any other failure means that the result did not arrive.
pub(crate) fn print_for_programs(text: &str) -> anyhow::Result<()> {
    if was_standard_output_closed() {
        return Err(Failure::new("printing the result found standard output closed").into());
    }
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("printing the result failed with {error}")).into())
        }
        _ => Ok(()),
    }
}

/// Columns of the terminal that results are printed on; none where they go elsewhere, and lines may have any length.
pub(crate) fn result_width() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| terminal_size::terminal_size_of(stdout)).flatten();
    size.map(|(columns, _)| columns.0.into())
}

/// Columns of the terminal that progress is shown on; none where it goes elsewhere.
pub(crate) fn progress_width() -> Option<usize> {
    let stderr = std::io::stderr();
    let size = stderr.is_terminal().then(|| terminal_size::terminal_size_of(stderr)).flatten();
    size.map(|(columns, _)| columns.0.into())
}

/// What it means that the result of finished work could not be printed: the work is where it was to be, and is whole.
pub(crate) fn unprinted(error: &anyhow::Error, made: &Path) -> anyhow::Error {
    Failure::new(format!("{error}; the work itself is done: {made:?}")).after_the_work().into()
}

/// The same for a command that writes files only if it is told to: without them, the result is all that there was to do.
pub(crate) fn unprinted_beside(error: anyhow::Error, made: Option<&PathBuf>) -> anyhow::Error {
    match made {
        Some(made) => unprinted(&error, made),
        None => error,
    }
}

/// How wide the tables of results may be: as the terminal that shows them, or as wide as any terminal.
pub(crate) fn width_chars() -> usize {
    result_width().unwrap_or(DEFAULT_WIDTH_CHARS)
}

/// Prints progress, a note or a hint to standard error, without a line break of its own. If nobody reads it, nothing is
/// lost; with `--quiet` it is not printed.
pub(crate) fn say(text: Arguments<'_>) {
    if !is_quiet() {
        complain(text);
    }
}

/// Prints an error to standard error, without a line break of its own. Like a result, it may hold text from outside.
pub(crate) fn complain(text: Arguments<'_>) {
    let text = fmt::format(text);
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(visible(&text).as_bytes()).and_then(|()| stderr.flush());
}

/// Does a step of a command; with `--verbose` says what it was and how long it took.
pub(crate) fn step<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began_at = Instant::now();
    let outcome = work();
    if verbosity() == Verbosity::Verbose {
        complain(format_args!("{what}: {}\n", seconds(began_at.elapsed().as_secs_f64())));
    }
    outcome
}
