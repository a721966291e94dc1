use std::path::{Path, PathBuf};

use dwell_events::Hint;
use dwell_store::StoreError;
use rustix::process::Signal;

use crate::RunRecord;

/// Why a run could not be made, or not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Something could not be stored or read.
    #[error(transparent)]
    Store(#[from] StoreError),

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

    /// A server's KV events could not be listened to.
    #[error(transparent)]
    KvEvents(dwell_kv_events::SubscribeError),

    /// The worker's ring could not be read.
    #[error("opening the worker's ring failed with {reason}: {path:?}")]
    Ring {
        /// What was wrong.
        reason: String,
        /// The ring.
        path: PathBuf,
    },

    /// Recording had to stop; what is in `raw/` is whole.
    #[error("recording stopped: {source}")]
    RecordingStopped {
        /// Why.
        source: StoreError,
        /// The run.
        run: PathBuf,
    },

    /// The tables could not be made; what is in `raw/` is whole.
    #[error("building the tables stopped: {source}")]
    BuildingStopped {
        /// Why.
        source: Box<RunError>,
        /// The run.
        run: PathBuf,
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

    /// There is nothing that a run could be finished from.
    #[error("recovering found no raw/{}, which every recording begins with: {run:?}", RunRecord::FILE_NAME)]
    NothingRecorded {
        /// The run.
        run: PathBuf,
    },

    /// The run is still being recorded.
    #[error("process {pid} is still at work on this run: {run:?}")]
    StillRecording {
        /// Who.
        pid: u32,
        /// The run.
        run: PathBuf,
    },

    /// The run has no tables yet.
    #[error("this run was not finished: {run:?}")]
    NotFinished {
        /// The run.
        run: PathBuf,
    },

    /// The run needs no recovery.
    #[error("this run is complete: {run:?}")]
    AlreadyComplete {
        /// The run.
        run: PathBuf,
    },

    /// The rules by which accesses are labelled cannot be used, or leave accesses without a label.
    #[error("labelling failed: {reason}")]
    Labelling {
        /// Why.
        reason: String,
        /// What to do about it.
        hints: Vec<String>,
    },

    /// A figure could not be drawn.
    #[error("drawing a figure failed: {reason}")]
    Figure {
        /// Why.
        reason: String,
    },

    /// The analysis could not read what the labeller wrote.
    #[error("computing the metrics failed: {reason}")]
    Analysis {
        /// Why.
        reason: String,
    },
}

impl RunError {
    /// Whether the run directory holds something that a run can be finished from. If not, nothing was computed.
    pub fn leaves_a_run(&self) -> bool {
        matches!(self, RunError::RecordingStopped { .. } | RunError::BuildingStopped { .. })
    }

    /// Whether a full disk is the cause: no other run can succeed until there is room.
    pub fn is_full_disk(&self) -> bool {
        let is_full =
            |error: &StoreError| matches!(error, StoreError::NoSpace { .. } | StoreError::NotEnoughSpace { .. });
        match self {
            RunError::Store(source) => is_full(source),
            RunError::NotBegun { source, .. } | RunError::RecordingStopped { source, .. } => is_full(source),
            RunError::BuildingStopped { source, .. } => source.is_full_disk(),
            _ => false,
        }
    }
}

impl Hint for RunError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::KvEvents(error) => error.hints(),
            RunError::Store(error) => error.hints(),
            RunError::Engine { hints, .. }
            | RunError::Labelling { hints, .. }
            | RunError::CaptureStopped { hints, .. } => hints.clone(),
            RunError::NotBegun { source, results } => hints_before_anything_was_written(source, results),
            RunError::RecordingStopped { source, run } => hints_to_recover(source.hints(), run),
            RunError::BuildingStopped { source, run } => match **source {
                RunError::Store(ref source) if can_pass(source) => hints_to_recover(source.hints(), run),
                ref source => source.hints(),
            },
            RunError::WorkerDied { signal, .. } => hints_after_signal(*signal),
            RunError::StillRecording { .. } => vec!["wait for it to end, or end that process first".to_owned()],
            RunError::NotFinished { run } => vec![format!("finish it with `dwell recover '{}'`", run.display())],
            RunError::AlreadyComplete { run } => vec![format!("check it with `dwell verify '{}'`", run.display())],
            RunError::NothingRecorded { .. } => {
                vec!["it was ended before anything was recorded; run it again under another name".to_owned()]
            }
            RunError::Interrupted
            | RunError::Spawn { .. }
            | RunError::Ring { .. }
            | RunError::Figure { .. }
            | RunError::Analysis { .. } => Vec::new(),
        }
    }
}

fn hints_to_recover(mut hints: Vec<String>, run: &Path) -> Vec<String> {
    hints.push(format!("then finish the run with `dwell recover '{}'`", run.display()));
    hints
}

/// There is nothing to recover yet, which the usual hints of a full disk speak of.
fn hints_before_anything_was_written(error: &StoreError, results: &Path) -> Vec<String> {
    match error {
        StoreError::NoSpace { .. } | StoreError::NotEnoughSpace { .. } => {
            vec![format!("see what fills the disk with `df -h '{}'`, or write elsewhere with `-o`", results.display())]
        }
        other => other.hints(),
    }
}

/// Whether the same may succeed later: not damage, but something that the machine lacked.
fn can_pass(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NoSpace { .. }
            | StoreError::NotEnoughSpace { .. }
            | StoreError::PermissionDenied { .. }
            | StoreError::NotFound { .. }
            | StoreError::Io { .. }
    )
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
