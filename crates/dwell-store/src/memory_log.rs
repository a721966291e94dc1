//! Process samples in a file of their own, outside of a run.
//!
//! What was written survives the death of this process. CSV grows by whole lines. Parquet cannot grow, so rows go to
//! a raw stream beside the file, and the table is made of that at the end, by whoever lives then.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Schema;
use dwell_events::schema::Table;
use dwell_events::schema::memory::{self, MemoryRow};
use dwell_files::{FileError, check_replaceable};

use crate::{
    ClockAnchor, MemoryCsv, RawCompression, RawReader, RawWriter, StoreError, StreamEnd, TableWriter, memory_rows,
};

/// What the raw stream beside an unfinished table is called: its name with this.
const RAW_SUFFIX: &str = ".arrows";
/// Key of the [`ClockAnchor`], as JSON, in the metadata of stream and table.
const ANCHOR_KEY: &str = "dwell_clock_anchor";
const WRITING: &str = "writing samples";

/// Form of a file of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLogForm {
    /// The form of `memory.csv`.
    Csv,
    /// The form of `memory.parquet`.
    Parquet,
}

impl MemoryLogForm {
    /// By the ending of the name.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }
}

/// A file of samples while it is written.
pub struct MemoryLog {
    path: PathBuf,
    file: LogFile,
}

enum LogFile {
    Csv(MemoryCsv<WholeLines>),
    Parquet(RawWriter),
}

impl MemoryLog {
    /// Begins a file. One that exists is refused unless `may_replace`.
    pub fn create(
        path: &Path,
        form: MemoryLogForm,
        anchor: ClockAnchor,
        may_replace: bool,
    ) -> Result<Self, StoreError> {
        check_replaceable(WRITING, path)?;
        let file = match form {
            MemoryLogForm::Csv => {
                let lines = WholeLines::create(path, may_replace).map_err(|error| write_error(path, error))?;
                let mut csv = MemoryCsv::new(lines, anchor).map_err(|error| write_error(path, error))?;
                csv.flush().map_err(|error| write_error(path, error))?;
                LogFile::Csv(csv)
            }
            MemoryLogForm::Parquet => LogFile::Parquet(create_stream(path, anchor, may_replace)?),
        };
        Ok(Self { path: path.to_owned(), file })
    }

    /// Adds rows; after this they survive the death of this process.
    pub fn write(&mut self, rows: &[MemoryRow]) -> Result<(), StoreError> {
        match &mut self.file {
            LogFile::Csv(csv) => {
                csv.write(rows).and_then(|()| csv.flush()).map_err(|error| write_error(&self.path, error))
            }
            LogFile::Parquet(stream) => {
                stream.write(&memory::batch(rows))?;
                stream.flush()
            }
        }
    }

    /// Leaves no file, if there is nothing to write after all.
    pub fn discard(self) {
        let path = match self.file {
            LogFile::Csv(_) => self.path,
            LogFile::Parquet(_) => raw_path(&self.path),
        };
        // It is empty; that it stays is no harm.
        let _ = fs::remove_file(path);
    }

    /// Ends the file.
    pub fn finish(self) -> Result<(), StoreError> {
        match self.file {
            LogFile::Csv(csv) => {
                csv.into_inner().and_then(|lines| lines.file.sync_all()).map_err(|error| write_error(&self.path, error))
            }
            LogFile::Parquet(stream) => {
                stream.finish()?;
                recover_memory_log(&self.path).map(drop)
            }
        }
    }
}

fn create_stream(path: &Path, anchor: ClockAnchor, may_replace: bool) -> Result<RawWriter, StoreError> {
    let stream = raw_path(path);
    if may_replace {
        for old in [path, &stream] {
            match fs::remove_file(old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(write_error(old, error)),
                _ => {}
            }
        }
    } else if path.exists() {
        return Err(FileError::Exists { action: WRITING, path: path.to_owned() }.into());
    }
    let anchor_text = serde_json::to_string(&anchor).map_err(|error| write_error(path, error.into()))?;
    let metadata = HashMap::from([(ANCHOR_KEY.to_owned(), anchor_text)]);
    let schema = Schema::new_with_metadata(memory::schema().fields().clone(), metadata);
    RawWriter::create(&stream, Arc::new(schema), RawCompression::None)
}

fn raw_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(RAW_SUFFIX);
    PathBuf::from(name)
}

/// The table that was not finished, if this is its name or that of the stream beside it.
pub fn unfinished_memory_log(path: &Path) -> Option<PathBuf> {
    let table = match path.to_str()?.strip_suffix(RAW_SUFFIX) {
        Some(table) => PathBuf::from(table),
        None => path.to_owned(),
    };
    (MemoryLogForm::of(&table) == Some(MemoryLogForm::Parquet) && raw_path(&table).is_file()).then_some(table)
}

/// What was made of an unfinished table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredLog {
    /// Rows of the table.
    pub rows: u64,
    /// Batches that are damaged or cut off.
    pub damaged_batches: u64,
}

/// Makes a table of the stream beside it, and removes the stream.
pub fn recover_memory_log(path: &Path) -> Result<RecoveredLog, StoreError> {
    let stream = raw_path(path);
    let mut reader = RawReader::open(&stream)?;
    let mut table = TableWriter::create_file(path, Table::Memory, Default::default())?;
    if let Some(anchor) = reader.schema().metadata().get(ANCHOR_KEY) {
        table.note(ANCHOR_KEY, anchor);
    }
    let mut damaged_batches = 0;
    for batch in reader.by_ref() {
        match batch {
            Ok(batch) => table.write(&memory::batch(&memory_rows(&batch)))?,
            Err(StoreError::DamagedBatch { .. }) => damaged_batches += 1,
            Err(error) => return Err(error),
        }
    }
    damaged_batches += u64::from(matches!(reader.end(), Some(StreamEnd::Truncated { bytes_dropped: 1.., .. })));
    let rows = table.finish()?;
    fs::remove_file(&stream).map_err(|error| write_error(&stream, error))?;
    Ok(RecoveredLog { rows, damaged_batches })
}

fn write_error(path: &Path, error: io::Error) -> StoreError {
    StoreError::from_io(WRITING, path, error)
}

/// A file that grows by whole lines, also if a write fails.
struct WholeLines {
    file: File,
    pending: Vec<u8>,
    whole_bytes: u64,
}

impl WholeLines {
    fn create(path: &Path, may_replace: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true);
        let file = match may_replace {
            true => options.create(true).truncate(true).open(path)?,
            false => options.create_new(true).open(path)?,
        };
        Ok(Self { file, pending: Vec::new(), whole_bytes: 0 })
    }
}

impl Write for WholeLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        // One by one: a kill can cut a long write anywhere.
        for line in pending.split_inclusive(|&byte| byte == b'\n') {
            if let Err(error) = self.file.write_all(line) {
                // A torn last line would be read as a wrong one.
                self.file.set_len(self.whole_bytes)?;
                return Err(error);
            }
            self.whole_bytes += line.len() as u64;
        }
        Ok(())
    }
}
