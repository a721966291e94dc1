//! `allocations`: one row per call of an allocator, in the order of the calls.
//!
//! Calls have no times: `sample_id` says between which two samples of [`allocation_samples`](super::allocation_samples)
//! each lies. An allocation is no access: nothing is known of what was read or written.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_array::builder::{ArrayBuilder, BooleanBuilder, PrimitiveBuilder};
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::sparse::{RepeatedText, SparseNumbers};
use super::{Meaning, column, meaning, optional, text};

/// One call of an allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationRow<'a> {
    /// Number of the call, from 0, over all processes of the run.
    pub ordinal: u64,
    /// Process.
    pub pid: u32,
    /// Thread, as the recording numbers it.
    pub thread_id: u64,
    /// Its name, if it has one.
    pub thread: Option<&'a str>,
    /// The function that was called.
    pub allocator: &'a str,
    /// Whether it frees.
    pub is_free: bool,
    /// First byte.
    pub address: u64,
    /// Bytes that were asked for, or that `munmap` was given; missing for other calls that free.
    pub size_bytes: Option<u64>,
    /// Bytes that were allocated before the call and are not after it.
    pub freed_bytes: Option<u64>,
    /// Functions that led to it.
    pub stack_id: Option<u64>,
    /// Native functions that led to it.
    pub native_stack_id: Option<u64>,
    /// Innermost function.
    pub function: Option<&'a str>,
    /// Its file.
    pub file: Option<&'a str>,
    /// The line in it.
    pub line: Option<u32>,
    /// Last sample of the process before it.
    pub sample_id: Option<u64>,
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            column("ordinal", DataType::UInt64),
            column("pid", DataType::UInt32),
            column("thread_id", DataType::UInt64),
            text("thread", true),
            text("allocator", false),
            column("is_free", DataType::Boolean),
            column("address", DataType::UInt64),
            optional("size_bytes", DataType::UInt64),
            optional("freed_bytes", DataType::UInt64),
            optional("stack_id", DataType::UInt64),
            optional("native_stack_id", DataType::UInt64),
            text("function", true),
            text("file", true),
            optional("line", DataType::UInt32),
            optional("sample_id", DataType::UInt64),
        ]))
    });
    SCHEMA.clone()
}

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 15] = [
    meaning("ordinal", "", "number of the call, from 0. Calls of one process are in the order in which they were recorded"),
    meaning("pid", "", "process"),
    meaning("thread_id", "", "thread, as the recording numbers it"),
    meaning("thread", "", "its name; missing if it has none"),
    meaning("allocator", "", "function that was called: `malloc`, `calloc`, `realloc`, `posix_memalign`, `aligned_alloc`, `memalign`, `valloc`, `pvalloc`, `free`, `mmap`, `munmap`, and `pymalloc_malloc`, `pymalloc_calloc`, `pymalloc_realloc`, `pymalloc_free` of Python's own allocator"),
    meaning("is_free", "", "whether it frees"),
    meaning("address", "", "first byte that was allocated or freed"),
    meaning("size_bytes", "bytes", "bytes that were asked for, or that `munmap` was given; missing for `free`, which is given none"),
    meaning("freed_bytes", "bytes", "bytes that this call frees. For a call that allocates: bytes that an earlier one had there, whose end was not recorded. Missing if nothing was known to be there"),
    meaning("stack_id", "", "row of `allocation_stacks` with the innermost Python function; missing for calls that free and outside of Python"),
    meaning("native_stack_id", "", "row of `allocation_stacks` with the innermost native function; missing if these were not recorded"),
    meaning("function", "", "innermost Python function"),
    meaning("file", "", "its file"),
    meaning("line", "", "the line in it"),
    meaning("sample_id", "", "last row of `allocation_samples` of the process before the call, which is not later than the next; missing before the first"),
];

/// Gathers rows into batches of the table's schema.
pub struct AllocationsBuilder {
    ordinal: PrimitiveBuilder<UInt64Type>,
    pid: PrimitiveBuilder<UInt32Type>,
    thread_id: PrimitiveBuilder<UInt64Type>,
    thread: RepeatedText,
    allocator: RepeatedText,
    is_free: BooleanBuilder,
    address: PrimitiveBuilder<UInt64Type>,
    size_bytes: SparseNumbers<UInt64Type>,
    freed_bytes: SparseNumbers<UInt64Type>,
    stack_id: SparseNumbers<UInt64Type>,
    native_stack_id: SparseNumbers<UInt64Type>,
    function: RepeatedText,
    file: RepeatedText,
    line: SparseNumbers<UInt32Type>,
    sample_id: SparseNumbers<UInt64Type>,
}

impl Default for AllocationsBuilder {
    fn default() -> Self {
        Self {
            ordinal: PrimitiveBuilder::new(),
            pid: PrimitiveBuilder::new(),
            thread_id: PrimitiveBuilder::new(),
            thread: RepeatedText::new(),
            allocator: RepeatedText::new(),
            is_free: BooleanBuilder::new(),
            address: PrimitiveBuilder::new(),
            size_bytes: SparseNumbers::new(),
            freed_bytes: SparseNumbers::new(),
            stack_id: SparseNumbers::new(),
            native_stack_id: SparseNumbers::new(),
            function: RepeatedText::new(),
            file: RepeatedText::new(),
            line: SparseNumbers::new(),
            sample_id: SparseNumbers::new(),
        }
    }
}

impl AllocationsBuilder {
    /// Rows since the last batch.
    pub fn len(&self) -> usize {
        self.is_free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a row.
    pub fn push(&mut self, row: &AllocationRow<'_>) {
        self.ordinal.append_value(row.ordinal);
        self.pid.append_value(row.pid);
        self.thread_id.append_value(row.thread_id);
        self.thread.push(row.thread);
        self.allocator.push(Some(row.allocator));
        self.is_free.append_value(row.is_free);
        self.address.append_value(row.address);
        self.size_bytes.push(row.size_bytes);
        self.freed_bytes.push(row.freed_bytes);
        self.stack_id.push(row.stack_id);
        self.native_stack_id.push(row.native_stack_id);
        self.function.push(row.function);
        self.file.push(row.file);
        self.line.push(row.line);
        self.sample_id.push(row.sample_id);
    }

    /// The rows since the last batch.
    pub fn finish_batch(&mut self) -> RecordBatch {
        let columns = vec![
            Arc::new(self.ordinal.finish()) as _,
            Arc::new(self.pid.finish()) as _,
            Arc::new(self.thread_id.finish()) as _,
            Arc::new(self.thread.finish()) as _,
            Arc::new(self.allocator.finish()) as _,
            Arc::new(self.is_free.finish()) as _,
            Arc::new(self.address.finish()) as _,
            Arc::new(self.size_bytes.finish()) as _,
            Arc::new(self.freed_bytes.finish()) as _,
            Arc::new(self.stack_id.finish()) as _,
            Arc::new(self.native_stack_id.finish()) as _,
            Arc::new(self.function.finish()) as _,
            Arc::new(self.file.finish()) as _,
            Arc::new(self.line.finish()) as _,
            Arc::new(self.sample_id.finish()) as _,
        ];
        RecordBatch::try_new(schema(), columns).expect("the columns are the schema's, in order")
    }
}
