//! `kv_block_lifecycle`: one row per life of a KV block: written, read k times, ended.
//!
//! A block is the key or the value of one position in one layer ([`KvBlockRow`]), or what a server's KV cache events
//! call a block: keys and values of several positions in all layers ([`KvEventBlockRow`]). Memory that is used again
//! for another position begins another life, in another row. The first eight columns are those of mrm-trace.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::StringBuilder;
use arrow_array::types::{Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::columns::{numbers, words};
use super::{Meaning, TextBuilder, column, meaning, optional, text};
use crate::PAGE_SHIFT;

/// How a life of a block began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BeginCause {
    /// The block was written.
    Written,
    /// Its process was forked from one that had written it.
    Inherited,
}

impl BeginCause {
    /// The name used in the table.
    pub fn name(self) -> &'static str {
        match self {
            BeginCause::Written => "written",
            BeginCause::Inherited => "inherited",
        }
    }
}

/// Why a life of a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndCause {
    /// Another position was written over it.
    Overwritten,
    /// Its sequence, or its part of the sequence, was removed.
    Removed,
    /// It was written again for the same token (a context shift rotates the keys); another life follows.
    Rewritten,
    /// The whole cache was emptied.
    Cleared,
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
            EndCause::Cleared => "cleared",
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
    /// When the block was written; when its process was forked, for one that is inherited.
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
    /// How it began.
    pub begin_cause: BeginCause,
}

impl KvBlockRow {
    /// From the write to the eviction, or to the last read of a block that was never evicted.
    pub fn lifetime_ns(&self) -> u64 {
        lifetime_ns(self.write_ns, self.last_read_ns, self.evict_ns)
    }

    /// How long the data was needed: from the write to the last read.
    pub fn retention_ns(&self) -> u64 {
        self.last_read_ns.unwrap_or(self.write_ns).saturating_sub(self.write_ns)
    }
}

fn lifetime_ns(write_ns: u64, last_read_ns: Option<u64>, evict_ns: Option<u64>) -> u64 {
    evict_ns.or(last_read_ns).unwrap_or(write_ns).saturating_sub(write_ns)
}

/// One life of one block that a server reported with KV cache events. Such events tell neither address nor layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEventBlockRow {
    /// Number of the life, counted over the run.
    pub block_id: u64,
    /// When the block was stored.
    pub write_ns: u64,
    /// When its reuse was last reported; none if it never was.
    pub last_read_ns: Option<u64>,
    /// When it was removed or cleared; none if that was not reported.
    pub evict_ns: Option<u64>,
    /// Reports of its reuse: stored again, or named as the parent of a block.
    pub total_reads: u64,
    /// Position of its first token in the prompt; none if its ancestors are not known up to the first.
    pub first_position: Option<i32>,
    /// Positions in the block; 0 if the event does not say.
    pub positions: u32,
    /// Size of the block, if it is known how many bytes a token takes.
    pub bytes: Option<u64>,
    /// How the life ended.
    pub end_cause: EndCause,
    /// Hash of the block as the server published it: decimal, or hexadecimal if it is not a number.
    pub block_hash: String,
    /// The same of the block before it.
    pub parent_hash: Option<String>,
    /// Where the block lies, in the server's words.
    pub medium: Option<Arc<str>>,
    /// Number of the server's group of layers.
    pub kv_group: Option<u32>,
    /// Data-parallel rank of the server.
    pub server_rank: Option<u32>,
    /// Name of the adapter that the block was computed with.
    pub lora: Option<Arc<str>>,
    /// Salted hash of its token ids.
    pub token_hash: Option<u64>,
    /// The token ids themselves, separated by spaces.
    pub token_ids: Option<String>,
}

impl KvEventBlockRow {
    /// From the store to the removal, or to the last reuse of a block that was never removed.
    pub fn lifetime_ns(&self) -> u64 {
        lifetime_ns(self.write_ns, self.last_read_ns, self.evict_ns)
    }
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            column("block_id", DataType::Int64),
            optional("address", DataType::Int64),
            optional("address_page", DataType::Int64),
            column("write_ns", DataType::Int64),
            optional("last_read_ns", DataType::Int64),
            optional("evict_ns", DataType::Int64),
            column("total_reads", DataType::Int64),
            column("lifetime_ns", DataType::Int64),
            optional("layer", DataType::UInt16),
            text("kind", true),
            optional("first_position", DataType::Int32),
            column("positions", DataType::UInt32),
            optional("sequence", DataType::Int32),
            optional("bytes", DataType::UInt64),
            optional("cell", DataType::UInt32),
            text("end_cause", false),
            optional("block_hash", DataType::Utf8),
            optional("parent_hash", DataType::Utf8),
            text("medium", true),
            optional("kv_group", DataType::UInt32),
            optional("server_rank", DataType::UInt32),
            text("lora", true),
            optional("token_hash", DataType::UInt64),
            optional("token_ids", DataType::Utf8),
            text("begin_cause", true),
        ]))
    });
    SCHEMA.clone()
}

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 25] = [
    meaning("block_id", "", "number of the life, from 0; lives of one process are numbered in the order in which they ended"),
    meaning("address", "", "first byte; in a transposed V cache the other bytes are spread behind it; missing for KV events"),
    meaning("address_page", "4 KiB pages", "`address >> 12`; missing for KV events"),
    meaning("write_ns", "ns", "when it was written; when its process was forked, if it is inherited"),
    meaning("last_read_ns", "ns", "when it was last read; missing if it never was; for KV events, when its reuse was last reported"),
    meaning("evict_ns", "ns", "when it was overwritten, rewritten, removed or cleared; missing if it stayed until the end"),
    meaning("total_reads", "", "operations that read it; for KV events, reports of its reuse, a lower bound"),
    meaning("lifetime_ns", "ns", "from `write_ns` to `evict_ns`, or to `last_read_ns` if it was not evicted; 0 if neither is there"),
    meaning("layer", "", "layer; missing for KV events, whose blocks span all layers of a group"),
    meaning("kind", "", "`k` or `v`; missing for KV events, whose blocks hold both"),
    meaning("first_position", "", "position in its sequence when it was written; missing if the collector could not see it"),
    meaning("positions", "positions", "positions in the block: 1; for KV events the server's block size, 0 if it does not say"),
    meaning("sequence", "", "sequence that wrote it; missing if the program does not report its batches"),
    meaning("bytes", "bytes", "size of the block; missing for KV events if the bytes of a token are not known"),
    meaning("cell", "", "cell of the cache, counted over all streams; missing for KV events"),
    meaning("end_cause", "", "`overwritten`, `removed`, `rewritten` (for the same token, by a context shift), `cleared` (with the whole cache) or `teardown`"),
    meaning("block_hash", "", "hash of the block as the server published it: decimal, or hexadecimal for bytes; KV events only"),
    meaning("parent_hash", "", "hash of the block before it; missing for the first of a prompt; KV events only"),
    meaning("medium", "", "where it lies, in the server's words: `GPU`, `CPU`, …; KV events only"),
    meaning("kv_group", "", "number of the server's group of layers; KV events only"),
    meaning("server_rank", "", "data-parallel rank of the server; KV events only"),
    meaning("lora", "", "name of the adapter that it was computed with; KV events only"),
    meaning("token_hash", "", "salted hash of its token ids, the same for the same tokens within a run; KV events only"),
    meaning("token_ids", "", "its token ids, separated by spaces, if they were to be kept; KV events only"),
    meaning("begin_cause", "", "`written`, or `inherited`: its process was forked from one that had written it, and nothing was stored; missing in tables of dwell 0.1, where it stands for `written`"),
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
    let schema = schema();
    let only_of_kv_events = schema.fields()[columns.len()..schema.fields().len() - 1].iter();
    let missing = only_of_kv_events.map(|field| new_null_array(field.data_type(), rows.len()));
    let begin_causes = words(rows, |row| row.begin_cause.name());
    let columns = columns.into_iter().chain(missing).chain([begin_causes]).collect();
    RecordBatch::try_new(schema.clone(), columns).expect("the columns are the schema's, in order")
}

/// Lives that KV cache events reported, as one batch of the table's schema.
pub fn event_batch(rows: &[KvEventBlockRow]) -> RecordBatch {
    let signed = |value: fn(&KvEventBlockRow) -> Option<i64>| numbers::<Int64Type, _>(rows, value);
    let missing = |name: &str| {
        let schema = schema();
        new_null_array(schema.field_with_name(name).expect("a column of the table").data_type(), rows.len())
    };
    let columns = vec![
        signed(|row| Some(row.block_id as i64)),
        missing("address"),
        missing("address_page"),
        signed(|row| Some(row.write_ns as i64)),
        signed(|row| row.last_read_ns.map(|time_ns| time_ns as i64)),
        signed(|row| row.evict_ns.map(|time_ns| time_ns as i64)),
        signed(|row| Some(row.total_reads as i64)),
        signed(|row| Some(row.lifetime_ns() as i64)),
        missing("layer"),
        missing("kind"),
        numbers::<Int32Type, _>(rows, |row| row.first_position),
        numbers::<UInt32Type, _>(rows, |row| Some(row.positions)),
        missing("sequence"),
        numbers::<UInt64Type, _>(rows, |row| row.bytes),
        missing("cell"),
        words(rows, |row| row.end_cause.name()),
        strings(rows, |row| Some(&row.block_hash)),
        strings(rows, |row| row.parent_hash.as_deref()),
        optional_words(rows, |row| row.medium.as_deref()),
        numbers::<UInt32Type, _>(rows, |row| row.kv_group),
        numbers::<UInt32Type, _>(rows, |row| row.server_rank),
        optional_words(rows, |row| row.lora.as_deref()),
        numbers::<UInt64Type, _>(rows, |row| row.token_hash),
        strings(rows, |row| row.token_ids.as_deref()),
        words(rows, |_| BeginCause::Written.name()),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are the schema's, in order")
}

/// A column of text with many distinct values; a row without one is missing in it.
fn strings<Row>(rows: &[Row], value: fn(&Row) -> Option<&str>) -> ArrayRef {
    let mut builder = StringBuilder::new();
    rows.iter().for_each(|row| builder.append_option(value(row)));
    Arc::new(builder.finish())
}

/// A column of text with few distinct values; a row without one is missing in it.
fn optional_words<Row>(rows: &[Row], value: fn(&Row) -> Option<&str>) -> ArrayRef {
    let mut builder = TextBuilder::new();
    rows.iter().for_each(|row| builder.append_option(value(row)));
    Arc::new(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;

    #[test]
    fn what_kv_events_cannot_know_is_missing_and_what_they_know_is_there() {
        let row = KvEventBlockRow {
            block_id: 7,
            write_ns: 100,
            last_read_ns: Some(150),
            evict_ns: Some(300),
            total_reads: 2,
            first_position: Some(16),
            positions: 16,
            bytes: None,
            end_cause: EndCause::Cleared,
            block_hash: "-3".to_owned(),
            parent_hash: None,
            medium: Some("GPU".into()),
            kv_group: Some(1),
            server_rank: None,
            lora: None,
            token_hash: Some(u64::MAX),
            token_ids: None,
        };
        let batch = event_batch(std::slice::from_ref(&row));
        let is_missing = |name: &str| batch.column_by_name(name).unwrap().is_null(0);
        for name in ["address", "address_page", "layer", "kind", "sequence", "cell", "bytes", "parent_hash", "lora"] {
            assert!(is_missing(name), "{name}");
        }
        for name in
            ["write_ns", "evict_ns", "block_hash", "medium", "kv_group", "token_hash", "end_cause", "begin_cause"]
        {
            assert!(!is_missing(name), "{name}");
        }
        assert_eq!(row.lifetime_ns(), 200);
    }
}
