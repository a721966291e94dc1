//! `results/manifest.csv`: one row per run, written by any number of processes at a time.
//!
//! A writer holds the lock of `.manifest.csv.lock` while it appends one line or replaces the file. Readers take no
//! lock: they see whole lines, and leave out a last line that is still being written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, StringRecord};
use dwell_events::{csv_cell, csv_text};
use dwell_files::{OWN_TEXT_MAX_BYTES, read_own, write_bytes_atomically};

use crate::StoreError;
use crate::manifest_row::{ManifestRow, SHARED_COLUMNS, header};

/// Name of the file in the results directory.
pub const RESULTS_MANIFEST_FILE: &str = "manifest.csv";
const LOCK_FILE: &str = ".manifest.csv.lock";

const READING: &str = "reading the results manifest";
const RECORDING: &str = "recording a run in the results manifest";

/// The list of the runs of a results directory.
#[derive(Clone, Debug)]
pub struct ResultsManifest {
    results: PathBuf,
    path: PathBuf,
}

/// Where each of our columns lies in a row of the file.
type Places = Vec<Option<usize>>;

/// What the file held.
struct Content {
    /// Rows with our columns, in our order.
    rows: Vec<Row>,
    /// Size of the file if a line can be added at its end as it is.
    appendable_bytes: Option<u64>,
}

struct Row {
    line: u64,
    record: StringRecord,
}

impl ResultsManifest {
    /// The manifest of a results directory; neither has to exist yet.
    pub fn open(results: &Path) -> Self {
        Self { results: results.to_owned(), path: results.join(RESULTS_MANIFEST_FILE) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every row, in the order of the file; none if there is no file.
    pub fn rows(&self) -> Result<Vec<ManifestRow>, StoreError> {
        let header = header();
        let row = |row: Row| {
            let unfit = |error: csv::Error| self.unfit(row.line, reason_of(&error));
            row.record.deserialize(Some(&header)).map_err(unfit)
        };
        self.read()?.rows.into_iter().map(row).collect()
    }

    /// Adds a row, in place of the one of the same model and run if there is one. The row is on the disk when this
    /// returns; if it fails, the file is as it was.
    pub fn record(&self, row: &ManifestRow) -> Result<(), StoreError> {
        let record = row.to_record().map_err(|error| StoreError::from_io(RECORDING, &self.path, error.into()))?;
        let _lock = self.lock()?;
        let content = self.read()?;
        let earlier = content.rows.iter().position(|row| key(&row.record) == key(&record));
        match (earlier, content.appendable_bytes) {
            (None, Some(size_bytes)) => self.append(&record, size_bytes),
            (earlier, _) => self.replace(content.rows, earlier, record),
        }
    }

    /// Released when the handle is dropped, also by the death of the process.
    fn lock(&self) -> Result<File, StoreError> {
        let path = self.results.join(LOCK_FILE);
        let locking = |error| StoreError::from_io("locking the results manifest", &path, error);
        fs::create_dir_all(&self.results)
            .map_err(|error| StoreError::from_io("creating the results directory", &self.results, error))?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(locking)?;
        file.lock().map_err(locking)?;
        Ok(file)
    }

    fn append(&self, record: &StringRecord, size_bytes: u64) -> Result<(), StoreError> {
        let failed = |error| StoreError::from_io(RECORDING, &self.path, error);
        let line = lines([record]).map_err(failed)?;
        let mut file = OpenOptions::new().append(true).open(&self.path).map_err(failed)?;
        file.write_all(&line).and_then(|()| file.sync_data()).map_err(|error| {
            // If even this fails, the next writer cuts the torn line off.
            let _ = file.set_len(size_bytes);
            failed(error)
        })
    }

    /// Writes the file anew, with the record in the place of the earlier one or at the end.
    fn replace(&self, mut rows: Vec<Row>, earlier: Option<usize>, record: StringRecord) -> Result<(), StoreError> {
        // A tool that only appends may have left several of one run.
        rows.retain(|row| key(&row.record) != key(&record));
        rows.insert(earlier.unwrap_or(rows.len()), Row { line: 0, record });
        let header = header();
        let records = std::iter::once(&header).chain(rows.iter().map(|row| &row.record));
        let text = lines(records).map_err(|error| StoreError::from_io(RECORDING, &self.path, error))?;
        Ok(write_bytes_atomically(&self.path, &text)?)
    }

    fn read(&self) -> Result<Content, StoreError> {
        let text = match read_own(&self.path, OWN_TEXT_MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(StoreError::from_io(READING, &self.path, error)),
        };
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_slice());
        let found = reader.headers().map_err(|error| self.unfit(1, reason_of(&error)))?.clone();
        let places = self.places(&found)?;
        let mut records = reader
            .byte_records()
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| self.unfit(line_of(error.position()), reason_of(&error)))?;
        let is_ended = text.last().is_none_or(|&byte| byte == b'\n');
        if !is_ended {
            records.pop_if(|last| !is_whole(last, &places));
        }
        let rows = records.into_iter().map(|record| self.row(record, &found, &places)).collect::<Result<_, _>>()?;
        let is_appendable = is_ended && found == header();
        Ok(Content { rows, appendable_bytes: is_appendable.then_some(text.len() as u64) })
    }

    /// Where each of our columns is found. A file with any other column is not ours to change.
    fn places(&self, found: &StringRecord) -> Result<Places, StoreError> {
        let ours = header();
        let other = |found: String| Err(StoreError::OtherResultsManifest { found, path: self.path.clone() });
        for (index, name) in found.iter().enumerate() {
            if !ours.iter().any(|ours| ours == name) {
                return other(format!("the column {name:?}"));
            }
            if found.iter().take(index).any(|earlier| earlier == name) {
                return other(format!("the column {name:?} twice"));
            }
        }
        let places = ours.iter().map(|name| found.iter().position(|found| found == name)).collect();
        match ["run_id", "model_id"].iter().find(|name| !found.is_empty() && !found.iter().any(|found| found == **name))
        {
            Some(name) => other(format!("no column {name:?}")),
            None => Ok(places),
        }
    }

    fn row(&self, bytes: ByteRecord, found: &StringRecord, places: &Places) -> Result<Row, StoreError> {
        let line = line_of(bytes.position());
        let record = StringRecord::from_byte_record(bytes).map_err(|error| self.unfit(line, error.to_string()))?;
        // mrm-trace adds rows of its own columns to whatever file there is; these are the first of ours.
        let is_of_peer = record.len() == SHARED_COLUMNS && *found == header();
        if record.len() != found.len() && !is_of_peer {
            let reason = format!("it has {} fields, and the first line has {}", record.len(), found.len());
            return Err(self.unfit(line, reason));
        }
        Ok(Row { line, record: arranged(&record, places) })
    }

    fn unfit(&self, line: u64, reason: String) -> StoreError {
        StoreError::UnfitManifestRow { line, reason, path: self.path.clone() }
    }
}

/// The texts of a row, in our order.
fn arranged(record: &StringRecord, places: &Places) -> StringRecord {
    places.iter().map(|place| csv_text(place.and_then(|place| record.get(place)).unwrap_or_default())).collect()
}

/// A last line without its line break was torn, unless it ends with all that its last field should hold.
fn is_whole(last: &ByteRecord, places: &Places) -> bool {
    let Ok(record) = StringRecord::from_byte_record(last.clone()) else { return false };
    let row: csv::Result<ManifestRow> = arranged(&record, places).deserialize(Some(&header()));
    row.is_ok_and(|row| match Path::new(&row.path).file_name() {
        Some(name) => name == row.run_id.as_str(),
        None => row.is_failed(),
    })
}

fn key(record: &StringRecord) -> (Option<&str>, Option<&str>) {
    (record.get(0), record.get(2))
}

fn lines<'a>(records: impl IntoIterator<Item = &'a StringRecord>) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for record in records {
        writer.write_record(record.iter().map(|text| csv_cell(text).into_owned()))?;
    }
    writer.into_inner().map_err(|error| error.into_error())
}

fn line_of(position: Option<&csv::Position>) -> u64 {
    position.map_or(0, csv::Position::line)
}

/// The message without the position, which is told otherwise.
fn reason_of(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
        _ => error.to_string(),
    }
}
