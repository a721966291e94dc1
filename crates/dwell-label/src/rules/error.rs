use std::path::PathBuf;

use dwell_events::Hint;

/// Why rules cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// The file is longer than a rules file can be.
    #[error("reading rules found {found_bytes} bytes, and {limit_bytes} is the most: {file:?}")]
    TooLong {
        /// Length of the text.
        found_bytes: usize,
        /// The most.
        limit_bytes: usize,
        /// The file.
        file: PathBuf,
    },

    /// More rules than can be used.
    #[error("reading rules found {found} of them, and {limit} is the most: {file:?}")]
    TooMany {
        /// How many there are.
        found: usize,
        /// The most.
        limit: usize,
        /// The file.
        file: PathBuf,
    },

    /// The text is not YAML, or a value has a form that its key does not take.
    #[error("reading rules found at line {line}, column {column}: {reason}: {file:?}")]
    Yaml {
        /// Line, from 1; 0 if not known.
        line: u64,
        /// Column, from 1; 0 if not known.
        column: u64,
        /// What is wrong.
        reason: String,
        /// The file.
        file: PathBuf,
    },

    /// A key or a value that does not exist.
    #[error("reading rules found {what} {found:?} at line {line}, and one of {} was needed: {file:?}", expected.join(", "))]
    UnknownName {
        /// `the key` or `the value`.
        what: &'static str,
        /// What is there.
        found: String,
        /// Line, from 1.
        line: u64,
        /// What may be there.
        expected: Vec<&'static str>,
        /// The file.
        file: PathBuf,
    },

    /// Another version of the format.
    #[error("reading rules found version {found}, and version {supported} was needed: {file:?}")]
    OtherVersion {
        /// Version in the file.
        found: u32,
        /// Version that can be read.
        supported: u32,
        /// The file.
        file: PathBuf,
    },

    /// A pattern that is no regular expression, or one that would be too large.
    #[error("reading rules found in {rule}, key {key}, a pattern that cannot be used ({reason}): {file:?}")]
    Pattern {
        /// Which rule.
        rule: String,
        /// `symbol` or `dso`.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
        /// The file.
        file: PathBuf,
    },

    /// A rule that matches everything, with rules behind it.
    #[error(
        "reading rules found {rule}, which matches everything, before others that could then never match: {file:?}"
    )]
    MatchesEverything {
        /// Which rule.
        rule: String,
        /// The file.
        file: PathBuf,
    },

    /// Two rules of one name.
    #[error("reading rules found the name {name:?} at line {first_line} and again at line {line}: {file:?}")]
    NameTwice {
        /// The name.
        name: String,
        /// Where it is first.
        first_line: u64,
        /// Where it is again.
        line: u64,
        /// The file.
        file: PathBuf,
    },

    /// Two ranges claim the same bytes at the same time for different types.
    #[error("registering ranges found that {first} and {second} share bytes at the same time")]
    RangeConflict {
        /// The one.
        first: String,
        /// The other.
        second: String,
    },

    /// A range that holds no byte, or that leaves the address space.
    #[error("registering ranges found {range}, and at least one byte within the address space was needed")]
    EmptyRange {
        /// The range.
        range: String,
    },

    /// A range that ends before it begins.
    #[error("registering ranges found {range}, and an end after its beginning was needed")]
    RangeWithoutTime {
        /// The range.
        range: String,
    },

    /// More overlaps than can be kept.
    #[error("registering ranges found that they overlap more than {limit} times")]
    TooManyOverlaps {
        /// The most.
        limit: usize,
    },
}

/// Names that are at least this similar are offered.
const SIMILAR: f64 = 0.7;

impl Hint for RulesError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::UnknownName { found, expected, .. } => {
                let similarity = |name: &&&str| (strsim::jaro_winkler(found, name) * 1e6) as u64;
                let nearest = expected.iter().filter(|name| strsim::jaro_winkler(found, name) >= SIMILAR);
                nearest.max_by_key(similarity).map(|name| format!("did you mean `{name}`?")).into_iter().collect()
            }
            Self::MatchesEverything { .. } => vec!["give it a matcher, or make it the last rule".to_owned()],
            Self::RangeConflict { .. } => {
                vec!["end the first with `to_ns` before the second begins with `from_ns`".to_owned()]
            }
            Self::TooManyOverlaps { .. } => vec!["end ranges with `to_ns` when their memory is given back".to_owned()],
            Self::Pattern { .. } => vec!["patterns are those of the Rust crate regex, ASCII, without case".to_owned()],
            _ => Vec::new(),
        }
    }
}
