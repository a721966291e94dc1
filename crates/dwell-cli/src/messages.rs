//! How errors and hints are printed: one `error:` line, then `hint:` lines that can be pasted.

use std::error::Error;
use std::process::ExitCode;

use dwell_events::Hint;
use dwell_report::text::visible_in_line;

use crate::output::{complain, say};

/// Exit code of a command that did its work but found something missing or wrong.
pub(crate) const EXIT_WITH_LOSS: u8 = 1;
/// Exit code of a command that could not do its work.
pub(crate) const EXIT_NOT_DONE: u8 = 2;

/// An error with what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    message: String,
    hints: Vec<String>,
    exit_code: u8,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new(), exit_code: EXIT_NOT_DONE }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The work was done all the same.
    pub(crate) fn after_the_work(mut self) -> Self {
        self.exit_code = EXIT_WITH_LOSS;
        self
    }

    /// What to do about it.
    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// From an error of a library crate, with its causes and hints.
    pub(crate) fn from_hinted(error: &(impl Error + Hint)) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Many messages tell their cause already.
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = error.source();
        }
        Self { hints: error.hints(), ..Self::new(message) }
    }
}

/// Prints an error and says whether the work was done.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<Failure>() {
        Some(failure) => {
            print_failure(failure);
            ExitCode::from(failure.exit_code)
        }
        None => {
            complain(format_args!("error: {error:#}\n"));
            ExitCode::from(EXIT_NOT_DONE)
        }
    }
}

/// Prints an error with its hints.
pub(crate) fn print_failure(failure: &Failure) {
    // One line, whatever a library put into its message.
    complain(format_args!("error: {}\n", failure.message.lines().collect::<Vec<_>>().join(" / ")));
    failure.hints.iter().for_each(|hint| complain(format_args!("hint: {}\n", visible_in_line(hint))));
}

/// Prints what to do next, or about something that is no error.
pub(crate) fn print_hints(hints: &[String]) {
    hints.iter().for_each(|hint| say(format_args!("hint: {}\n", visible_in_line(hint))));
}

/// Turns the error of a library crate into one that is printed with its hints.
pub(crate) fn hinted<E: Error + Hint>(error: E) -> anyhow::Error {
    Failure::from_hinted(&error).into()
}
