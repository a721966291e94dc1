//! `allocation_sites`: sums of allocations by place, where a recording has no single calls.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::columns::{numbers, optional_words, words};
use super::{Meaning, column, meaning, optional, text};

/// What was allocated from one place: by one allocator, in one thread, with one stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocationSiteRow {
    /// Process.
    pub pid: u32,
    /// Thread, as the recording numbers it.
    pub thread_id: u64,
    /// Its name, if it has one.
    pub thread: Option<String>,
    /// The function that was called.
    pub allocator: &'static str,
    /// Functions that led to it.
    pub stack_id: Option<u64>,
    /// Native functions that led to it.
    pub native_stack_id: Option<u64>,
    /// Innermost function.
    pub function: Option<String>,
    /// Its file.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// Allocations at the peak.
    pub peak_allocations: u64,
    /// Their bytes.
    pub peak_bytes: u64,
    /// Allocations that were never freed.
    pub leaked_allocations: u64,
    /// Their bytes.
    pub leaked_bytes: u64,
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            column("pid", DataType::UInt32),
            column("thread_id", DataType::UInt64),
            text("thread", true),
            text("allocator", false),
            optional("stack_id", DataType::UInt64),
            optional("native_stack_id", DataType::UInt64),
            text("function", true),
            text("file", true),
            optional("line", DataType::UInt32),
            column("peak_allocations", DataType::UInt64),
            column("peak_bytes", DataType::UInt64),
            column("leaked_allocations", DataType::UInt64),
            column("leaked_bytes", DataType::UInt64),
        ]))
    });
    SCHEMA.clone()
}

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 13] = [
    meaning("pid", "", "process"),
    meaning("thread_id", "", "thread, as the recording numbers it"),
    meaning("thread", "", "its name; missing if it has none"),
    meaning("allocator", "", "function that was called, as in `allocations`"),
    meaning("stack_id", "", "row of `allocation_stacks` with the innermost Python function; missing outside of Python"),
    meaning("native_stack_id", "", "row of `allocation_stacks` with the innermost native function; missing if these were not recorded"),
    meaning("function", "", "innermost Python function"),
    meaning("file", "", "its file"),
    meaning("line", "", "the line in it"),
    meaning("peak_allocations", "", "allocations from here when the process had most bytes allocated"),
    meaning("peak_bytes", "bytes", "their bytes"),
    meaning("leaked_allocations", "", "allocations from here that were not freed when recording ended"),
    meaning("leaked_bytes", "bytes", "their bytes"),
];

/// The rows as one batch of the table's schema.
pub fn batch(rows: &[AllocationSiteRow]) -> RecordBatch {
    let wide = |value: fn(&AllocationSiteRow) -> Option<u64>| numbers::<UInt64Type, _>(rows, value);
    let columns = vec![
        numbers::<UInt32Type, _>(rows, |row| Some(row.pid)),
        wide(|row| Some(row.thread_id)),
        optional_words(rows, |row| row.thread.as_deref()),
        words(rows, |row| row.allocator),
        wide(|row| row.stack_id),
        wide(|row| row.native_stack_id),
        optional_words(rows, |row| row.function.as_deref()),
        optional_words(rows, |row| row.file.as_deref()),
        numbers::<UInt32Type, _>(rows, |row| row.line),
        wide(|row| Some(row.peak_allocations)),
        wide(|row| Some(row.peak_bytes)),
        wide(|row| Some(row.leaked_allocations)),
        wide(|row| Some(row.leaked_bytes)),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are the schema's, in order")
}
