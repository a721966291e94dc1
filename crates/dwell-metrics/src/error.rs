use std::path::PathBuf;

use dwell_events::Hint;
use dwell_files::FileError;
use dwell_store::StoreError;

/// Why the metrics of a run could not be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// A table could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// A file of a part, or a temporary one, could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),

    /// The run has no tables yet.
    #[error("this run was not finished: {run:?}")]
    NotFinished {
        /// The run.
        run: PathBuf,
    },

    /// The rows are in no order, and too many to be sorted.
    #[error(
        "{backward_rows} of {rows} rows of trace.parquet are earlier than a row before them, and at most {limit} rows are sorted: {run:?}"
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

    /// A limit of memory is below what any analysis needs.
    #[error("the limit of memory is {} MiB, and at least {} MiB are needed", limit_bytes >> 20, least_bytes >> 20)]
    LimitTooLow {
        /// The limit.
        limit_bytes: u64,
        /// The least that is accepted.
        least_bytes: u64,
    },

    /// The analysis of this run needs more memory than the limit, however many parts it is cut into.
    #[error(
        "computing the metrics needs about {} MiB of memory, and the limit is {} MiB: {run:?}",
        needed_bytes >> 20,
        limit_bytes >> 20
    )]
    TooLittleMemory {
        /// What it needs, about.
        needed_bytes: u64,
        /// The limit.
        limit_bytes: u64,
        /// The run.
        run: PathBuf,
    },

    /// A file is not a part of an analysis, or is damaged.
    #[error("reading a part of an analysis failed: {reason}: {path:?}")]
    DamagedPart {
        /// Why.
        reason: String,
        /// The file.
        path: PathBuf,
    },

    /// A file is a part of another analysis.
    #[error("merging parts of an analysis found {difference}: {path:?}")]
    ForeignPart {
        /// What it is instead.
        difference: String,
        /// The file.
        path: PathBuf,
    },

    /// Parts are missing.
    #[error("merging parts of an analysis found that parts {missing} are missing: {run:?}")]
    MissingParts {
        /// Their numbers, and how many there are in all.
        missing: String,
        /// The run.
        run: PathBuf,
    },
}

impl Hint for MetricsError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.hints(),
            Self::File(error) => error.hints(),
            Self::NotFinished { run } => vec![format!("finish it with `dwell recover '{}'`", run.display())],
            Self::Unsorted { .. } => {
                vec!["sort the table by timestamp_ns, for instance with DuckDB: COPY (FROM 'trace.parquet' ORDER BY timestamp_ns, sample_id) TO 'sorted.parquet'".to_owned()]
            }
            Self::Analysis { run, .. } => {
                vec![format!("see which of its files changed with `dwell verify '{}'`", run.display())]
            }
            Self::LimitTooLow { least_bytes, .. } => {
                vec![format!("allow at least {} MiB: --memory-limit {}MiB", least_bytes >> 20, least_bytes >> 20)]
            }
            Self::TooLittleMemory { needed_bytes, .. } => {
                vec![format!("allow more memory: --memory-limit {}MiB", (needed_bytes >> 20) + 1)]
            }
            Self::DamagedPart { .. } | Self::ForeignPart { .. } | Self::MissingParts { .. } => vec![
                "write the parts again with this version of dwell, all with the same number of parts and the same options: `dwell analyse RUN --part K/N --part-output FILE`".to_owned(),
            ],
        }
    }
}
