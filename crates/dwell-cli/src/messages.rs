//! How errors, hints and warnings are printed: one `error:` line, then `hint:` lines that can be pasted.

use std::process::ExitCode;

use dwell_events::Hint;

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
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// From an error of a library crate, with its hints.
    pub(crate) fn from_hinted(error: &(impl std::error::Error + Hint)) -> Self {
        Self { message: error.to_string(), hints: error.hints() }
    }
}

/// Prints an error and says that the work was not done.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    for hint in error.downcast_ref::<Failure>().into_iter().flat_map(|failure| &failure.hints) {
        eprintln!("hint: {hint}");
    }
    ExitCode::from(EXIT_NOT_DONE)
}

/// Turns the error of a library crate into one that is printed with its hints.
pub(crate) fn hinted<E: std::error::Error + Hint>(error: E) -> anyhow::Error {
    Failure::from_hinted(&error).into()
}
