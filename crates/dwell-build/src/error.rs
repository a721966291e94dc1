use std::path::{Path, PathBuf};

use dwell_collectors::CollectError;
use dwell_events::Hint;
use dwell_files::FileError;
use dwell_metadata::{MetadataError, RunRecord};
use dwell_metrics::MetricsError;
use dwell_store::StoreError;

/// Why the tables of a run could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Something could not be stored or read.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// The metadata of a run cannot be used.
    #[error(transparent)]
    Metadata(#[from] MetadataError),

    /// What a killed observer left could not be taken in.
    #[error(transparent)]
    Collect(#[from] CollectError),

    /// The tables could not be made; what is in `raw/` is whole.
    #[error("building the tables stopped: {source}")]
    BuildingStopped {
        /// Why.
        source: Box<BuildError>,
        /// The run.
        run: PathBuf,
    },

    /// The run is an import that did not come to its end. What it was made from is elsewhere, so it is made anew.
    #[error("this import was killed, and an import cannot be resumed: {run:?}")]
    ImportKilled {
        /// The run.
        run: PathBuf,
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

    /// The run has its tables.
    #[error("this run is built already: {run:?}")]
    AlreadyBuilt {
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
    #[error("drawing a plot failed: {reason}")]
    Figure {
        /// Why.
        reason: String,
    },

    /// The analysis could not read what the labeller wrote.
    #[error("{reason}")]
    Analysis {
        /// Why.
        reason: String,
    },
}

impl BuildError {
    /// Whether a full disk is the cause: no other run can succeed until there is room.
    pub fn is_full_disk(&self) -> bool {
        match self {
            BuildError::Store(source) | BuildError::Collect(CollectError::Store(source)) => source.is_full_disk(),
            BuildError::BuildingStopped { source, .. } => source.is_full_disk(),
            _ => false,
        }
    }
}

impl From<FileError> for BuildError {
    fn from(error: FileError) -> Self {
        Self::Store(error.into())
    }
}

impl From<MetricsError> for BuildError {
    fn from(error: MetricsError) -> Self {
        match error {
            // What the disk refuses can be recovered from, whichever step needed it.
            MetricsError::Store(error) => Self::Store(error),
            MetricsError::NotFinished { run } => Self::NotFinished { run },
            other => Self::Analysis { reason: other.to_string() },
        }
    }
}

impl Hint for BuildError {
    fn hints(&self) -> Vec<String> {
        match self {
            BuildError::Store(error) => error.hints(),
            BuildError::Metadata(error) => error.hints(),
            BuildError::Collect(error) => error.hints(),
            BuildError::Labelling { hints, .. } => hints.clone(),
            BuildError::BuildingStopped { source, run } => match **source {
                BuildError::Store(ref source) if can_pass(source) => hints_to_recover(source.hints(), run),
                ref source => source.hints(),
            },
            BuildError::StillRecording { .. } => vec!["wait for it to end, or end that process first".to_owned()],
            BuildError::NotFinished { run } => vec![format!("finish it with `dwell recover '{}'`", run.display())],
            BuildError::AlreadyBuilt { run } => vec![
                format!("check it with `dwell verify '{}'`", run.display()),
                format!("to rebuild: rm '{0}/manifest.json' && dwell recover '{0}'", run.display()),
            ],
            BuildError::ImportKilled { run } => {
                let run = run.display();
                vec![format!("rm -r '{run}', then import again: its command line is in '{run}/raw/import.json'")]
            }
            BuildError::NothingRecorded { .. } => {
                vec!["nothing was recorded; run it again with another --run-id".to_owned()]
            }
            BuildError::Figure { .. } | BuildError::Analysis { .. } => Vec::new(),
        }
    }
}

fn hints_to_recover(mut hints: Vec<String>, run: &Path) -> Vec<String> {
    hints.push(format!("then finish the run: dwell recover '{}'", run.display()));
    hints
}

/// Whether the same may succeed later: not damage, but something that the machine lacked.
fn can_pass(error: &StoreError) -> bool {
    matches!(error, StoreError::File(error) if error.may_pass())
}
