//! `region_map`: one row per region, that is per tensor at an address.
//!
//! The first seven columns are those of mrm-trace. Regions of activations share memory with each other, because
//! the graph allocator reuses it; regions of weights and of the KV cache do not.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_array::types::{Int64Type, UInt16Type, UInt64Type};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::columns::{numbers, words};
use super::{Meaning, column, meaning, optional, text};
use crate::{OpType, PAGE_SHIFT, RegionType};

/// One region and the sums of the accesses to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRow {
    /// Number of the region, from 1.
    pub region_id: u32,
    /// Whose memory it is.
    pub region_type: RegionType,
    /// First byte.
    pub address: u64,
    /// Bytes from `address` on.
    pub size_bytes: u64,
    /// Time of the first access.
    pub first_seen_ns: u64,
    /// Time of the last access.
    pub last_seen_ns: u64,
    /// Rows of the trace in this region.
    pub access_count: u64,
    /// Tensor that owns the bytes.
    pub tensor: String,
    /// Layer of the tensor, if it belongs to one.
    pub layer: Option<u16>,
    /// Bytes loaded, over all accesses.
    pub bytes_read: u64,
    /// Bytes stored, over all accesses.
    pub bytes_written: u64,
    /// How the bytes came there: `mapped`, `copied`, `repacked` for weights, `computed` for the rest;
    /// `unknown` where nobody saw it.
    pub origin: &'static str,
    /// Offset of the bytes in the model file, for mapped weights.
    pub file_offset: Option<u64>,
    /// When the memory was given back, if that was seen.
    pub freed_ns: Option<u64>,
}

impl RegionRow {
    /// Adds one access to the sums.
    pub fn add_access(&mut self, op_type: OpType, size_bytes: u64, timestamp_ns: u64) {
        self.access_count += 1;
        self.first_seen_ns = self.first_seen_ns.min(timestamp_ns);
        self.last_seen_ns = self.last_seen_ns.max(timestamp_ns);
        match op_type {
            OpType::Load => self.bytes_read = self.bytes_read.saturating_add(size_bytes),
            OpType::Store => self.bytes_written = self.bytes_written.saturating_add(size_bytes),
        }
    }
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            column("region_id", DataType::Int64),
            text("region_type", false),
            column("page_min", DataType::Int64),
            column("page_max", DataType::Int64),
            column("first_seen_ns", DataType::Int64),
            column("last_seen_ns", DataType::Int64),
            column("access_count", DataType::Int64),
            column("address", DataType::UInt64),
            column("size_bytes", DataType::UInt64),
            text("tensor", false),
            optional("layer", DataType::UInt16),
            column("bytes_read", DataType::UInt64),
            column("bytes_written", DataType::UInt64),
            text("origin", false),
            optional("file_offset", DataType::UInt64),
            optional("freed_ns", DataType::UInt64),
        ]))
    });
    SCHEMA.clone()
}

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 16] = [
    meaning("region_id", "", "number of the region, from 1; numbers of regions that nothing touched are left out"),
    meaning("region_type", "", RegionType::MEANING),
    meaning("page_min", "4 KiB pages", "first page"),
    meaning("page_max", "4 KiB pages", "last page"),
    meaning("first_seen_ns", "ns", "time of the first access"),
    meaning("last_seen_ns", "ns", "time of the last access"),
    meaning("access_count", "", "rows of `trace` in the region"),
    meaning("address", "", "first byte"),
    meaning("size_bytes", "bytes", "bytes of the tensor"),
    meaning("tensor", "", "its name"),
    meaning("layer", "", "layer that the name gives"),
    meaning("bytes_read", "bytes", "bytes loaded, over all accesses; an access counts each of its bytes once"),
    meaning("bytes_written", "bytes", "bytes stored, over all accesses; an access counts each of its bytes once"),
    meaning("origin", "", "how the bytes came there: `mapped`, `copied` or `repacked` for weights, `computed` for the rest; `unknown` for regions that rules made"),
    meaning("file_offset", "bytes", "first byte in the model file; mapped weights only"),
    meaning("freed_ns", "ns", "when the memory was given back: the beginning of the teardown phase; missing if that was not seen"),
];

/// The rows as one batch of the table's schema.
pub fn batch(rows: &[RegionRow]) -> RecordBatch {
    // Signed where mrm-trace has signed columns; ids, pages and nanoseconds stay far below 2^63.
    let signed = |value: fn(&RegionRow) -> Option<i64>| numbers::<Int64Type, _>(rows, value);
    let unsigned = |value: fn(&RegionRow) -> Option<u64>| numbers::<UInt64Type, _>(rows, value);
    let columns = vec![
        signed(|row| Some(row.region_id.into())),
        words(rows, |row| row.region_type.name()),
        signed(|row| Some((row.address >> PAGE_SHIFT) as i64)),
        signed(|row| Some((row.address.saturating_add(row.size_bytes.saturating_sub(1)) >> PAGE_SHIFT) as i64)),
        signed(|row| Some(row.first_seen_ns as i64)),
        signed(|row| Some(row.last_seen_ns as i64)),
        signed(|row| Some(row.access_count as i64)),
        unsigned(|row| Some(row.address)),
        unsigned(|row| Some(row.size_bytes)),
        words(rows, |row| &row.tensor),
        numbers::<UInt16Type, _>(rows, |row| row.layer),
        unsigned(|row| Some(row.bytes_read)),
        unsigned(|row| Some(row.bytes_written)),
        words(rows, |row| row.origin),
        unsigned(|row| row.file_offset),
        unsigned(|row| row.freed_ns),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are the schema's, in order")
}
