//! The raw streams: calls of allocators, the processes that made them, and memory of no file that was found in those.

use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_schema::{DataType, Schema, SchemaRef};
use dwell_events::schema::{ColumnSpec, TEXT, Table, TableSpec, numbers, optional_words};
use dwell_ring::allocations::{AllocationCall, ForkedFrom, ReadEvent, RecordedProcess};
use dwell_store::{RawCompression, RawWriter, RunDir, StoreError, number_at, text_at};

/// Calls, sorted by time but for those that a thread was late to publish.
pub(super) const CALLS: &str = "alloc";
/// Program images, and what was lost of them.
pub(super) const IMAGES: &str = "alloc_processes";
/// Ranges of pages without a file, at some moments.
pub(super) const ANONYMOUS: &str = "alloc_anonymous";

/// A call with the image that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallRow {
    /// Number of the program image: a process that becomes another program has several.
    pub(super) image: u32,
    pub(super) event: ReadEvent,
}

/// Something that is known of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageRow {
    pub(super) image: u32,
    pub(super) process: RecordedProcess,
    /// Events for which the ring had no room, and those that came at a bad time, up to now.
    pub(super) lost: (u64, u64),
}

/// Pages without a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnonymousRow {
    pub(super) time_ns: u64,
    pub(super) pid: u32,
    pub(super) start: u64,
    pub(super) end: u64,
}

const fn column(name: &'static str, data_type: DataType, nullable: bool) -> ColumnSpec {
    ColumnSpec { name, data_type, nullable, unit: "", meaning: "" }
}

static CALL_COLUMNS: TableSpec = TableSpec {
    name: CALLS,
    columns: &[
        column("image", DataType::UInt32, false),
        column("sequence", DataType::UInt64, false),
        column("time_ns", DataType::UInt64, false),
        column("thread", DataType::UInt32, false),
        column("call", DataType::UInt32, false),
        column("address", DataType::UInt64, false),
        column("size_bytes", DataType::UInt64, false),
    ],
};

static IMAGE_COLUMNS: TableSpec = TableSpec {
    name: IMAGES,
    columns: &[
        column("image", DataType::UInt32, false),
        column("pid", DataType::UInt32, false),
        column("made_ns", DataType::UInt64, false),
        column("parent_pid", DataType::UInt32, true),
        column("parent_made_ns", DataType::UInt64, true),
        column("forked_ns", DataType::UInt64, true),
        column("overflowed", DataType::UInt64, false),
        column("untimely", DataType::UInt64, false),
        column("program", TEXT, true),
    ],
};

static ANONYMOUS_COLUMNS: TableSpec = TableSpec {
    name: ANONYMOUS,
    columns: &[
        column("time_ns", DataType::UInt64, false),
        column("pid", DataType::UInt32, false),
        column("start", DataType::UInt64, false),
        column("end", DataType::UInt64, false),
    ],
};

fn schema_of(spec: &'static TableSpec) -> SchemaRef {
    Table::Own(spec).schema()
}

fn schema(stream: &str) -> SchemaRef {
    match stream {
        CALLS => schema_of(&CALL_COLUMNS),
        IMAGES => schema_of(&IMAGE_COLUMNS),
        ANONYMOUS => schema_of(&ANONYMOUS_COLUMNS),
        _ => Schema::empty().into(),
    }
}

/// The file of a stream.
pub(super) fn path(run: &RunDir, stream: &str) -> PathBuf {
    run.raw_stream(stream)
}

/// Begins a stream, or continues the one that a killed observer left.
pub(super) fn open(run: &RunDir, stream: &str) -> Result<RawWriter, StoreError> {
    let path = path(run, stream);
    match RawWriter::create(&path, schema(stream), RawCompression::None) {
        Err(_) if path.exists() => RawWriter::append(&path, RawCompression::None),
        outcome => outcome,
    }
}

fn of(spec: &'static TableSpec, columns: Vec<arrow_array::ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(schema_of(spec), columns).expect("the columns are the schema's, in order")
}

pub(super) fn call_batch(rows: &[CallRow]) -> RecordBatch {
    let narrow = |value: fn(&CallRow) -> u32| numbers::<UInt32Type, _>(rows, move |row| Some(value(row)));
    let wide = |value: fn(&CallRow) -> u64| numbers::<UInt64Type, _>(rows, move |row| Some(value(row)));
    let columns = vec![
        narrow(|row| row.image),
        wide(|row| row.event.sequence),
        wide(|row| row.event.time_ns),
        narrow(|row| row.event.thread),
        narrow(|row| row.event.call as u32),
        wide(|row| row.event.address),
        wide(|row| row.event.size_bytes),
    ];
    of(&CALL_COLUMNS, columns)
}

pub(super) fn image_batch(rows: &[ImageRow]) -> RecordBatch {
    let wide = |value: fn(&ImageRow) -> Option<u64>| numbers::<UInt64Type, _>(rows, value);
    let narrow = |value: fn(&ImageRow) -> Option<u32>| numbers::<UInt32Type, _>(rows, value);
    let columns = vec![
        narrow(|row| Some(row.image)),
        narrow(|row| Some(row.process.pid)),
        wide(|row| Some(row.process.made_ns)),
        narrow(|row| row.process.parent.map(|parent| parent.pid)),
        wide(|row| row.process.parent.map(|parent| parent.made_ns)),
        wide(|row| row.process.parent.map(|parent| parent.forked_ns)),
        wide(|row| Some(row.lost.0)),
        wide(|row| Some(row.lost.1)),
        optional_words(rows, |row| Some(row.process.program.as_str())),
    ];
    of(&IMAGE_COLUMNS, columns)
}

pub(super) fn anonymous_batch(rows: &[AnonymousRow]) -> RecordBatch {
    let wide = |value: fn(&AnonymousRow) -> u64| numbers::<UInt64Type, _>(rows, move |row| Some(value(row)));
    let columns = vec![
        wide(|row| row.time_ns),
        numbers::<UInt32Type, _>(rows, |row| Some(row.pid)),
        wide(|row| row.start),
        wide(|row| row.end),
    ];
    of(&ANONYMOUS_COLUMNS, columns)
}

pub(super) fn call_rows(batch: &RecordBatch) -> impl Iterator<Item = CallRow> + '_ {
    (0..batch.num_rows()).filter_map(|row| {
        let wide = |name| number_at::<UInt64Type>(batch, name, row);
        let narrow = |name| number_at::<UInt32Type>(batch, name, row);
        let event = ReadEvent {
            sequence: wide("sequence")?,
            time_ns: wide("time_ns")?,
            thread: narrow("thread")?,
            call: AllocationCall::from_number(narrow("call")?)?,
            address: wide("address")?,
            size_bytes: wide("size_bytes")?,
        };
        Some(CallRow { image: narrow("image")?, event })
    })
}

pub(super) fn image_rows(batch: &RecordBatch) -> impl Iterator<Item = ImageRow> + '_ {
    (0..batch.num_rows()).filter_map(|row| {
        let wide = |name| number_at::<UInt64Type>(batch, name, row);
        let narrow = |name| number_at::<UInt32Type>(batch, name, row);
        let parent = || {
            Some(ForkedFrom {
                pid: narrow("parent_pid")?,
                made_ns: wide("parent_made_ns")?,
                forked_ns: wide("forked_ns")?,
            })
        };
        let process = RecordedProcess {
            pid: narrow("pid")?,
            made_ns: wide("made_ns")?,
            parent: parent(),
            program: text_at(batch, "program", row).unwrap_or_default().to_owned(),
        };
        Some(ImageRow { image: narrow("image")?, process, lost: (wide("overflowed")?, wide("untimely")?) })
    })
}

pub(super) fn anonymous_rows(batch: &RecordBatch) -> impl Iterator<Item = AnonymousRow> + '_ {
    (0..batch.num_rows()).filter_map(|row| {
        let wide = |name| number_at::<UInt64Type>(batch, name, row);
        let pid = number_at::<UInt32Type>(batch, "pid", row)?;
        Some(AnonymousRow { time_ns: wide("time_ns")?, pid, start: wide("start")?, end: wide("end")? })
    })
}
