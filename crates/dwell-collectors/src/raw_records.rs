//! The recorder's records, read back from their raw stream however it ended.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt16Type, UInt64Type};
use dwell_files::FileError;
use dwell_records::Frame;
use dwell_store::{RawReader, StoreError, StreamEnd, records_schema};

/// Reads the batches of a stream of records and counts the records that are missing from it.
pub(crate) struct RawRecords {
    /// `None` if not even the header was written.
    reader: Option<RawReader>,
    file_bytes: u64,
    next_sequence: u64,
    missing: u64,
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
        Ok(Self { reader, file_bytes, next_sequence: 0, missing: 0, is_last_batch_damaged: false })
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
                    self.count(&batch);
                    return Some(batch);
                }
                Err(_) => self.is_last_batch_damaged = true,
            }
        }
    }

    /// Records are numbered without gaps, so a gap is a loss.
    fn count(&mut self, batch: &RecordBatch) {
        let sequences = batch.column(0).as_primitive::<UInt64Type>().values();
        if let (Some(&first), Some(&last)) = (sequences.first(), sequences.last()) {
            self.missing = self.missing.saturating_add(first.saturating_sub(self.next_sequence));
            self.next_sequence = last.saturating_add(1);
        }
    }

    /// The number after the last record that was read.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// What part of the stream was read.
    pub(crate) fn share_read(&self) -> f64 {
        let read_bytes = self.reader.as_ref().map_or(self.file_bytes, RawReader::whole_bytes);
        read_bytes as f64 / self.file_bytes.max(1) as f64
    }

    /// Records that are missing. How many a torn end held is not known; it counts as one.
    pub(crate) fn missing(&self) -> u64 {
        let is_torn = match &self.reader {
            Some(reader) => {
                matches!(reader.end(), Some(StreamEnd::Truncated { bytes_dropped, .. }) if bytes_dropped > 0)
            }
            None => self.file_bytes > 0,
        };
        self.missing.saturating_add(u64::from(is_torn || self.is_last_batch_damaged))
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

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_store::{RawCompression, RawWriter, RecordsBuilder};

    /// A stream with one batch for each of these lists of records.
    fn stream(dir: &Path, batches: &[&[u64]]) -> std::path::PathBuf {
        let path = dir.join("records.arrows");
        let mut writer = RawWriter::create(&path, records_schema(), RawCompression::None).unwrap();
        for batch in batches {
            let mut builder = RecordsBuilder::new();
            batch.iter().for_each(|&sequence| builder.push(sequence, 1, 2, b"payload"));
            writer.write(&builder.finish_batch()).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    fn read(path: &Path) -> (u64, u64) {
        let mut records = RawRecords::open(path).unwrap();
        while records.next_batch().is_some() {}
        (records.next_sequence(), records.missing())
    }

    #[test]
    fn a_whole_stream_misses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&stream(dir.path(), &[&[0, 1], &[2]])), (3, 0));
    }

    #[test]
    fn a_gap_between_batches_is_counted_by_record() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&stream(dir.path(), &[&[0, 1], &[5, 6]])), (7, 3));
    }

    #[test]
    fn a_beginning_that_is_gone_is_counted_by_record() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&stream(dir.path(), &[&[4]])), (5, 4));
    }

    #[test]
    fn a_torn_end_counts_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = stream(dir.path(), &[&[0, 1], &[2]]);
        let whole_bytes = std::fs::metadata(&path).unwrap().len();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(whole_bytes - 40).unwrap();
        assert_eq!(read(&path), (2, 1));
        std::fs::File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert_eq!(read(&path), (0, 1));
    }

    #[test]
    fn a_stream_that_was_never_begun_misses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records.arrows");
        assert_eq!(read(&path), (0, 0));
        std::fs::write(&path, b"").unwrap();
        assert_eq!(read(&path), (0, 0));
    }
}
