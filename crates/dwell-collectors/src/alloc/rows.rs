//! The rows of the table `allocation_lives`.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::builder::BooleanBuilder;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_schema::DataType;
use dwell_events::RegionType;
use dwell_events::schema::{ColumnSpec, TEXT, Table, TableSpec, numbers, optional_words, words};

use super::lives::{End, Life};

/// The table of the collector.
pub(super) static TABLE: TableSpec = TableSpec {
    name: "allocation_lives",
    columns: &[
        column("allocated_ns", DataType::UInt64, false, "ns", "when the call returned that allocated it"),
        column(
            "freed_ns",
            DataType::UInt64,
            true,
            "ns",
            "when the call began that gave it back; missing if it was never given back, or that was not recorded",
        ),
        column("pid", DataType::UInt32, false, "", "process"),
        column("thread_id", DataType::UInt32, false, "", "thread that allocated it"),
        column("freed_by", DataType::UInt32, true, "", "thread that gave it back"),
        column(
            "allocated_with",
            TEXT,
            false,
            "",
            "the function: `malloc`, `calloc`, `realloc`, `reallocarray`, `posix_memalign`, `aligned_alloc`, `memalign`, `valloc`, `pvalloc`, `mmap`, `mmap of a file`, `mremap`, `sbrk`",
        ),
        column(
            "freed_with",
            TEXT,
            true,
            "",
            "the function: `free`, `realloc`, `munmap`, `mremap`, `sbrk`, or `mmap` in its place",
        ),
        column("address", DataType::UInt64, false, "", "first byte"),
        column(
            "size_bytes",
            DataType::UInt64,
            false,
            "bytes",
            "bytes that were asked for; whole pages for mappings. A mapping that is given back in parts has a row for each",
        ),
        column(
            "is_inherited",
            DataType::Boolean,
            false,
            "",
            "whether the process that this one was forked from allocated it, and this one gave its copy back",
        ),
        column(
            "region_type",
            TEXT,
            true,
            "",
            "whose memory most of it is, if an exact trace knows tensors in it during its life",
        ),
        column("tensor", TEXT, true, "", "the tensor, if an exact trace knows just one in it"),
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

/// A row.
pub(super) struct LifeRow {
    pub(super) pid: u32,
    pub(super) life: Life,
    pub(super) end: Option<End>,
    pub(super) region_type: Option<RegionType>,
    pub(super) tensor: Option<Arc<str>>,
}

/// The rows as one batch of the table's schema.
pub(super) fn batch(rows: &[LifeRow]) -> RecordBatch {
    let mut is_inherited = BooleanBuilder::with_capacity(rows.len());
    rows.iter().for_each(|row| is_inherited.append_value(row.life.is_inherited));
    let wide = |value: fn(&LifeRow) -> Option<u64>| numbers::<UInt64Type, _>(rows, value);
    let narrow = |value: fn(&LifeRow) -> Option<u32>| numbers::<UInt32Type, _>(rows, value);
    let columns = vec![
        wide(|row| Some(row.life.allocated_ns)),
        wide(|row| row.end.map(|end| end.freed_ns)),
        narrow(|row| Some(row.pid)),
        narrow(|row| Some(row.life.thread)),
        narrow(|row| row.end.map(|end| end.thread)),
        words(rows, |row| row.life.call.name()),
        optional_words(rows, |row| row.end.map(|end| end.call.name())),
        wide(|row| Some(row.life.address)),
        wide(|row| Some(row.life.size_bytes)),
        Arc::new(is_inherited.finish()),
        optional_words(rows, |row| row.region_type.map(RegionType::name)),
        optional_words(rows, |row| row.tensor.as_deref()),
    ];
    RecordBatch::try_new(Table::Own(&TABLE).schema(), columns).expect("the columns are the schema's, in order")
}
