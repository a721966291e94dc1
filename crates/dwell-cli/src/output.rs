//! Printing. `print!` and `eprint!` panic when nobody reads any more, as after `dwell run | head -1`; these do not.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::path::Path;

use dwell_report::text::DEFAULT_WIDTH_CHARS;

use crate::messages::Failure;

/// Prints a result on standard output.
///
/// A reader that went away has what it wanted. Any other failure means that the result did not arrive.
pub(crate) fn print_result(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("printing the result failed with {error}")).into())
        }
        _ => Ok(()),
    }
}

/// What it means that the result of finished work could not be printed: the work is where it was to be, and is whole.
pub(crate) fn unprinted(error: &anyhow::Error, made: &Path) -> anyhow::Error {
    Failure::new(format!("{error}; the work itself is done: {made:?}")).after_the_work().into()
}

/// How wide results may be: as the terminal that shows them, or as wide as any terminal.
pub(crate) fn width_chars() -> usize {
    let terminal = terminal_size::terminal_size_of(std::io::stdout());
    terminal.map_or(DEFAULT_WIDTH_CHARS, |(width, _)| usize::from(width.0))
}

/// Prints to standard error, without a line break of its own. If nobody reads it, nothing is lost.
pub(crate) fn say(text: Arguments<'_>) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_fmt(text).and_then(|()| stderr.flush());
}
