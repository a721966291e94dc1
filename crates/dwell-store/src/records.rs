//! The main raw stream: records as the collectors made them, undecoded.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_array::builder::{BinaryBuilder, UInt16Builder, UInt64Builder};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// Columns of `raw/records.arrows`.
///
/// | column | type | meaning |
/// | --- | --- | --- |
/// | sequence | u64 | number given by the recorder; a gap is a loss |
/// | kind | u16 | which of the recorder's record types the payload is |
/// | timestamp_ns | u64 | CLOCK_MONOTONIC nanoseconds |
/// | payload | binary | the record, encoded by the crate that owns the kind |
pub fn records_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            Field::new("sequence", DataType::UInt64, false),
            Field::new("kind", DataType::UInt16, false),
            Field::new("timestamp_ns", DataType::UInt64, false),
            Field::new("payload", DataType::Binary, false),
        ]))
    });
    SCHEMA.clone()
}

/// Gathers records into batches.
#[derive(Default)]
pub struct RecordsBuilder {
    sequences: UInt64Builder,
    kinds: UInt16Builder,
    timestamps_ns: UInt64Builder,
    payloads: BinaryBuilder,
    rows: usize,
    payload_bytes: usize,
}

impl RecordsBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one record. A batch holds at most 2 GiB of payload: finish it long before.
    pub fn push(&mut self, sequence: u64, kind: u16, timestamp_ns: u64, payload: &[u8]) {
        self.sequences.append_value(sequence);
        self.kinds.append_value(kind);
        self.timestamps_ns.append_value(timestamp_ns);
        self.payloads.append_value(payload);
        self.rows += 1;
        self.payload_bytes += payload.len();
    }

    /// Records gathered since the last batch.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether nothing was gathered since the last batch.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of payload gathered since the last batch.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// The gathered records as a batch; the builder is empty afterwards.
    pub fn finish_batch(&mut self) -> RecordBatch {
        self.rows = 0;
        self.payload_bytes = 0;
        RecordBatch::try_new(
            records_schema(),
            vec![
                Arc::new(self.sequences.finish()),
                Arc::new(self.kinds.finish()),
                Arc::new(self.timestamps_ns.finish()),
                Arc::new(self.payloads.finish()),
            ],
        )
        .expect("the builders are the schema's columns, in order")
    }
}
