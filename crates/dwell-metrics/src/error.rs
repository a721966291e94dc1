use std::path::PathBuf;

use dwell_events::Hint;
use dwell_store::StoreError;

/// Why the metrics of a run could not be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// A table could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// The run has no tables yet.
    #[error("this run was not finished: {run:?}")]
    NotFinished {
        /// The run.
        run: PathBuf,
    },

    /// The tables do not hold what the analysis needs.
    #[error("computing the metrics failed: {reason}")]
    Analysis {
        /// Why.
        reason: String,
    },
}

impl Hint for MetricsError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.hints(),
            Self::NotFinished { run } => vec![format!("finish it with `dwell recover '{}'`", run.display())],
            Self::Analysis { .. } => Vec::new(),
        }
    }
}
