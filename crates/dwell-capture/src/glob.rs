//! Globs on names of tensors and modules. The command line and the Python package read the same grammar here.

use dwell_events::Hint;
use globset::{GlobBuilder, GlobMatcher};

/// A name, or a glob on names: `*` stands for any letters, `?` for one, `[a-c]` for one of some, `{a,b}` for either.
#[derive(Clone, Debug)]
pub struct NameGlob {
    text: String,
    matcher: GlobMatcher,
}

/// A text that is no glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading the pattern {pattern:?} found {reason}")]
pub struct UnreadableGlob {
    /// What was to be read.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Hint for UnreadableGlob {
    fn hints(&self) -> Vec<String> {
        vec!["`*` stands for any letters, `?` for one, `[a-c]` for one of some".to_owned()]
    }
}

impl NameGlob {
    /// Reads a glob.
    pub fn new(text: &str) -> Result<Self, UnreadableGlob> {
        let glob = GlobBuilder::new(text)
            .build()
            .map_err(|error| UnreadableGlob { pattern: text.to_owned(), reason: error.kind().to_string() })?;
        Ok(Self { text: text.to_owned(), matcher: glob.compile_matcher() })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it names this. A name always names itself, whatever a glob would make of its letters.
    pub fn is_match(&self, name: &str) -> bool {
        name == self.text || self.matcher.is_match(name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// Examples that the tests of the Python package read too.
    const EXAMPLES: &str = include_str!("../tests/selection_examples.json");

    #[derive(Deserialize)]
    struct Examples {
        globs: Vec<Example>,
        unreadable_globs: Vec<String>,
    }

    #[derive(Deserialize)]
    struct Example {
        glob: String,
        matches: Vec<String>,
        others: Vec<String>,
    }

    #[test]
    fn globs_name_what_the_examples_say_and_nothing_else() {
        let examples: Examples = serde_json::from_str(EXAMPLES).unwrap();
        for Example { glob, matches, others } in &examples.globs {
            let named = NameGlob::new(glob).unwrap();
            matches.iter().for_each(|name| assert!(named.is_match(name), "{glob:?} and {name:?}"));
            others.iter().for_each(|name| assert!(!named.is_match(name), "{glob:?} and {name:?}"));
        }
        for text in &examples.unreadable_globs {
            assert_eq!(NameGlob::new(text).unwrap_err().pattern, *text);
        }
    }
}
