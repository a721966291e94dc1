use std::path::PathBuf;

use dwell_events::Hint;
use dwell_store::StoreError;

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
    #[error("the worker ended {how} before it computed anything{log}")]
    WorkerDied {
        /// Exit code or signal.
        how: String,
        /// Its last words, if any.
        log: String,
    },

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

    /// The run is still being recorded.
    #[error("process {observer_pid} is still recording this run: {run:?}")]
    StillRecording {
        /// Who.
        observer_pid: u32,
        /// The run.
        run: PathBuf,
    },

    /// The run needs no recovery.
    #[error("this run is complete: {run:?}")]
    AlreadyComplete {
        /// The run.
        run: PathBuf,
    },

    /// The analysis could not read what the labeller wrote.
    #[error("computing the metrics failed: {reason}")]
    Analysis {
        /// Why.
        reason: String,
    },
}

impl Hint for RunError {
    fn hints(&self) -> Vec<String> {
        match self {
            RunError::Store(error) => error.hints(),
            RunError::Engine { hints, .. } => hints.clone(),
            RunError::RecordingStopped { source, run } => {
                let mut hints = source.hints();
                hints.push(format!("then finish the run with `dwell recover {}`", run.display()));
                hints
            }
            RunError::WorkerDied { .. } => {
                vec!["run again with DWELL_LLAMA_LOG=1 to see what the runtime says".to_owned()]
            }
            RunError::StillRecording { .. } => vec!["wait for it to end, or end that process first".to_owned()],
            RunError::AlreadyComplete { run } => vec![format!("check it with `dwell verify {}`", run.display())],
            RunError::Spawn { .. } | RunError::Ring { .. } | RunError::Analysis { .. } => Vec::new(),
        }
    }
}
