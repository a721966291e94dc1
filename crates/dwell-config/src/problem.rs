//! What is wrong with a file, and what was made of it.

use std::fmt;
use std::path::{Path, PathBuf};

use dwell_events::Hint;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::yaml::{Place, YamlFault};

/// Similarity below which a word is not what was meant.
const LEAST_SIMILARITY: f64 = 0.5;

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
    /// Path of the key, such as `sweep.kv_cache_types[1]`; empty for the file as a whole.
    pub key: String,
    /// What was found.
    pub found: String,
    /// What was needed.
    pub needed: String,
    /// The valid key or value that is most like the one found.
    pub nearest: Option<String>,
    /// What to do, if more can be said than what was needed.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file.display(), self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "found {}, needed {}", self.found, self.needed)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with a file, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("checking the file found {}, needed none:\n{}", counted(problems.len()), lines(problems))]
pub struct ConfigError {
    /// The problems; at least one.
    pub problems: Vec<Problem>,
}

fn counted(problems: usize) -> String {
    if problems == 1 { "1 problem".to_owned() } else { format!("{problems} problems") }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

impl Hint for ConfigError {
    fn hints(&self) -> Vec<String> {
        let mut hints: Vec<String> = Vec::new();
        for hint in self.problems.iter().filter_map(|problem| problem.hint.as_ref()) {
            if !hints.contains(hint) {
                hints.push(hint.clone());
            }
        }
        hints
    }
}

/// Something that was translated or left out, which the user should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Line, from 1.
    pub line: u64,
    /// Path of the key as it was written.
    pub key: String,
    /// What became of it, or why it has no effect.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.key, self.text)
    }
}

/// The problems of a file while they are collected.
#[derive(Debug)]
pub(crate) struct Problems<'file> {
    file: &'file Path,
    found: Vec<Problem>,
}

impl<'file> Problems<'file> {
    pub(crate) fn new(file: &'file Path) -> Problems<'file> {
        Problems { file, found: Vec::new() }
    }

    /// Adds a problem and returns it, to be given a nearest value or a hint.
    pub(crate) fn add(
        &mut self,
        place: Place,
        key: &str,
        found: impl Into<String>,
        needed: impl Into<String>,
    ) -> &mut Problem {
        self.found.push(Problem {
            file: self.file.to_owned(),
            line: place.line,
            column: place.column,
            key: key.to_owned(),
            found: found.into(),
            needed: needed.into(),
            nearest: None,
            hint: None,
        });
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    /// Adds what is wrong with the file as YAML.
    pub(crate) fn add_fault(&mut self, fault: &YamlFault) -> &mut Problem {
        self.add(fault.place, "", &fault.found, fault.needed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The error of all problems, in the order of the file.
    pub(crate) fn into_error(mut self) -> ConfigError {
        self.found.sort_by_key(|problem| (problem.line, problem.column));
        ConfigError { problems: self.found }
    }
}

/// The candidate that is most like a word, if one is.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let word = word.to_lowercase();
    let similar = |candidate: &'a str| {
        let similarity = strsim::normalized_damerau_levenshtein(&word, &candidate.to_lowercase());
        // Part of a longer name, such as `contexts` for `context_lengths`.
        let is_part = word.len() >= 3 && (candidate.starts_with(&word) || candidate.ends_with(&word));
        (if is_part { similarity.max(LEAST_SIMILARITY) } else { similarity }, candidate)
    };
    candidates
        .into_iter()
        .map(similar)
        .filter(|(similarity, _)| *similarity >= LEAST_SIMILARITY)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate.to_owned())
}
