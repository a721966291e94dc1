use std::path::{Path, PathBuf};

use dwell_collectors::CollectError;
use dwell_events::Hint;
use dwell_files::FileError;
use dwell_store::StoreError;
use rustix::process::Signal;

/// Why a run could not be made, or not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Something could not be stored or read.
    #[error(transparent)]
    Store(StoreError),

    /// A collector could not begin.
    #[error(transparent)]
    Collect(CollectError),

    /// The worker could not be started.
    #[error("starting the worker failed with {source}")]
    Spawn {
        /// What the system said.
        source: std::io::Error,
    },

    /// The engine refused before anything was computed.
    #[error("{message}")]
    Engine {
        /// What was being done, found, needed.
        message: String,
        /// What to do about it.
        hints: Vec<String>,
    },

    /// The worker ended before anything was computed, and without saying why.
    #[error("{how} before it computed anything{last_words}")]
    WorkerDied {
        /// How it ended, as the beginning of a sentence.
        how: String,
        /// The signal that ended it.
        signal: Option<i32>,
        /// The end of its log, as the end of a sentence.
        last_words: String,
    },

    /// The user interrupted before anything was computed.
    #[error("the run was interrupted before anything was computed")]
    Interrupted,

    /// Recording could not begin, or stopped before anything was computed.
    #[error("recording could not begin: {source}")]
    NotBegun {
        /// Why.
        source: StoreError,
        /// Where runs are made.
        results: PathBuf,
    },

    /// Recording had to stop; what is in `raw/` is whole.
    #[error("recording stopped: {source}")]
    RecordingStopped {
        /// Why.
        source: StoreError,
        /// The run.
        run: PathBuf,
    },

    /// A capture ended before anything of it was in its file.
    #[error(
        "the capture stopped: {reason}; no tensor had been written, so the empty stream was removed and all that was \
         computed is lost: {path:?}"
    )]
    NothingCaptured {
        /// Why.
        reason: String,
        /// The stream.
        path: PathBuf,
        /// What to do about the cause.
        hints: Vec<String>,
    },

    /// A capture ended before it was done; what was flushed is whole.
    #[error("the capture stopped: {reason}; {kept}: {path:?}")]
    CaptureStopped {
        /// Why.
        reason: String,
        /// What the stream holds, in words.
        kept: String,
        /// The stream.
        path: PathBuf,
        /// What to do about the cause and the stream.
        hints: Vec<String>,
    },
}

impl RecordError {
    /// Whether the run directory holds something that a run can be finished from. If not, nothing was computed.
    pub fn leaves_a_run(&self) -> bool {
        matches!(self, RecordError::RecordingStopped { .. })
    }

    /// Whether a full disk is the cause: no other run can succeed until there is room.
    pub fn is_full_disk(&self) -> bool {
        match self {
            RecordError::Store(source) => source.is_full_disk(),
            RecordError::NotBegun { source, .. } | RecordError::RecordingStopped { source, .. } => {
                source.is_full_disk()
            }
            _ => false,
        }
    }
}

impl From<StoreError> for RecordError {
    fn from(error: StoreError) -> Self {
        RecordError::Store(error)
    }
}

impl From<FileError> for RecordError {
    fn from(error: FileError) -> Self {
        RecordError::Store(error.into())
    }
}

impl From<CollectError> for RecordError {
    fn from(error: CollectError) -> Self {
        match error {
            // What the disk refuses ends recording, whichever collector was writing.
            CollectError::Store(error) => RecordError::Store(error),
            other => RecordError::Collect(other),
        }
    }
}

impl Hint for RecordError {
    fn hints(&self) -> Vec<String> {
        match self {
            RecordError::Collect(error) => error.hints(),
            RecordError::Store(error) => error.hints(),
            RecordError::Engine { hints, .. }
            | RecordError::NothingCaptured { hints, .. }
            | RecordError::CaptureStopped { hints, .. } => hints.clone(),
            RecordError::NotBegun { source, results } => hints_before_anything_was_written(source, results),
            RecordError::RecordingStopped { source, run } => hints_to_recover(source.hints(), run),
            RecordError::WorkerDied { signal, .. } => hints_after_signal(*signal),
            RecordError::Interrupted | RecordError::Spawn { .. } => Vec::new(),
        }
    }
}

fn hints_to_recover(mut hints: Vec<String>, run: &Path) -> Vec<String> {
    hints.push(format!("then finish the run: dwell recover '{}'", run.display()));
    hints
}

/// The run directory is removed again, so the results directory is the one to look at.
fn hints_before_anything_was_written(error: &StoreError, results: &Path) -> Vec<String> {
    match error {
        _ if error.is_full_disk() => {
            vec![format!("free space: df -h '{}'", results.display()), "or write elsewhere: -o DIR".to_owned()]
        }
        other => other.hints(),
    }
}

pub(crate) fn hints_after_signal(signal: Option<i32>) -> Vec<String> {
    const SIGKILL: i32 = Signal::KILL.as_raw();
    match signal {
        Some(SIGKILL) => vec![
            "see with `dmesg | tail` whether memory ran out".to_owned(),
            "if it did, use a smaller --context-length or model".to_owned(),
        ],
        Some(_) => vec!["run again with DWELL_LLAMA_LOG=1 to see what the runtime says".to_owned()],
        // It said itself what was wrong.
        None => Vec::new(),
    }
}
