//! `allocation_samples`: the memory of a process at the times that a recording of allocations has.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::columns::numbers;
use super::{Meaning, column, meaning, optional};

/// The memory of a process at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationSampleRow {
    /// Number of the sample.
    pub sample_id: u64,
    /// Process.
    pub pid: u32,
    /// Milliseconds since 1970.
    pub unix_ms: i64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Allocated and not freed.
    pub heap_bytes: Option<u64>,
    /// Number of the next call.
    pub next_ordinal: Option<u64>,
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            column("sample_id", DataType::UInt64),
            column("pid", DataType::UInt32),
            column("unix_ms", DataType::Int64),
            column("rss_bytes", DataType::UInt64),
            optional("heap_bytes", DataType::UInt64),
            optional("next_ordinal", DataType::UInt64),
        ]))
    });
    SCHEMA.clone()
}

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 6] = [
    meaning("sample_id", "", "number of the sample, from 0"),
    meaning("pid", "", "process"),
    meaning("unix_ms", "ms", "when it was taken: milliseconds since 1970 by the wall clock"),
    meaning("rss_bytes", "bytes", "resident memory of the process"),
    meaning("heap_bytes", "bytes", "bytes allocated and not freed by calls before it; missing if there were more allocations than dwell follows"),
    meaning("next_ordinal", "", "`ordinal` of the first call after it; missing where calls were not recorded"),
];

/// The rows as one batch of the table's schema.
pub fn batch(rows: &[AllocationSampleRow]) -> RecordBatch {
    let columns = vec![
        numbers::<UInt64Type, _>(rows, |row| Some(row.sample_id)),
        numbers::<UInt32Type, _>(rows, |row| Some(row.pid)),
        numbers::<Int64Type, _>(rows, |row| Some(row.unix_ms)),
        numbers::<UInt64Type, _>(rows, |row| Some(row.rss_bytes)),
        numbers::<UInt64Type, _>(rows, |row| row.heap_bytes),
        numbers::<UInt64Type, _>(rows, |row| row.next_ordinal),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are the schema's, in order")
}
