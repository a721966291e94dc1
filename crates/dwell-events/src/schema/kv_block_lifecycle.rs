//! `kv_block_lifecycle`: one row per life of a KV block: written, read k times, ended.
//!
//! A block is the key or the value of one position in one layer. Memory that is used again for another position
//! begins another life, in another row. The first eight columns are those of mrm-trace.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_array::types::{Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::columns::{numbers, words};
use super::{Meaning, column, meaning, optional, text};
use crate::PAGE_SHIFT;

/// Why a life of a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndCause {
    /// Another position was written over it.
    Overwritten,
    /// Its sequence, or its part of the sequence, was removed.
    Removed,
    /// It was written again for the same token (a context shift rotates the keys); another life follows.
    Rewritten,
    /// The cache was given back at the end of the run while the block was in it.
    Teardown,
}

impl EndCause {
    /// The name used in the table.
    pub fn name(self) -> &'static str {
        match self {
            EndCause::Overwritten => "overwritten",
            EndCause::Removed => "removed",
            EndCause::Rewritten => "rewritten",
            EndCause::Teardown => "teardown",
        }
    }
}

/// Key or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KvKind {
    /// Keys.
    K,
    /// Values.
    V,
}

impl KvKind {
    /// The name used in the table.
    pub fn name(self) -> &'static str {
        match self {
            KvKind::K => "k",
            KvKind::V => "v",
        }
    }
}

/// One life of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvBlockRow {
    /// Number of the life, counted over the run.
    pub block_id: u64,
    /// First byte of the block. With a transposed V cache the other bytes are spread behind it.
    pub address: u64,
    /// When the block was written.
    pub write_ns: u64,
    /// When it was last read; none if it never was.
    pub last_read_ns: Option<u64>,
    /// When it was overwritten, rewritten or removed; none if it stayed until teardown.
    pub evict_ns: Option<u64>,
    /// Operations that read it.
    pub total_reads: u64,
    /// Layer.
    pub layer: u16,
    /// Key or value.
    pub kind: KvKind,
    /// Position in the sequence when it was written; none if the collector could not see it.
    pub first_position: Option<i32>,
    /// Positions in the block.
    pub positions: u32,
    /// Sequence that wrote it; none if the collector could not see it.
    pub sequence: Option<i32>,
    /// Size of the block.
    pub bytes: u64,
    /// Cell of the cache that held it.
    pub cell: u32,
    /// How the life ended.
    pub end_cause: EndCause,
}

impl KvBlockRow {
    /// From the write to the eviction, or to the last read of a block that was never evicted.
    pub fn lifetime_ns(&self) -> u64 {
        let end_ns = self.evict_ns.or(self.last_read_ns).unwrap_or(self.write_ns);
        end_ns.saturating_sub(self.write_ns)
    }

    /// How long the data was needed: from the write to the last read.
    pub fn retention_ns(&self) -> u64 {
        self.last_read_ns.unwrap_or(self.write_ns).saturating_sub(self.write_ns)
    }
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            column("block_id", DataType::Int64),
            column("address", DataType::Int64),
            column("address_page", DataType::Int64),
            column("write_ns", DataType::Int64),
            optional("last_read_ns", DataType::Int64),
            optional("evict_ns", DataType::Int64),
            column("total_reads", DataType::Int64),
            column("lifetime_ns", DataType::Int64),
            column("layer", DataType::UInt16),
            text("kind", false),
            optional("first_position", DataType::Int32),
            column("positions", DataType::UInt32),
            optional("sequence", DataType::Int32),
            column("bytes", DataType::UInt64),
            column("cell", DataType::UInt32),
            text("end_cause", false),
        ]))
    });
    SCHEMA.clone()
}

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 16] = [
    meaning("block_id", "", "number of the life, from 0, in the order in which lives ended"),
    meaning("address", "", "first byte; in a transposed V cache the other bytes are spread behind it"),
    meaning("address_page", "4 KiB pages", "`address >> 12`"),
    meaning("write_ns", "ns", "when it was written"),
    meaning("last_read_ns", "ns", "when it was last read; missing if it never was"),
    meaning("evict_ns", "ns", "when it was overwritten, rewritten or removed; missing if it stayed until the end"),
    meaning("total_reads", "", "operations that read it"),
    meaning("lifetime_ns", "ns", "from `write_ns` to `evict_ns`, or to `last_read_ns` if it was not evicted; 0 if neither is there"),
    meaning("layer", "", "layer"),
    meaning("kind", "", "`k` or `v`"),
    meaning("first_position", "", "position in its sequence when it was written; missing if the collector could not see it"),
    meaning("positions", "positions", "positions in the block: 1"),
    meaning("sequence", "", "sequence that wrote it; missing if the program does not report its batches"),
    meaning("bytes", "bytes", "size of the block"),
    meaning("cell", "", "cell of the cache, counted over all streams"),
    meaning("end_cause", "", "`overwritten`, `removed`, `rewritten` (for the same token, by a context shift) or `teardown`"),
];

/// Gathers lives into batches.
#[derive(Default)]
pub struct KvBlockBuilder {
    rows: Vec<KvBlockRow>,
}

impl KvBlockBuilder {
    /// Rows gathered since the last batch.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing was gathered since the last batch.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds one life.
    pub fn push(&mut self, row: KvBlockRow) {
        self.rows.push(row);
    }

    /// The gathered rows as a batch of the table's schema; the builder is empty afterwards.
    pub fn finish_batch(&mut self) -> RecordBatch {
        let batch = batch(&self.rows);
        self.rows.clear();
        batch
    }
}

fn batch(rows: &[KvBlockRow]) -> RecordBatch {
    // Signed where mrm-trace has signed columns; user-space addresses and nanoseconds stay below 2^63.
    let signed = |value: fn(&KvBlockRow) -> Option<i64>| numbers::<Int64Type, _>(rows, value);
    let columns = vec![
        signed(|row| Some(row.block_id as i64)),
        signed(|row| Some(row.address as i64)),
        signed(|row| Some((row.address >> PAGE_SHIFT) as i64)),
        signed(|row| Some(row.write_ns as i64)),
        signed(|row| row.last_read_ns.map(|time_ns| time_ns as i64)),
        signed(|row| row.evict_ns.map(|time_ns| time_ns as i64)),
        signed(|row| Some(row.total_reads as i64)),
        signed(|row| Some(row.lifetime_ns() as i64)),
        numbers::<UInt16Type, _>(rows, |row| Some(row.layer)),
        words(rows, |row| row.kind.name()),
        numbers::<Int32Type, _>(rows, |row| row.first_position),
        numbers::<UInt32Type, _>(rows, |row| Some(row.positions)),
        numbers::<Int32Type, _>(rows, |row| row.sequence),
        numbers::<UInt64Type, _>(rows, |row| Some(row.bytes)),
        numbers::<UInt32Type, _>(rows, |row| Some(row.cell)),
        words(rows, |row| row.end_cause.name()),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are the schema's, in order")
}
