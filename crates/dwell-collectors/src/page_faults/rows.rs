//! The rows of the table `page_faults`.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_schema::DataType;
use dwell_events::RegionType;
use dwell_events::schema::{ColumnSpec, TEXT, Table, TableSpec, numbers, optional_words, words};

/// The table of the collector.
pub(super) static TABLE: TableSpec = TableSpec {
    name: "page_faults",
    columns: &[
        column("timestamp_ns", DataType::UInt64, false, "ns", "when the fault was handled"),
        column("pid", DataType::UInt32, false, "", "process"),
        column("thread_id", DataType::UInt32, false, "", "thread"),
        column("cpu_id", DataType::UInt32, false, "", "processor"),
        column("address", DataType::UInt64, false, "", "byte that was accessed; the fault is of its page"),
        column(
            "mode",
            TEXT,
            false,
            "",
            "`user`: an instruction of the program accessed it; `kernel`: the kernel did for it, such as in `read`",
        ),
        column("symbol", TEXT, true, "", "function that accessed it, if it could be named"),
        column("dso", TEXT, true, "", "file of the instruction, if known"),
        column(
            "mapping",
            TEXT,
            true,
            "",
            "file or name of the mapping that was accessed; missing for anonymous memory",
        ),
        column(
            "file_offset",
            DataType::UInt64,
            true,
            "bytes",
            "offset of the byte in that file; missing for memory without a file",
        ),
        column("region_type", TEXT, true, "", "whose memory it is, if an exact trace knows a tensor there"),
        column(
            "tensor",
            TEXT,
            true,
            "",
            "the tensor, if an exact trace knows one there and no other shares its memory",
        ),
    ],
};

const fn column(
    name: &'static str,
    data_type: DataType,
    nullable: bool,
    unit: &'static str,
    meaning: &'static str,
) -> ColumnSpec {
    ColumnSpec { name, data_type, nullable, unit, meaning }
}

/// A fault.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FaultRow {
    pub(super) timestamp_ns: u64,
    pub(super) pid: u32,
    pub(super) thread: u32,
    pub(super) cpu: u32,
    pub(super) address: u64,
    pub(super) is_of_kernel: bool,
    /// Empty if it is not known; so are the next two.
    pub(super) symbol: Arc<str>,
    pub(super) dso: Arc<str>,
    pub(super) mapping: Arc<str>,
    pub(super) file_offset: Option<u64>,
    pub(super) region_type: Option<RegionType>,
    pub(super) tensor: Option<Arc<str>>,
}

/// The rows as one batch of the table's schema.
pub(super) fn batch(rows: &[FaultRow]) -> RecordBatch {
    let wide = |value: fn(&FaultRow) -> Option<u64>| numbers::<UInt64Type, _>(rows, value);
    let narrow = |value: fn(&FaultRow) -> u32| numbers::<UInt32Type, _>(rows, move |row| Some(value(row)));
    let named = |name: fn(&FaultRow) -> Option<&str>| optional_words(rows, name);
    let columns = vec![
        wide(|row| Some(row.timestamp_ns)),
        narrow(|row| row.pid),
        narrow(|row| row.thread),
        narrow(|row| row.cpu),
        wide(|row| Some(row.address)),
        words(rows, |row| if row.is_of_kernel { "kernel" } else { "user" }),
        named(|row| known(&row.symbol)),
        named(|row| known(&row.dso)),
        named(|row| known(&row.mapping)),
        wide(|row| row.file_offset),
        optional_words(rows, |row| row.region_type.map(RegionType::name)),
        optional_words(rows, |row| row.tensor.as_deref()),
    ];
    RecordBatch::try_new(Table::Own(&TABLE).schema(), columns).expect("the columns are the schema's, in order")
}

fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
