//! The recorder's records, read back from their raw stream however it ended.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt16Type, UInt64Type};
use dwell_files::FileError;
use dwell_records::Frame;
use dwell_store::{RawReader, StoreError, StreamEnd, records_schema};

/// Reads the batches of a stream of records.
pub(crate) struct RawRecords {
    /// `None` if not even the header was written.
    reader: Option<RawReader>,
    file_bytes: u64,
    is_last_batch_damaged: bool,
}

impl RawRecords {
    /// Opens a stream. One that is not there, or that was cut in its header, has no records.
    pub(crate) fn open(stream: &Path) -> Result<Self, StoreError> {
        let reader = match RawReader::open(stream) {
            Ok(reader) => Some(reader),
            Err(StoreError::File(FileError::NotFound { .. }) | StoreError::TruncatedHeader { .. }) => None,
            Err(error) => return Err(error),
        };
        if reader.as_ref().is_some_and(|reader| reader.schema().fields() != records_schema().fields()) {
            return Err(StoreError::DamagedHeader {
                reason: "its columns are not those of records".to_owned(),
                path: stream.to_owned(),
            });
        }
        let file_bytes = std::fs::metadata(stream).map_or(0, |metadata| metadata.len());
        Ok(Self { reader, file_bytes, is_last_batch_damaged: false })
    }

    /// Whether there is a stream that more records can be appended to.
    pub(crate) fn has_header(&self) -> bool {
        self.reader.is_some()
    }

    /// The next batch that can be read.
    pub(crate) fn next_batch(&mut self) -> Option<RecordBatch> {
        loop {
            match self.reader.as_mut()?.next()? {
                Ok(batch) => {
                    self.is_last_batch_damaged = false;
                    return Some(batch);
                }
                Err(_) => self.is_last_batch_damaged = true,
            }
        }
    }

    /// Bytes of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Bytes of the file that were read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.reader.as_ref().map_or(self.file_bytes, RawReader::whole_bytes)
    }

    /// Whether the stream was read to its end and that is not whole, so that records after the last one may be missing.
    pub(crate) fn has_torn_end(&self) -> bool {
        let is_torn = match &self.reader {
            Some(reader) => {
                matches!(reader.end(), Some(StreamEnd::Truncated { bytes_dropped, .. }) if bytes_dropped > 0)
            }
            None => self.file_bytes > 0,
        };
        is_torn || self.is_last_batch_damaged
    }
}

/// One record of a batch.
pub(crate) fn frame_at(batch: &RecordBatch, row: usize) -> Frame<'_> {
    Frame {
        sequence: batch.column(0).as_primitive::<UInt64Type>().value(row),
        kind: batch.column(1).as_primitive::<UInt16Type>().value(row),
        time_ns: batch.column(2).as_primitive::<UInt64Type>().value(row),
        payload: batch.column(3).as_binary::<i32>().value(row),
    }
}
