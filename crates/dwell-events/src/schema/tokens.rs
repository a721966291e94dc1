//! `tokens`: one row per token, prompt tokens included.

use std::sync::{Arc, LazyLock};

use arrow_array::types::{Int32Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::columns::numbers;
use super::{Meaning, column, meaning, optional};

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// Number of the token, counted over the run in order of appearance.
    pub token_index: u32,
    /// 0 for the prompt, n for the n-th decoded token.
    pub step: u32,
    /// Sequence it belongs to.
    pub sequence: i32,
    /// Position in that sequence; missing if the engine does not say.
    pub position: Option<i32>,
    /// Id in the model's vocabulary; missing if the engine does not say.
    pub token_id: Option<i32>,
    /// Its text; a piece that is not whole UTF-8 shows the replacement character.
    pub text: String,
    /// Whether the model produced it.
    pub is_generated: bool,
    /// When the computation that gave it began; for prompt tokens, that consumed it.
    pub begin_ns: u64,
    /// When that computation ended.
    pub end_ns: u64,
    /// Resident memory of the engine's processes at that moment, between the two samples around it.
    pub rss_bytes: Option<u64>,
    /// Bytes of KV cache in use after it.
    pub kv_bytes: Option<u64>,
    /// Proportional share of resident memory at that moment.
    pub pss_bytes: Option<u64>,
    /// Resident anonymous memory at that moment.
    pub anon_bytes: Option<u64>,
    /// Memory on GPUs at that moment.
    pub gpu_bytes: Option<u64>,
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            column("token_index", DataType::UInt32),
            column("step", DataType::UInt32),
            column("sequence", DataType::Int32),
            optional("position", DataType::Int32),
            optional("token_id", DataType::Int32),
            column("text", DataType::Utf8),
            column("is_generated", DataType::Boolean),
            column("begin_ns", DataType::UInt64),
            column("end_ns", DataType::UInt64),
            optional("rss_bytes", DataType::UInt64),
            optional("kv_bytes", DataType::UInt64),
            optional("pss_bytes", DataType::UInt64),
            optional("anon_bytes", DataType::UInt64),
            optional("gpu_bytes", DataType::UInt64),
        ]))
    });
    SCHEMA.clone()
}

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 14] = [
    meaning("token_index", "", "number of the token in the run, from 0"),
    meaning("step", "", "0 for a prompt token and for the token chosen after a prompt; n for the token chosen after decode step n"),
    meaning("sequence", "", "sequence"),
    meaning("position", "", "position in the sequence; missing where a server does not say"),
    meaning("token_id", "", "id in the model's vocabulary; missing where a server does not say"),
    meaning("text", "", "its text; a character that several tokens make up comes with the last of them"),
    meaning("is_generated", "", "whether the model chose it"),
    meaning("begin_ns", "ns", "when the computation began that gave it, or for a prompt token, that consumed it"),
    meaning("end_ns", "ns", "when that computation had ended"),
    meaning("rss_bytes", "bytes", "resident memory of the engine's processes at `end_ns`, interpolated between the two samples around it; missing without them"),
    meaning("kv_bytes", "bytes", "bytes of all living KV blocks at `end_ns`; missing where accesses are not recorded"),
    meaning("pss_bytes", "bytes", "resident memory with shared pages divided among those who share them, interpolated in the same way"),
    meaning("anon_bytes", "bytes", "resident anonymous memory, interpolated in the same way"),
    meaning("gpu_bytes", "bytes", "memory on NVIDIA GPUs, interpolated in the same way"),
];

/// The rows as one batch of the table's schema.
pub fn batch(rows: &[TokenRow]) -> RecordBatch {
    let counts = |value: fn(&TokenRow) -> Option<u32>| numbers::<UInt32Type, _>(rows, value);
    let ordinals = |value: fn(&TokenRow) -> Option<i32>| numbers::<Int32Type, _>(rows, value);
    let wide = |value: fn(&TokenRow) -> Option<u64>| numbers::<UInt64Type, _>(rows, value);
    let columns: Vec<ArrayRef> = vec![
        counts(|row| Some(row.token_index)),
        counts(|row| Some(row.step)),
        ordinals(|row| Some(row.sequence)),
        ordinals(|row| row.position),
        ordinals(|row| row.token_id),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.text))),
        Arc::new(rows.iter().map(|row| Some(row.is_generated)).collect::<BooleanArray>()),
        wide(|row| Some(row.begin_ns)),
        wide(|row| Some(row.end_ns)),
        wide(|row| row.rss_bytes),
        wide(|row| row.kv_bytes),
        wide(|row| row.pss_bytes),
        wide(|row| row.anon_bytes),
        wide(|row| row.gpu_bytes),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are the schema's, in order")
}
