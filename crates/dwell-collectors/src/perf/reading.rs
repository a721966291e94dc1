//! The thread that takes records out of the rings and appends them to the raw stream.

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use dwell_perf::RingReader;
use dwell_store::{RawWriter, StoreError};

use super::stream;

/// How long the thread waits for a ring that fills slowly.
const WAIT: Duration = Duration::from_millis(50);
/// How long records may wait in memory, which is what a kill of the observer can lose of them.
const WRITE_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes of records in a batch, about: a damaged one costs as many.
const BATCH_BYTES: usize = 1 << 20;

/// Columns of the raw stream: pieces of a recording, each of whole records.
pub(super) fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> =
        LazyLock::new(|| Arc::new(Schema::new(vec![Field::new("records", DataType::Binary, false)])));
    SCHEMA.clone()
}

/// Records on their way into the raw stream.
pub(super) struct RecordWriter {
    stream: RawWriter,
    pending: Vec<u8>,
    written_at: Instant,
}

impl RecordWriter {
    pub(super) fn begin(stream: RawWriter) -> Self {
        Self { stream, pending: stream::head(), written_at: Instant::now() }
    }

    pub(super) fn push(&mut self, records: &[u8]) {
        self.pending.extend_from_slice(records);
    }

    /// Writes what has gathered, if it is time to.
    pub(super) fn write_if_due(&mut self) -> Result<(), StoreError> {
        let is_due = self.pending.len() >= BATCH_BYTES || self.written_at.elapsed() >= WRITE_INTERVAL;
        if is_due { self.write() } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> Result<(), StoreError> {
        self.write()?;
        self.stream.finish()
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.written_at = Instant::now();
        if self.pending.is_empty() {
            return Ok(());
        }
        let records: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&self.pending]));
        let batch = RecordBatch::try_new(schema(), vec![records]).expect("the column is the schema's");
        self.stream.write(&batch)?;
        self.pending.clear();
        self.stream.flush()
    }
}

/// Empties the rings until it is stopped, and once more.
pub(super) fn read_rings(
    mut rings: RingReader,
    notes: &Receiver<Vec<u8>>,
    is_stopped: &AtomicBool,
    mut writer: RecordWriter,
) -> Result<(), StoreError> {
    let mut drained = Vec::new();
    loop {
        let is_last = is_stopped.load(Ordering::Acquire);
        if !is_last {
            rings.wait(WAIT);
        }
        drained.clear();
        rings.drain(&mut drained);
        // Looked at after the rings: an event was noted before it could put a record there, and is to be known before it.
        notes.try_iter().for_each(|note| writer.push(&note));
        if !drained.is_empty() {
            writer.push(&drained);
            writer.push(&stream::round_ends());
        }
        if is_last {
            return writer.finish();
        }
        writer.write_if_due()?;
    }
}
