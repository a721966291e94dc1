//! The raw stream: batches as they came, `raw/kv_events.arrows`.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow_array::Array;
use arrow_array::RecordBatch;
use arrow_array::builder::{BinaryBuilder, BooleanBuilder, UInt32Builder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use dwell_store::{RawCompression, RawReader, RawWriter, StoreError, StreamEnd};

/// Payload that is gathered before it is handed on.
const GATHERED_MAX_BYTES: usize = 1 << 20;
/// Batches that are gathered before they are handed on.
const GATHERED_MAX_ROWS: usize = 1024;

/// One message of a server, undecoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawBatch {
    /// Number that the server gave it.
    pub sequence: u64,
    /// Which server it came from: another took the place of the first, and so on.
    pub publisher: u32,
    /// When it came, in nanoseconds of CLOCK_MONOTONIC; none if it was recorded by others.
    pub received_ns: Option<u64>,
    /// Whether it had to be asked for a second time.
    pub is_replayed: bool,
    /// Topic that it was published under.
    pub topic: Vec<u8>,
    /// The events, encoded.
    pub payload: Vec<u8>,
}

/// Columns of the stream.
pub fn raw_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            Field::new("sequence", DataType::UInt64, false),
            Field::new("publisher", DataType::UInt32, false),
            Field::new("received_ns", DataType::UInt64, true),
            Field::new("is_replayed", DataType::Boolean, false),
            Field::new("topic", DataType::Binary, false),
            Field::new("payload", DataType::Binary, false),
        ]))
    });
    SCHEMA.clone()
}

/// Writes the stream.
pub struct RawBatchWriter {
    writer: RawWriter,
    gathered: Gathered,
}

#[derive(Default)]
struct Gathered {
    sequences: UInt64Builder,
    publishers: UInt32Builder,
    received_ns: UInt64Builder,
    is_replayed: BooleanBuilder,
    topics: BinaryBuilder,
    payloads: BinaryBuilder,
    rows: usize,
    payload_bytes: usize,
}

impl RawBatchWriter {
    /// Begins the stream; a file that exists is refused.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let writer = RawWriter::create(path, raw_schema(), RawCompression::None)?;
        Ok(Self { writer, gathered: Gathered::default() })
    }

    /// Adds a batch. It is safe from the death of this process after the next [`RawBatchWriter::flush`].
    pub fn push(&mut self, batch: &RawBatch) -> Result<(), StoreError> {
        let gathered = &mut self.gathered;
        gathered.push(batch);
        if gathered.rows >= GATHERED_MAX_ROWS || gathered.payload_bytes >= GATHERED_MAX_BYTES {
            self.write_gathered()?;
        }
        Ok(())
    }

    /// Hands everything to the kernel.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.write_gathered()?;
        self.writer.flush()
    }

    /// Ends the stream.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.write_gathered()?;
        self.writer.finish()
    }

    fn write_gathered(&mut self) -> Result<(), StoreError> {
        match self.gathered.rows {
            0 => Ok(()),
            _ => self.writer.write(&self.gathered.finish_batch()),
        }
    }
}

impl Gathered {
    fn push(&mut self, batch: &RawBatch) {
        self.sequences.append_value(batch.sequence);
        self.publishers.append_value(batch.publisher);
        self.received_ns.append_option(batch.received_ns);
        self.is_replayed.append_value(batch.is_replayed);
        self.topics.append_value(&batch.topic);
        self.payloads.append_value(&batch.payload);
        self.rows += 1;
        self.payload_bytes += batch.payload.len();
    }

    fn finish_batch(&mut self) -> RecordBatch {
        self.rows = 0;
        self.payload_bytes = 0;
        RecordBatch::try_new(
            raw_schema(),
            vec![
                Arc::new(self.sequences.finish()),
                Arc::new(self.publishers.finish()),
                Arc::new(self.received_ns.finish()),
                Arc::new(self.is_replayed.finish()),
                Arc::new(self.topics.finish()),
                Arc::new(self.payloads.finish()),
            ],
        )
        .expect("the builders are the schema's columns, in order")
    }
}

/// Reads the stream back, however it ended.
pub(crate) struct RawBatches {
    /// `None` if not even the header was written.
    reader: Option<RawReader>,
    rows: std::vec::IntoIter<RawBatch>,
    is_torn: bool,
}

/// A batch, or a place that could not be read.
pub(crate) enum RawItem {
    Batch(RawBatch),
    Damage(String),
}

impl RawBatches {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let (reader, is_torn) = match RawReader::open(path) {
            Ok(reader) => (Some(reader), false),
            Err(StoreError::TruncatedHeader { found_bytes, .. }) => (None, found_bytes > 0),
            Err(error) => return Err(error),
        };
        if reader.as_ref().is_some_and(|reader| reader.schema().fields() != raw_schema().fields()) {
            let reason = "its columns are not those of KV events".to_owned();
            return Err(StoreError::DamagedHeader { reason, path: path.to_owned() });
        }
        Ok(Self { reader, rows: Vec::new().into_iter(), is_torn })
    }
}

impl Iterator for RawBatches {
    type Item = RawItem;

    fn next(&mut self) -> Option<RawItem> {
        loop {
            if let Some(batch) = self.rows.next() {
                return Some(RawItem::Batch(batch));
            }
            match self.reader.as_mut().and_then(Iterator::next) {
                Some(Ok(batch)) => self.rows = rows_of(&batch).into_iter(),
                Some(Err(error)) => return Some(RawItem::Damage(error.to_string())),
                None => {
                    let end = self.reader.take().and_then(|reader| reader.end());
                    let is_torn = std::mem::take(&mut self.is_torn) || matches!(end, Some(StreamEnd::Truncated { .. }));
                    return is_torn.then(|| RawItem::Damage("the stream stops inside a batch".to_owned()));
                }
            }
        }
    }
}

fn rows_of(batch: &RecordBatch) -> Vec<RawBatch> {
    let sequences = batch.column(0).as_primitive::<UInt64Type>();
    let publishers = batch.column(1).as_primitive::<UInt32Type>();
    let received_ns = batch.column(2).as_primitive::<UInt64Type>();
    let is_replayed = batch.column(3).as_boolean();
    let topics = batch.column(4).as_binary::<i32>();
    let payloads = batch.column(5).as_binary::<i32>();
    let row = |row| RawBatch {
        sequence: sequences.value(row),
        publisher: publishers.value(row),
        received_ns: received_ns.is_valid(row).then(|| received_ns.value(row)),
        is_replayed: is_replayed.value(row),
        topic: topics.value(row).to_vec(),
        payload: payloads.value(row).to_vec(),
    };
    (0..batch.num_rows()).map(row).collect()
}
