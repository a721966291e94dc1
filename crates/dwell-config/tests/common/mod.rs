//! What the tests have in common.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};

use dwell_config::{ConfigError, Experiment, Parsed, Problem, parse};

/// The least that an experiment needs.
pub const LEAST: &str = "experiment: {name: x}\nmodels: [{id: a, path: a.gguf}]\n";

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A shipped file below `config`, or a page of the documentation.
pub fn shipped(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

pub fn parsed(text: &str) -> Parsed {
    parse(text, Path::new("x.yaml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub fn experiment(text: &str) -> Experiment {
    parsed(text).experiment
}

pub fn refused(text: &str) -> ConfigError {
    match parse(text, Path::new("x.yaml")) {
        Err(error) => error,
        Ok(parsed) => panic!("accepted as {parsed:?}:\n{text}"),
    }
}

/// The problem of a text that has one.
pub fn problem(text: &str) -> Problem {
    let mut problems = refused(text).problems;
    assert_eq!(problems.len(), 1, "{problems:#?}\n{text}");
    problems.remove(0)
}
