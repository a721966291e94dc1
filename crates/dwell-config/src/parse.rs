//! From the text of a file to an experiment.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::Experiment;
use crate::check::Checker;
use crate::key_table::keys;
use crate::mrm_trace;
use crate::problem::{ConfigError, Note, Problems};
use crate::rules::Rules;
use crate::yaml::{self, Node, Place, Value};

/// An experiment file that was understood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parsed {
    /// The experiment, with every default filled in.
    pub experiment: Experiment,
    /// What was translated from mrm-trace, and what has no effect.
    pub notes: Vec<Note>,
}

/// Reads an experiment file. Everything that is wrong with it is told at once.
///
/// A file written for mrm-trace 0.1.x is translated where its meaning is clear.
pub fn parse(text: &str, file: &Path) -> Result<Parsed, ConfigError> {
    let mut problems = Problems::new(file);
    let mut root = match read(text, &mut problems) {
        Some(root) => root,
        None => return Err(problems.into_error()),
    };
    let notes = mrm_trace::translate(&mut root, &mut problems);
    let mut checker = Checker::new(keys(), &mut problems);
    let values = checker.group("", "", Some(&root), Place::START);
    let places = checker.places;
    Rules { values: &values, places: &places, problems: &mut problems }.check();
    Ok(Parsed { experiment: problems.finish(values)?, notes })
}

fn read(text: &str, problems: &mut Problems<'_>) -> Option<Node> {
    match yaml::read(text) {
        Ok((Node { value: Value::Null, .. }, _)) => {
            let problem = problems.add(Place::START, "", "an empty file", "an experiment");
            problem.hint = Some("begin with a copy of config/default_experiment.yaml".to_owned());
            None
        }
        Ok((root, duplicate)) => {
            if let Some(duplicate) = duplicate {
                problems.add_fault(&duplicate);
            }
            Some(root)
        }
        Err(fault) => {
            let problem = problems.add_fault(&fault);
            if fault.found.contains("tab") {
                problem.hint = Some("indent with spaces: YAML does not allow tabs".to_owned());
            }
            None
        }
    }
}

impl Problems<'_> {
    /// The value, if nothing is wrong with it.
    pub(crate) fn finish<T: DeserializeOwned>(mut self, values: Json) -> Result<T, ConfigError> {
        if !self.is_empty() {
            return Err(self.into_error());
        }
        serde_json::from_value(values).map_err(|error| {
            self.add(Place::START, "", error.to_string(), "values that fit together");
            self.into_error()
        })
    }
}
