//! What a check of an experiment finds.

use dwell_events::Hint;
use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The experiment cannot be run.
    Error,
    /// It can, but something will not be as one may expect.
    Warning,
    /// Worth knowing.
    Note,
}

/// One thing that a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub hints: Vec<String>,
}

impl Finding {
    /// Something that keeps the experiment from running.
    pub fn error(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, message: message.into(), hints: Vec::new() }
    }

    /// Something that is not as one may expect.
    pub fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(message) }
    }

    /// Something worth knowing.
    pub fn note(message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(message) }
    }

    /// From an error of a library, with its hints.
    pub fn of(error: &(impl std::error::Error + Hint)) -> Self {
        Self { hints: error.hints(), ..Self::error(error.to_string()) }
    }

    /// The same with what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// Whether any finding keeps the experiment from running.
pub fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Error)
}
