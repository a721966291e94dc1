use thiserror::Error;

/// Why a batch could not be analysed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AnalysisError {
    /// A column that the metrics need is not in the batch.
    #[error("table {table} has no column {column}")]
    MissingColumn {
        /// Table that the batch was pushed as.
        table: &'static str,
        /// Name of the column.
        column: &'static str,
    },
    /// A column has a type that its meaning does not allow.
    #[error("column {column} has type {found}, expected {expected}")]
    ColumnType {
        /// Name of the column.
        column: &'static str,
        /// What was expected, in words.
        expected: &'static str,
        /// The type in the batch.
        found: String,
    },
    /// A value that must be there is null.
    #[error("column {column} is null in row {row} of the batch")]
    NullValue {
        /// Name of the column.
        column: &'static str,
        /// Row of the batch, from 0.
        row: usize,
    },
    /// A number that counts something is below zero.
    #[error("column {column} is {value} in row {row} of the batch, expected zero or more")]
    NegativeValue {
        /// Name of the column.
        column: &'static str,
        /// Row of the batch, from 0.
        row: usize,
        /// The value found.
        value: i64,
    },
    /// An operation that is neither a load nor a store.
    #[error("column op_type holds {value:?}, expected \"load\" or \"store\"")]
    UnknownOperation {
        /// The text found.
        value: String,
    },
    /// More region types than can be told apart.
    #[error("column region_type holds more than {limit} distinct names")]
    TooManyRegionTypes {
        /// The most that are told apart.
        limit: usize,
    },
    /// A row covers more memory than can be followed in pieces.
    #[error(
        "column size_bytes is {size_bytes} in row {row} of the batch; estimates and parts of an analysis follow rows of at most \
         {limit_bytes} bytes"
    )]
    RowTooLarge {
        /// Row of the batch, from 0.
        row: usize,
        /// Bytes that it covers.
        size_bytes: u64,
        /// The most that are followed.
        limit_bytes: u64,
    },
    /// Two parts are not parts of one trace.
    #[error("merging parts of a trace found that they differ in {difference}")]
    UnlikeParts {
        /// What differs.
        difference: &'static str,
    },
    /// Parts of a trace do not add up to all of it.
    #[error("merging {parts} parts of a trace found that some are missing or there twice")]
    NotWhole {
        /// How many there are.
        parts: usize,
    },
    /// A part could not be written down.
    #[error("writing a part of an analysis failed: {reason}")]
    NotWritten {
        /// Why.
        reason: String,
    },
    /// Bytes are not a part of an analysis by this version.
    #[error("reading a part of an analysis failed: {reason}")]
    DamagedPart {
        /// Why.
        reason: String,
    },
    /// KV lives were announced when accesses of the KV cache may already have been followed byte by byte.
    #[error("kv_block_lifecycle was announced after rows of trace; it has to be before")]
    LifecycleAfterTrace,
}
