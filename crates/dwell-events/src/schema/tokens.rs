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
    /// Position in that sequence.
    pub position: i32,
    /// Id in the model's vocabulary.
    pub token_id: i32,
    /// Its text; a piece that is not whole UTF-8 shows the replacement character.
    pub text: String,
    /// Whether the model produced it.
    pub is_generated: bool,
    /// When the computation that gave it began; for prompt tokens, that consumed it.
    pub begin_ns: u64,
    /// When that computation ended.
    pub end_ns: u64,
    /// Resident memory of the worker at that moment, from the nearest earlier sample.
    pub rss_bytes: Option<u64>,
    /// Bytes of KV cache in use after it.
    pub kv_bytes: Option<u64>,
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            column("token_index", DataType::UInt32),
            column("step", DataType::UInt32),
            column("sequence", DataType::Int32),
            column("position", DataType::Int32),
            column("token_id", DataType::Int32),
            column("text", DataType::Utf8),
            column("is_generated", DataType::Boolean),
            column("begin_ns", DataType::UInt64),
            column("end_ns", DataType::UInt64),
            optional("rss_bytes", DataType::UInt64),
            optional("kv_bytes", DataType::UInt64),
        ]))
    });
    SCHEMA.clone()
}

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 11] = [
    meaning("token_index", "", "number of the token in the run, from 0"),
    meaning("step", "", "0 for a prompt token and for the token chosen after a prompt; n for the token chosen after decode step n"),
    meaning("sequence", "", "sequence"),
    meaning("position", "", "position in the sequence"),
    meaning("token_id", "", "id in the model's vocabulary"),
    meaning("text", "", "its text; a character that several tokens make up comes with the last of them"),
    meaning("is_generated", "", "whether the model chose it"),
    meaning("begin_ns", "ns", "when the computation began that gave it, or for a prompt token, that consumed it"),
    meaning("end_ns", "ns", "when that computation had ended"),
    meaning("rss_bytes", "bytes", "the worker's resident memory in the last process sample before `end_ns`; missing without samples"),
    meaning("kv_bytes", "bytes", "bytes of all living KV blocks at `end_ns`"),
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
        ordinals(|row| Some(row.position)),
        ordinals(|row| Some(row.token_id)),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.text))),
        Arc::new(rows.iter().map(|row| Some(row.is_generated)).collect::<BooleanArray>()),
        wide(|row| Some(row.begin_ns)),
        wide(|row| Some(row.end_ns)),
        wide(|row| row.rss_bytes),
        wide(|row| row.kv_bytes),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are the schema's, in order")
}
