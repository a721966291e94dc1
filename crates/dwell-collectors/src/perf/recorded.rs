//! The recording in a raw stream, read back however it ended.

use std::cell::Cell;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use dwell_decode::error::DecodeError;
use dwell_decode::perf_data::{PerfData, Recording};
use dwell_events::LossKind;
use dwell_events::schema::loss::LossRow;
use dwell_files::FileError;
use dwell_store::{RawReader, StoreError, StreamEnd};

/// A recording in a raw stream.
pub struct PerfRecords {
    /// Its records, in the order of time.
    pub data: PerfData<StreamBytes>,
    damaged: Rc<Cell<u64>>,
}

impl PerfRecords {
    /// The recording of a stream; none if not even its head was written.
    pub fn open(stream: &Path) -> Result<Option<Self>, StoreError> {
        let reader = match RawReader::open(stream) {
            Ok(reader) => reader,
            Err(StoreError::File(FileError::NotFound { .. }) | StoreError::TruncatedHeader { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = Rc::new(Cell::new(0));
        let bytes = StreamBytes { reader, batch: None, row: 0, at: 0, damaged: damaged.clone() };
        // Killed before the head of the recording was written.
        Ok(PerfData::stream(bytes).ok().map(|data| Self { data, damaged }))
    }

    /// Batches that were damaged or cut off so far.
    pub fn damaged(&self) -> u64 {
        self.damaged.get()
    }
}

/// The pieces of a recording, one after the other. Each has whole records, so a damaged one is passed over.
pub struct StreamBytes {
    reader: RawReader,
    batch: Option<RecordBatch>,
    row: usize,
    at: usize,
    damaged: Rc<Cell<u64>>,
}

impl StreamBytes {
    /// The rest of the piece that is being read.
    fn piece(&self) -> &[u8] {
        let batch = self.batch.as_ref().filter(|batch| self.row < batch.num_rows());
        let column = batch.and_then(|batch| batch.column(0).as_binary_opt::<i32>());
        column.map_or(&[], |column| &column.value(self.row)[self.at..])
    }

    fn has_rows(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| self.row < batch.num_rows())
    }

    fn next_batch(&mut self) -> bool {
        (self.row, self.at) = (0, 0);
        self.batch = loop {
            match self.reader.next() {
                Some(Ok(batch)) if batch.column(0).as_binary_opt::<i32>().is_some() => break Some(batch),
                Some(_) => self.damaged.set(self.damaged.get() + 1),
                None => break None,
            }
        };
        if self.batch.is_none() {
            let is_torn =
                matches!(self.reader.end(), Some(StreamEnd::Truncated { bytes_dropped, .. }) if bytes_dropped > 0);
            self.damaged.set(self.damaged.get() + u64::from(is_torn));
        }
        self.batch.is_some()
    }
}

impl Read for StreamBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece().is_empty() {
            if self.has_rows() {
                (self.row, self.at) = (self.row + 1, 0);
            } else if !self.next_batch() {
                return Ok(0);
            }
        }
        let count = self.piece().len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.piece()[..count]);
        self.at += count;
        Ok(count)
    }
}

/// What is missing from a recording, by its own account; `cut` is why it could not be read further.
pub fn recording_losses(source: &'static str, recording: &Recording, cut: Option<&DecodeError>) -> Vec<LossRow> {
    let counts = &recording.counts;
    // The kernel counts samples that did not fit into a buffer in both ways, so the larger number has them all.
    let lost = counts.lost_records.max(counts.lost_samples);
    let lost_detail = format!("{} records, {} samples, by the two counts", counts.lost_records, counts.lost_samples);
    let unfinished = recording.is_unfinished.then(|| "perf record did not finish the file".to_owned());
    let row = |kind, count, detail: String| LossRow { kind, source, count, bytes: None, detail };
    let rows = [
        row(LossKind::LostSamples, lost, lost_detail),
        row(LossKind::UndecodableRecords, counts.short_records, "records that end before their last field".into()),
        row(
            LossKind::UndecodableRecords,
            counts.samples_of_unknown_events,
            "samples of events that the recording does not describe".into(),
        ),
        row(LossKind::MissedSamples, counts.throttled, "the kernel stopped sampling for a while".into()),
        row(
            LossKind::UndecodableRecords,
            u64::from(counts.auxtrace_bytes > 0),
            format!("{} bytes of traces by other units, such as Arm SPE", counts.auxtrace_bytes),
        ),
        row(LossKind::UndecodableRecords, cut.iter().len() as u64, cut.map_or(String::new(), ToString::to_string)),
        row(LossKind::ObserverDied, unfinished.iter().len() as u64, unfinished.unwrap_or_default()),
    ];
    rows.into_iter().filter(|row| row.count > 0).collect()
}
