//! `loss`: what is missing from the other tables, counted and named.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::UInt64Builder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::{TextBuilder, column, optional, text};
use crate::{LossKind, Severity};

/// One kind of loss in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossRow {
    /// What is missing.
    pub kind: LossKind,
    /// Collector that counted it.
    pub source: &'static str,
    /// How often it happened.
    pub count: u64,
    /// How many bytes it concerns, where that is known.
    pub bytes: Option<u64>,
    /// What exactly, in words.
    pub detail: String,
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            text("kind", false),
            text("severity", false),
            text("source", false),
            column("count", DataType::UInt64),
            optional("bytes", DataType::UInt64),
            text("detail", false),
            text("advice", false),
        ]))
    });
    SCHEMA.clone()
}

/// The rows as one batch of the table's schema.
pub fn batch(rows: &[LossRow]) -> RecordBatch {
    let words = |value: fn(&LossRow) -> &str| -> ArrayRef {
        let mut builder = TextBuilder::new();
        rows.iter().for_each(|row| builder.append_value(value(row)));
        Arc::new(builder.finish())
    };
    let wide = |value: fn(&LossRow) -> Option<u64>| -> ArrayRef {
        let mut builder = UInt64Builder::with_capacity(rows.len());
        rows.iter().for_each(|row| builder.append_option(value(row)));
        Arc::new(builder.finish())
    };
    let columns = vec![
        words(|row| row.kind.name()),
        words(|row| match row.kind.severity() {
            Severity::Info => "info",
            Severity::DataLoss => "data_loss",
        }),
        words(|row| row.source),
        wide(|row| Some(row.count)),
        wide(|row| row.bytes),
        words(|row| &row.detail),
        words(|row| row.kind.advice()),
    ];
    RecordBatch::try_new(schema(), columns).expect("the builders are the schema's columns, in order")
}
