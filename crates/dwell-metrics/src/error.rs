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

    /// The rows are in no order, and too many to be sorted in memory.
    #[error(
        "{backward_rows} of {rows} rows of trace.parquet are earlier than a row before them, and at most {limit} rows are sorted in memory: {run:?}"
    )]
    Unsorted {
        /// The run.
        run: PathBuf,
        /// Rows of the trace.
        rows: u64,
        /// Rows that are earlier than one before.
        backward_rows: u64,
        /// Rows that would be sorted.
        limit: u64,
    },

    /// The tables do not hold what the analysis needs.
    #[error("computing the metrics failed: {reason}: {run:?}")]
    Analysis {
        /// The run.
        run: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Hint for MetricsError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.hints(),
            Self::NotFinished { run } => vec![format!("finish it with `dwell recover '{}'`", run.display())],
            Self::Unsorted { .. } => {
                vec!["sort the table by timestamp_ns, for instance with DuckDB: COPY (FROM 'trace.parquet' ORDER BY timestamp_ns, sample_id) TO 'sorted.parquet'".to_owned()]
            }
            Self::Analysis { run, .. } => {
                vec![format!("see which of its files changed with `dwell verify '{}'`", run.display())]
            }
        }
    }
}
