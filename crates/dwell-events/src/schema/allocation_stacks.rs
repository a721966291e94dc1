//! `allocation_stacks`: one row per distinct stack that led to an allocation, as a tree of frames.

use std::sync::{Arc, LazyLock};

use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::columns::{numbers, optional_words, words};
use super::{Meaning, column, meaning, optional, text};

/// The innermost frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocationStackRow {
    /// Number of the stack.
    pub stack_id: u64,
    /// Stack of the caller; none for the outermost frame.
    pub parent_id: Option<u64>,
    /// Process.
    pub pid: u32,
    /// `python` or `native`.
    pub kind: &'static str,
    /// Function, if it is known.
    pub function: Option<String>,
    /// File of the source, or program or library.
    pub file: Option<String>,
    /// Line of the source.
    pub line: Option<u32>,
    /// Whether native code called a Python function.
    pub is_entry: Option<bool>,
    /// Address behind the call in native code.
    pub return_address: Option<u64>,
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            column("stack_id", DataType::UInt64),
            optional("parent_id", DataType::UInt64),
            column("pid", DataType::UInt32),
            text("kind", false),
            text("function", true),
            text("file", true),
            optional("line", DataType::UInt32),
            optional("is_entry", DataType::Boolean),
            optional("return_address", DataType::UInt64),
        ]))
    });
    SCHEMA.clone()
}

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 9] = [
    meaning("stack_id", "", "number of the stack, unique in the run"),
    meaning("parent_id", "", "stack of the caller; missing for the outermost frame"),
    meaning("pid", "", "process"),
    meaning("kind", "", "`python` or `native`: each has stacks of its own"),
    meaning("function", "", "innermost function; missing for native code without a symbol"),
    meaning("file", "", "its Python file, or the program or library with the native code"),
    meaning("line", "", "the line in the Python file; missing for native code"),
    meaning("is_entry", "", "whether native code called the Python function; missing for native code"),
    meaning("return_address", "", "address behind the call in native code; missing for Python"),
];

/// The rows as one batch of the table's schema.
pub fn batch(rows: &[AllocationStackRow]) -> RecordBatch {
    let columns = vec![
        numbers::<UInt64Type, _>(rows, |row| Some(row.stack_id)),
        numbers::<UInt64Type, _>(rows, |row| row.parent_id),
        numbers::<UInt32Type, _>(rows, |row| Some(row.pid)),
        words(rows, |row| row.kind),
        optional_words(rows, |row| row.function.as_deref()),
        optional_words(rows, |row| row.file.as_deref()),
        numbers::<UInt32Type, _>(rows, |row| row.line),
        Arc::new(rows.iter().map(|row| row.is_entry).collect::<BooleanArray>()),
        numbers::<UInt64Type, _>(rows, |row| row.return_address),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are the schema's, in order")
}
