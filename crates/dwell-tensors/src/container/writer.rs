//! Writing a stream from one thread, for rows that are known already.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use dwell_files::AtomicFile;

use super::frame::batch_frame;
use super::index::IndexBuilder;
use super::row::Row;
use super::schema::{ContainerVersion, schema_message};
use super::{MAX_BATCH_ROWS, PAGE_BYTES};
use crate::TensorsError;

/// A batch is written once it holds this much.
const BATCH_BYTES: usize = 32 << 20;

/// Writes rows into a file that appears whole or not at all.
pub(crate) struct RowWriter {
    file: AtomicFile,
    path: PathBuf,
    index: IndexBuilder,
    written_bytes: u64,
    rows: Vec<Row>,
    payloads: Vec<u8>,
}

impl RowWriter {
    pub(crate) fn create(path: &Path, metadata: &BTreeMap<String, String>) -> Result<Self, TensorsError> {
        let mut writer = Self {
            file: AtomicFile::create(path)?,
            path: path.to_path_buf(),
            index: IndexBuilder::default(),
            written_bytes: 0,
            rows: Vec::new(),
            payloads: Vec::new(),
        };
        writer.write(&schema_message(metadata, ContainerVersion::default()))?;
        Ok(writer)
    }

    /// Adds a row; the payload of one that is no tensor is empty.
    pub(crate) fn push(&mut self, row: Row, payload: &[u8]) -> Result<(), TensorsError> {
        self.rows.push(row);
        self.payloads.extend_from_slice(payload);
        if self.payloads.len() >= BATCH_BYTES || self.rows.len() >= MAX_BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    /// Ends the file and gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), TensorsError> {
        self.flush()?;
        let footer = self.index.finish();
        self.write(&footer)?;
        Ok(self.file.commit()?)
    }

    fn flush(&mut self) -> Result<(), TensorsError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let frame = batch_frame(&self.rows, ContainerVersion::default());
        self.index.add(&self.rows, self.written_bytes, &frame);
        let payloads = std::mem::take(&mut self.payloads);
        for part in [frame.head.as_slice(), payloads.as_slice(), &[0; PAGE_BYTES][..frame.tail_bytes]] {
            self.write(part)?;
        }
        self.payloads = payloads;
        self.payloads.clear();
        self.rows.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TensorsError> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| TensorsError::from_io("writing a converted stream", &self.path, error))?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }
}
