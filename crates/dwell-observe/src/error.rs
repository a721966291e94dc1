use std::io;
use std::path::PathBuf;

use dwell_events::Hint;

/// Why a file of observations could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// The system refused something about the file.
    #[error("{doing} failed with {source}: {path:?}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// Lines were observed that the file has no room for.
    #[error("writing observations failed with {source}, {lines} lines are not in the file: {path:?}")]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// Lines that were lost.
        lines: usize,
        /// What the system said.
        source: io::Error,
    },

    /// The file is something else, which must not be cut or appended to.
    #[error("appending observations found a file that holds something else: {path:?}")]
    OtherContent {
        /// The file.
        path: PathBuf,
    },

    /// Another program writes the file.
    #[error("appending observations found that another program writes the file: {path:?}")]
    InUse {
        /// The file.
        path: PathBuf,
    },

    /// A line in the middle of a file is damaged.
    #[error("reading observations found a damaged line {number} ({source}): {path:?}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        number: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },

    /// A line holds values that no kernel counts.
    #[error("reading observations found an impossible {what} in line {number}: {path:?}")]
    Impossible {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        number: usize,
        /// The value.
        what: &'static str,
    },

    /// Two lines tell of the same disks at the same time, so that requests would count twice.
    #[error("reading observations found the disks of the same time twice: line {} of {:?} and line {} of {:?}", one.1, one.0, other.1, other.0)]
    Twice {
        /// A file, and the line in it, counted from 1.
        one: (PathBuf, usize),
        /// Another line.
        other: (PathBuf, usize),
    },

    /// A file without a single line.
    #[error("reading observations found no line: {path:?}")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Hint for ObserveError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::NotWritten { .. } => {
                vec!["the lines before are whole; make room, and the file is appended to".to_owned()]
            }
            Self::OtherContent { .. } => vec!["choose another file with --output".to_owned()],
            Self::InUse { .. } => vec!["choose another file with --output, or end the other dwell observe".to_owned()],
            Self::Damaged { .. } | Self::Impossible { .. } => vec!["remove the line to read the others".to_owned()],
            Self::Twice { .. } => vec!["name each file once, and one of several observers that ran at once".to_owned()],
            Self::Io { .. } | Self::Empty { .. } => Vec::new(),
        }
    }
}
