//! The rows of the table `pages`.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_schema::DataType;
use dwell_events::RegionType;
use dwell_events::schema::{ColumnSpec, TEXT, Table, TableSpec, numbers, optional_words, words};
use dwell_store::{number_at, text_at};

use crate::region_names::{Name, RegionNames};

/// The table of the collector.
pub(super) static TABLE: TableSpec = TableSpec {
    name: "pages",
    columns: &[
        column("timestamp_ns", DataType::UInt64, false, "ns", "when the scan ended that found the access"),
        column(
            "since_ns",
            DataType::UInt64,
            true,
            "ns",
            "when the scan before began: the access happened between the two; missing if it may have happened before dwell attached to the process",
        ),
        column("pid", DataType::UInt32, false, "", "process"),
        column(
            "access",
            TEXT,
            false,
            "",
            "`written`: every page of the range was written; `touched`: pages of the mapping were read or written, it is not known which",
        ),
        column("address", DataType::UInt64, false, "", "first byte"),
        column("size_bytes", DataType::UInt64, false, "bytes", "bytes of the range of pages, or of the mapping"),
        column("touched_bytes", DataType::UInt64, false, "bytes", "bytes of the pages in it that were accessed"),
        column("mapping", TEXT, true, "", "file or name of the mapping; missing for anonymous memory"),
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

/// How pages were accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Each was written.
    Written,
    /// Some were read or written.
    Touched,
}

impl Access {
    fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Touched => "touched",
        }
    }
}

/// Pages next to each other, or a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PageRow {
    pub(super) timestamp_ns: u64,
    pub(super) since_ns: Option<u64>,
    pub(super) pid: u32,
    pub(super) access: Access,
    pub(super) address: u64,
    pub(super) size_bytes: u64,
    pub(super) touched_bytes: u64,
    /// Empty for anonymous memory.
    pub(super) mapping: Arc<str>,
    pub(super) region_type: Option<RegionType>,
    pub(super) tensor: Option<Arc<str>>,
}

/// The row, cut where the pages of tensors begin and end.
pub(super) fn named(row: PageRow, names: &RegionNames) -> Vec<PageRow> {
    if row.access == Access::Touched {
        return vec![row];
    }
    let piece = |(range, name): (Range<u64>, Option<&Name>)| PageRow {
        address: range.start,
        size_bytes: range.end - range.start,
        touched_bytes: range.end - range.start,
        region_type: name.map(|name| name.region_type),
        tensor: name.and_then(|name| name.tensor.clone()),
        ..row.clone()
    };
    names.pages_of(&(row.address..row.address + row.size_bytes)).into_iter().map(piece).collect()
}

/// The rows as one batch of the table's schema.
pub(super) fn batch(rows: &[PageRow]) -> RecordBatch {
    let wide = |value: fn(&PageRow) -> u64| numbers::<UInt64Type, _>(rows, move |row| Some(value(row)));
    let columns = vec![
        wide(|row| row.timestamp_ns),
        numbers::<UInt64Type, _>(rows, |row| row.since_ns),
        numbers::<UInt32Type, _>(rows, |row| Some(row.pid)),
        words(rows, |row| row.access.name()),
        wide(|row| row.address),
        wide(|row| row.size_bytes),
        wide(|row| row.touched_bytes),
        optional_words(rows, |row| Some(&*row.mapping).filter(|name| !name.is_empty())),
        optional_words(rows, |row| row.region_type.map(RegionType::name)),
        optional_words(rows, |row| row.tensor.as_deref()),
    ];
    RecordBatch::try_new(Table::Own(&TABLE).schema(), columns).expect("the columns are the schema's, in order")
}

/// The rows of a batch of the raw stream, which names no regions.
pub(super) fn page_rows(batch: &RecordBatch) -> Vec<PageRow> {
    let wide = |name: &str, row: usize| number_at::<UInt64Type>(batch, name, row);
    (0..batch.num_rows())
        .filter_map(|row| {
            Some(PageRow {
                timestamp_ns: wide("timestamp_ns", row)?,
                since_ns: wide("since_ns", row),
                pid: number_at::<UInt32Type>(batch, "pid", row)?,
                access: match text_at(batch, "access", row)? {
                    "written" => Access::Written,
                    _ => Access::Touched,
                },
                address: wide("address", row)?,
                size_bytes: wide("size_bytes", row)?,
                touched_bytes: wide("touched_bytes", row)?,
                mapping: text_at(batch, "mapping", row).unwrap_or_default().into(),
                region_type: None,
                tensor: None,
            })
        })
        .collect()
}
