//! Process samples in a file of their own, outside of a run.
//!
//! What was written survives the death of this process. CSV grows by whole lines. Parquet cannot grow, so rows go to
//! a raw stream beside the file, and the table is made of that at the end, by any process still running.
//!
//! A file that is to be replaced stays until the first rows of the new one are written, and then beside it until that is
//! finished: a watch that comes to nothing destroys nothing.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Schema;
use dwell_events::schema::Table;
use dwell_events::schema::memory::{self, MemoryRow};
use dwell_files::{FileError, StagedFile, check_replaceable, sibling};

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

/// What the name of a file ends with that is put aside.
const EARLIER_ENDING: &str = ".earlier";

/// A file of samples while it is written. Dropped before it has rows, it leaves everything as it was.
pub struct MemoryLog {
    path: PathBuf,
    file: LogFile,
    place: Place,
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
        if !may_replace {
            check_absent(path)?;
        }
        // Behind a link, the file itself is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (place, file) = match form {
            MemoryLogForm::Csv => {
                let place = Place::new(path.clone(), may_replace)?;
                let csv = create_csv(&place, anchor)?;
                (place, LogFile::Csv(csv))
            }
            MemoryLogForm::Parquet => {
                let place = Place::new(raw_path(&path), may_replace)?;
                let stream = create_stream(&place, anchor)?;
                (place, LogFile::Parquet(stream))
            }
        };
        Ok(Self { path, file, place })
    }

    /// Adds rows; after this they survive the death of this process.
    pub fn write(&mut self, rows: &[MemoryRow]) -> Result<(), StoreError> {
        match &mut self.file {
            LogFile::Csv(csv) => {
                csv.write(rows).and_then(|()| csv.flush()).map_err(|error| write_error(&self.path, error))?;
            }
            LogFile::Parquet(stream) => {
                stream.write(&memory::batch(rows))?;
                stream.flush()?;
            }
        }
        self.place.take()
    }

    /// Whether rows were written, which are there whatever happens next.
    pub fn has_rows(&self) -> bool {
        self.place.beginning.is_none()
    }

    /// Where the file is that this one replaces, as long as this one is not finished.
    pub fn earlier(&self) -> Option<&Path> {
        self.place.earlier.as_deref()
    }

    /// Ends the file.
    pub fn finish(self) -> Result<(), StoreError> {
        let Self { path, file, mut place } = self;
        match file {
            LogFile::Csv(csv) => {
                let synced = csv.into_inner().and_then(|lines| lines.file.sync_all());
                synced.map_err(|error| write_error(&path, error))?;
                place.take()?;
            }
            LogFile::Parquet(stream) => {
                stream.finish()?;
                place.take()?;
                recover_memory_log(&path)?;
            }
        }
        place.forget_earlier();
        Ok(())
    }
}

/// The name of a file that is being written, and what has it until then.
struct Place {
    target: PathBuf,
    /// The new file, until it has rows.
    beginning: Option<StagedFile>,
    may_replace: bool,
    /// Where the old file is after that.
    earlier: Option<PathBuf>,
}

impl Place {
    fn new(target: PathBuf, may_replace: bool) -> Result<Self, StoreError> {
        if !may_replace {
            check_absent(&target)?;
        }
        let beginning = StagedFile::create(&target).map_err(|error| write_error(&target, error))?;
        Ok(Self { beginning: Some(beginning), target, may_replace, earlier: None })
    }

    /// The new file, to write to.
    fn file(&self) -> io::Result<File> {
        self.beginning.as_ref().ok_or(io::ErrorKind::NotFound)?.file().try_clone()
    }

    /// Puts the new file in the place of the old one, which is kept aside.
    fn take(&mut self) -> Result<(), StoreError> {
        if self.beginning.is_none() {
            return Ok(());
        }
        if !self.may_replace {
            // Another process may have put a file there in the meantime.
            check_absent(&self.target)?;
        }
        let aside = sibling(&self.target, EARLIER_ENDING);
        match fs::rename(&self.target, &aside) {
            Ok(()) => self.earlier = Some(aside),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(write_error(&self.target, error)),
        }
        self.beginning.take().map_or(Ok(()), StagedFile::publish).map_err(|error| {
            // Only one of two renames succeeded.
            if let Some(earlier) = self.earlier.take() {
                let _ = fs::rename(earlier, &self.target);
            }
            write_error(&self.target, error)
        })
    }

    fn forget_earlier(&mut self) {
        if let Some(earlier) = self.earlier.take() {
            // It is replaced; that a copy stays is no harm.
            let _ = fs::remove_file(earlier);
        }
    }
}

fn check_absent(path: &Path) -> Result<(), StoreError> {
    // A link that leads nowhere is there too.
    match path.symlink_metadata().is_ok() {
        true => Err(FileError::Exists { action: WRITING, path: path.to_owned() }.into()),
        false => Ok(()),
    }
}

fn create_csv(place: &Place, anchor: ClockAnchor) -> Result<MemoryCsv<WholeLines>, StoreError> {
    let failed = |error| write_error(&place.target, error);
    let lines = WholeLines { file: place.file().map_err(failed)?, pending: Vec::new(), whole_bytes: 0 };
    let mut csv = MemoryCsv::new(lines, anchor).map_err(failed)?;
    csv.flush().map_err(failed)?;
    Ok(csv)
}

fn create_stream(place: &Place, anchor: ClockAnchor) -> Result<RawWriter, StoreError> {
    let anchor_text = serde_json::to_string(&anchor).map_err(|error| write_error(&place.target, error.into()))?;
    let metadata = HashMap::from([(ANCHOR_KEY.to_owned(), anchor_text)]);
    let schema = Schema::new_with_metadata(memory::schema().fields().clone(), metadata);
    RawWriter::create_in(&place.target, Arc::new(schema), RawCompression::None, || place.file())
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
