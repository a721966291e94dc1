//! Why a browser could not be started or asked.

use std::io;
use std::path::PathBuf;

/// Why a browser could not be started or asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// The program could not be started.
    #[error("starting Chromium: {source}: {program:?}")]
    Spawn {
        /// What the system said.
        source: io::Error,
        /// The program.
        program: PathBuf,
    },
    /// A file of the browser could not be made.
    #[error("{doing}: {source}: {path:?}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
        /// The file or folder.
        path: PathBuf,
    },
    /// The browser has ended, or its pipe broke.
    #[error("{doing}: {how}")]
    Ended {
        /// What was being done.
        doing: String,
        /// How it ended, with its last words.
        how: String,
    },
    /// The browser did not answer in time.
    #[error("{doing}: Chromium did not answer within {waited_s} s")]
    Silent {
        /// What was being done.
        doing: String,
        /// How long it was waited for.
        waited_s: u64,
    },
    /// The browser refused.
    #[error("{doing}: Chromium refused: {said}")]
    Refused {
        /// What was being done.
        doing: String,
        /// What it said.
        said: String,
    },
    /// A script of the page failed.
    #[error("{doing}: the page failed with {said}")]
    Script {
        /// What was being done.
        doing: String,
        /// The exception.
        said: String,
    },
    /// The answer is not what the protocol promises.
    #[error("{doing}: Chromium answered {found}, needed {needed}")]
    Answer {
        /// What was being done.
        doing: String,
        /// What was found.
        found: String,
        /// What was needed.
        needed: &'static str,
    },
    /// Waiting was ended from outside.
    #[error("{doing}: interrupted")]
    Interrupted {
        /// What was being done.
        doing: String,
    },
}

impl BrowserError {
    /// Whether nothing failed and waiting was ended from outside.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, BrowserError::Interrupted { .. })
    }
}
