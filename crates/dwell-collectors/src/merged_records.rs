//! The records of all processes of a run, in the order of their times.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use dwell_records::Frame;
use dwell_store::StoreError;

use crate::raw_records::{RawRecords, frame_at};

/// Reads what the worker told and, beside it, what one program recorded: that with the most records.
///
/// Every process has addresses of its own, so two programs that computed cannot share one trace.
pub struct MergedRecords {
    sources: Vec<Source>,
    /// Programs that are left out, and the bytes of their streams.
    left_out: (u64, u64),
    has_news: bool,
}

impl MergedRecords {
    /// Opens the worker's stream and those of programs.
    pub fn open(worker: &Path, programs: &[PathBuf]) -> Result<Self, StoreError> {
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let chosen = programs.iter().max_by_key(|path| size(path));
        let left_out: Vec<u64> = programs.iter().filter(|path| Some(*path) != chosen).map(size).collect();
        let mut sources = vec![Source::open(worker)?];
        if let Some(chosen) = chosen {
            sources.push(Source::open(chosen)?);
        }
        let left_out = (left_out.len() as u64, left_out.iter().sum());
        Ok(Self { sources, left_out, has_news: false })
    }

    /// The earliest record that is left.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        for source in &mut self.sources {
            self.has_news |= source.fill();
        }
        let earliest =
            self.sources.iter_mut().filter(|source| source.batch.is_some()).min_by_key(|source| source.time_ns())?;
        earliest.take()
    }

    /// What part of the streams was read, if that has changed since it was last asked.
    pub fn news_of_share_read(&mut self) -> Option<f64> {
        let shares = self.sources.iter().map(|source| source.records.share_read());
        std::mem::take(&mut self.has_news).then(|| shares.sum::<f64>() / self.sources.len() as f64)
    }

    /// Records that are missing from the streams.
    pub fn missing(&self) -> u64 {
        self.sources.iter().map(|source| source.records.missing()).sum()
    }

    /// Programs that are left out, and the bytes of their records.
    pub fn left_out(&self) -> (u64, u64) {
        self.left_out
    }
}

struct Source {
    records: RawRecords,
    /// The batch that is being read; none at the end of the stream.
    batch: Option<RecordBatch>,
    next_row: usize,
}

impl Source {
    fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { records: RawRecords::open(path)?, batch: None, next_row: 0 })
    }

    /// Reads on if nothing is left of the batch; says whether it did.
    fn fill(&mut self) -> bool {
        let is_read = self.batch.as_ref().is_none_or(|batch| self.next_row >= batch.num_rows());
        if is_read {
            self.batch = self.records.next_batch();
            self.next_row = 0;
        }
        is_read && self.batch.is_some()
    }

    fn time_ns(&self) -> u64 {
        self.batch.as_ref().map_or(u64::MAX, |batch| frame_at(batch, self.next_row).time_ns)
    }

    fn take(&mut self) -> Option<Frame<'_>> {
        let row = self.next_row;
        self.next_row += 1;
        self.batch.as_ref().map(|batch| frame_at(batch, row))
    }
}
