//! The file that lines are appended to: whole lines only, whatever happens.

use std::fs::{File, OpenOptions, TryLockError, rename};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::ObserveError;
use crate::line::Line;

/// Bytes that are looked through at once for the end of the last whole line.
const CHUNK_BYTES: u64 = 64 << 10;

/// How lines are written.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Lines that wait before they are written.
    pub flush_every: usize,
    /// Whether written lines are forced onto the disk.
    pub fsync: bool,
    /// Size at which a new file is begun; none for never.
    pub rotate_bytes: Option<u64>,
    /// Earlier files that are kept.
    pub kept_files: u32,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { flush_every: 1, fsync: false, rotate_bytes: None, kept_files: 5 }
    }
}

/// A file of lines, appended to.
#[derive(Debug)]
pub struct LineLog {
    path: PathBuf,
    file: File,
    options: LogOptions,
    bytes: u64,
    waiting: Vec<u8>,
    waiting_lines: usize,
    repaired_bytes: u64,
}

impl LineLog {
    /// Opens a file to append to, or makes it. A last line that is not whole is cut off.
    pub fn open(path: &Path, options: LogOptions) -> Result<Self, ObserveError> {
        let mut file = opened(path)?;
        let io_error =
            |source| ObserveError::Io { doing: "opening the file of observations", path: path.to_owned(), source };
        if holds_something_else(&mut file).map_err(io_error)? {
            return Err(ObserveError::OtherContent { path: path.to_owned() });
        }
        let found_bytes = file.seek(SeekFrom::End(0)).map_err(io_error)?;
        let bytes = end_of_whole_lines(&mut file, found_bytes).map_err(io_error)?;
        if bytes < found_bytes {
            file.set_len(bytes).map_err(io_error)?;
        }
        let repaired_bytes = found_bytes - bytes;
        Ok(Self { path: path.to_owned(), file, options, bytes, waiting: Vec::new(), waiting_lines: 0, repaired_bytes })
    }

    /// Bytes of a cut last line that were removed when the file was opened.
    pub fn repaired_bytes(&self) -> u64 {
        self.repaired_bytes
    }

    /// Appends a line; it is written once enough lines wait.
    pub fn append(&mut self, line: &Line) -> Result<(), ObserveError> {
        // A line has no value that JSON cannot hold: no maps with keys other than texts and numbers.
        serde_json::to_writer(&mut self.waiting, line).map_err(|error| self.not_written(error.into()))?;
        self.waiting.push(b'\n');
        self.waiting_lines += 1;
        if self.waiting_lines >= self.options.flush_every { self.flush() } else { Ok(()) }
    }

    /// Writes what waits.
    pub fn flush(&mut self) -> Result<(), ObserveError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let has_reached = |limit: u64| self.bytes > 0 && self.bytes + self.waiting.len() as u64 > limit;
        if self.options.rotate_bytes.is_some_and(has_reached) {
            self.rotate()?;
        }
        let written = self.file.write_all(&self.waiting);
        let synced = written.and_then(|()| if self.options.fsync { self.file.sync_data() } else { Ok(()) });
        if let Err(source) = synced {
            // Half a line would spoil what follows. If even that fails, the next opening repairs it.
            let _ = self.file.set_len(self.bytes);
            return Err(self.not_written(source));
        }
        self.bytes += self.waiting.len() as u64;
        self.waiting.clear();
        self.waiting_lines = 0;
        Ok(())
    }

    fn not_written(&self, source: io::Error) -> ObserveError {
        ObserveError::NotWritten { path: self.path.clone(), lines: self.waiting_lines.max(1), source }
    }

    /// Gives the file the name of an earlier one, and begins a new one.
    fn rotate(&mut self) -> Result<(), ObserveError> {
        let io_error = |source| ObserveError::Io { doing: "rotating observations", path: self.path.clone(), source };
        for number in (1..self.options.kept_files).rev() {
            match rename(numbered(&self.path, number), numbered(&self.path, number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(error)),
                _ => {}
            }
        }
        rename(&self.path, numbered(&self.path, 1)).map_err(io_error)?;
        self.file = opened(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

/// `observe.jsonl` becomes `observe.1.jsonl`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let ending = path.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}.{number}{ending}"))
}

fn opened(path: &Path) -> Result<File, ObserveError> {
    let file = OpenOptions::new().read(true).append(true).create(true).open(path);
    let io_error =
        |source| ObserveError::Io { doing: "opening the file of observations", path: path.to_owned(), source };
    let file = file.map_err(io_error)?;
    if !file.metadata().map_err(io_error)?.is_file() {
        return Err(ObserveError::OtherContent { path: path.to_owned() });
    }
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(ObserveError::InUse { path: path.to_owned() }),
        // A file system without locks is written to all the same.
        _ => Ok(file),
    }
}

/// Whether the file begins with something else than an object. An empty file does not.
fn holds_something_else(file: &mut File) -> io::Result<bool> {
    let mut first = [0; 1];
    file.seek(SeekFrom::Start(0))?;
    let count = file.read(&mut first)?;
    Ok(count > 0 && first[0] != b'{')
}

/// Length of the file up to its last line break.
fn end_of_whole_lines(file: &mut File, bytes: u64) -> io::Result<u64> {
    let mut end = bytes;
    let mut chunk = Vec::new();
    while end > 0 {
        let begin = end.saturating_sub(CHUNK_BYTES);
        chunk.resize((end - begin) as usize, 0);
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut chunk)?;
        if let Some(at) = chunk.iter().rposition(|&byte| byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::fs;

    use super::*;
    use crate::reading::read_lines;

    fn line(timestamp: f64) -> Line {
        Line { timestamp, ..Line::default() }
    }

    fn times(path: &Path) -> Vec<f64> {
        read_lines(path).unwrap().lines.iter().map(|line| line.timestamp).collect()
    }

    #[test]
    fn a_cut_last_line_is_removed_and_the_others_stay() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("o.jsonl");
        let mut log = LineLog::open(&path, LogOptions::default()).unwrap();
        log.append(&line(1.0)).unwrap();
        drop(log);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        // Longer than what is looked through at once.
        file.write_all(b"{\"timestamp\": 2").unwrap();
        file.write_all(&vec![b' '; 3 * CHUNK_BYTES as usize]).unwrap();
        drop(file);
        assert_eq!(times(&path), [1.0]);
        let mut log = LineLog::open(&path, LogOptions::default()).unwrap();
        assert_eq!(log.repaired_bytes(), 15 + 3 * CHUNK_BYTES);
        log.append(&line(3.0)).unwrap();
        assert_eq!(times(&path), [1.0, 3.0]);
    }

    #[test]
    fn lines_wait_until_enough_of_them_do() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("o.jsonl");
        let mut log =
            LineLog::open(&path, LogOptions { flush_every: 2, fsync: true, ..LogOptions::default() }).unwrap();
        log.append(&line(1.0)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        log.append(&line(2.0)).unwrap();
        assert_eq!(times(&path), [1.0, 2.0]);
    }

    #[test]
    fn rotation_keeps_as_many_files_as_it_may() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("o.jsonl");
        let options = LogOptions { rotate_bytes: Some(1), kept_files: 2, ..LogOptions::default() };
        let mut log = LineLog::open(&path, options).unwrap();
        for number in 1..=4 {
            log.append(&line(number.into())).unwrap();
        }
        let of = |name: &str| times(&place.path().join(name));
        assert_eq!((of("o.jsonl"), of("o.1.jsonl"), of("o.2.jsonl")), (vec![4.0], vec![3.0], vec![2.0]));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_file_of_something_else_and_one_in_use_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("notes.txt");
        fs::write(&path, "my notes, no line break").unwrap();
        let refused = LineLog::open(&path, LogOptions::default()).unwrap_err();
        assert!(matches!(refused, ObserveError::OtherContent { .. }), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "my notes, no line break");
        let path = place.path().join("o.jsonl");
        let _log = LineLog::open(&path, LogOptions::default()).unwrap();
        let refused = LineLog::open(&path, LogOptions::default()).unwrap_err();
        assert!(matches!(refused, ObserveError::InUse { .. }), "{refused}");
    }
}
