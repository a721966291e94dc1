//! `region_map`: one row per region, that is per tensor at an address.
//!
//! The first seven columns are those of mrm-trace. Regions of activations share memory with each other, because
//! the graph allocator reuses it; regions of weights and of the KV cache do not.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{Int64Builder, UInt16Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::{TextBuilder, column, optional, text};
use crate::{PAGE_SHIFT, RegionType};

/// One region and the sums of the accesses to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRow {
    /// Number of the region, from 1; 0 stands for unknown memory.
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
    /// How the bytes came there: `mapped`, `copied`, `repacked` for weights, `computed` for the rest.
    pub origin: &'static str,
    /// Offset of the bytes in the model file, for mapped weights.
    pub file_offset: Option<u64>,
    /// When the memory was given back, if that was seen.
    pub freed_ns: Option<u64>,
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

/// The rows as one batch of the table's schema.
pub fn batch(rows: &[RegionRow]) -> RecordBatch {
    // Signed where mrm-trace has signed columns; ids, pages and nanoseconds stay far below 2^63.
    let signed = |value: fn(&RegionRow) -> u64| -> ArrayRef {
        let mut builder = Int64Builder::with_capacity(rows.len());
        rows.iter().for_each(|row| builder.append_value(value(row) as i64));
        Arc::new(builder.finish())
    };
    let unsigned = |value: fn(&RegionRow) -> Option<u64>| -> ArrayRef {
        let mut builder = UInt64Builder::with_capacity(rows.len());
        rows.iter().for_each(|row| builder.append_option(value(row)));
        Arc::new(builder.finish())
    };
    let words = |value: fn(&RegionRow) -> &str| -> ArrayRef {
        let mut builder = TextBuilder::new();
        rows.iter().for_each(|row| builder.append_value(value(row)));
        Arc::new(builder.finish())
    };
    let mut layers = UInt16Builder::with_capacity(rows.len());
    rows.iter().for_each(|row| layers.append_option(row.layer));
    let columns = vec![
        signed(|row| row.region_id.into()),
        words(|row| row.region_type.name()),
        signed(|row| row.address >> PAGE_SHIFT),
        signed(|row| row.address.saturating_add(row.size_bytes.saturating_sub(1)) >> PAGE_SHIFT),
        signed(|row| row.first_seen_ns),
        signed(|row| row.last_seen_ns),
        signed(|row| row.access_count),
        unsigned(|row| Some(row.address)),
        unsigned(|row| Some(row.size_bytes)),
        words(|row| &row.tensor),
        Arc::new(layers.finish()),
        unsigned(|row| Some(row.bytes_read)),
        unsigned(|row| Some(row.bytes_written)),
        words(|row| row.origin),
        unsigned(|row| row.file_offset),
        unsigned(|row| row.freed_ns),
    ];
    RecordBatch::try_new(schema(), columns).expect("the builders are the schema's columns, in order")
}
