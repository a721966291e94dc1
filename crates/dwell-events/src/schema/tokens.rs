//! `tokens`: one row per token, prompt tokens included.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{BooleanBuilder, Int32Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::{column, optional};

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

/// The rows as one batch of the table's schema.
pub fn batch(rows: &[TokenRow]) -> RecordBatch {
    let counts = |value: fn(&TokenRow) -> u32| -> ArrayRef {
        let mut builder = UInt32Builder::with_capacity(rows.len());
        rows.iter().for_each(|row| builder.append_value(value(row)));
        Arc::new(builder.finish())
    };
    let ordinals = |value: fn(&TokenRow) -> i32| -> ArrayRef {
        let mut builder = Int32Builder::with_capacity(rows.len());
        rows.iter().for_each(|row| builder.append_value(value(row)));
        Arc::new(builder.finish())
    };
    let wide = |value: fn(&TokenRow) -> Option<u64>| -> ArrayRef {
        let mut builder = UInt64Builder::with_capacity(rows.len());
        rows.iter().for_each(|row| builder.append_option(value(row)));
        Arc::new(builder.finish())
    };
    let mut texts = StringBuilder::new();
    let mut generated = BooleanBuilder::with_capacity(rows.len());
    for row in rows {
        texts.append_value(&row.text);
        generated.append_value(row.is_generated);
    }
    let columns = vec![
        counts(|row| row.token_index),
        counts(|row| row.step),
        ordinals(|row| row.sequence),
        ordinals(|row| row.position),
        ordinals(|row| row.token_id),
        Arc::new(texts.finish()),
        Arc::new(generated.finish()),
        wide(|row| Some(row.begin_ns)),
        wide(|row| Some(row.end_ns)),
        wide(|row| row.rss_bytes),
        wide(|row| row.kv_bytes),
    ];
    RecordBatch::try_new(schema(), columns).expect("the builders are the schema's columns, in order")
}
