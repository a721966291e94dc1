//! `loss`: what is missing from the other tables, counted and named.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_array::types::UInt64Type;
use arrow_schema::{DataType, Schema, SchemaRef};

use super::columns::{numbers, words};
use super::{Meaning, column, meaning, optional, text};
use crate::LossKind;

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

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 7] = [
    meaning("kind", "", "what is missing"),
    meaning("severity", "", "`info`, or `data_loss` if rows that should be there are missing"),
    meaning("source", "", "collector that counted it"),
    meaning("count", "", "how often"),
    meaning("bytes", "bytes", "how many bytes it concerns, where that is known"),
    meaning("detail", "", "what exactly; of several occurrences, the first"),
    meaning("advice", "", "what it means for the reader of the tables"),
];

/// The rows as one batch of the table's schema.
pub fn batch(rows: &[LossRow]) -> RecordBatch {
    let columns = vec![
        words(rows, |row| row.kind.name()),
        words(rows, |row| row.kind.severity().name()),
        words(rows, |row| row.source),
        numbers::<UInt64Type, _>(rows, |row| Some(row.count)),
        numbers::<UInt64Type, _>(rows, |row| row.bytes),
        words(rows, |row| &row.detail),
        words(rows, |row| row.kind.advice()),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are the schema's, in order")
}
