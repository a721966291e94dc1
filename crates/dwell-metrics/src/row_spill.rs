//! Rows that are more than fit memory, sorted by time with the help of a file.
//!
//! Rows are gathered up to a size, sorted, and appended to one file that has no name, so that nothing is left of it whatever
//! ends the process. Then all runs of sorted rows are read side by side.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use dwell_analysis::SortableRow;
use dwell_files::FileError;

/// Bytes that are read of a run at once, at most.
const READ_BYTES: usize = 256 * 1024;

/// Rows that are handed over at once.
const BATCH_ROWS: usize = 8 * 1024;

/// Gathers rows in any order.
pub(crate) struct RowSpill {
    gathered: Vec<SortableRow>,
    rows_at_once: usize,
    file: BufWriter<File>,
    folder: PathBuf,
    /// Rows of each sorted run in the file, in its order.
    runs: Vec<u64>,
}

impl RowSpill {
    /// Nothing is gathered; at most so many bytes will be held. The file is on the disk of the run or, if that may not be
    /// written to, in the folder for temporary files. If `TMPDIR` is set, it is there.
    pub(crate) fn new(run: &Path, held_bytes: usize) -> Result<Self, FileError> {
        let folder = match std::env::var_os("TMPDIR") {
            Some(folder) => PathBuf::from(folder),
            None => run.to_owned(),
        };
        let (file, folder) = match tempfile::tempfile_in(&folder) {
            Ok(file) => (file, folder),
            Err(error) => {
                let other = std::env::temp_dir();
                let file = tempfile::tempfile_in(&other).map_err(|_| spilling(&folder, error))?;
                (file, other)
            }
        };
        let rows_at_once = (held_bytes / size_of::<SortableRow>()).max(BATCH_ROWS);
        Ok(Self { gathered: Vec::new(), rows_at_once, file: BufWriter::new(file), folder, runs: Vec::new() })
    }

    pub(crate) fn push(&mut self, row: SortableRow) -> Result<(), FileError> {
        if self.gathered.capacity() == 0 {
            self.gathered.reserve_exact(self.rows_at_once);
        }
        self.gathered.push(row);
        if self.gathered.len() == self.rows_at_once { self.write_run() } else { Ok(()) }
    }

    fn write_run(&mut self) -> Result<(), FileError> {
        self.gathered.sort_by_key(SortableRow::key);
        let mut rows = self.gathered.iter();
        let written = rows.try_for_each(|row| self.file.write_all(&row.to_bytes())).and_then(|()| self.file.flush());
        written.map_err(|error| spilling(&self.folder, error))?;
        self.runs.push(self.gathered.len() as u64);
        self.gathered.clear();
        Ok(())
    }

    /// No more rows come.
    pub(crate) fn finish(mut self) -> Result<SortedRows, FileError> {
        self.write_run()?;
        drop(std::mem::take(&mut self.gathered));
        let file = self.file.into_inner().map_err(|error| spilling(&self.folder, error.into_error()))?;
        let read_bytes = self.rows_at_once * size_of::<SortableRow>() / self.runs.len().max(1);
        let read_rows = (read_bytes.min(READ_BYTES) / SortableRow::BYTES).max(1);
        Ok(SortedRows { file, folder: self.folder, runs: self.runs, read_rows })
    }
}

/// What went wrong with the file.
fn spilling(folder: &Path, error: io::Error) -> FileError {
    FileError::from_io("sorting the rows of a trace in a temporary file", folder, error)
}

/// Rows that can be read by time, as often as they are needed.
pub(crate) struct SortedRows {
    file: File,
    folder: PathBuf,
    runs: Vec<u64>,
    read_rows: usize,
}

impl SortedRows {
    /// Gives all rows by time, in lists of some thousand. Rows that compare equal come in the order in which they were
    /// gathered, because earlier runs come first.
    pub(crate) fn for_each(&self, mut take: impl FnMut(&[SortableRow]) -> bool) -> Result<bool, FileError> {
        let mut runs = self.open_runs();
        let mut heads = BinaryHeap::new();
        for (index, run) in runs.iter_mut().enumerate() {
            let row = run.next(self)?;
            heads.extend(row.map(|row| (Reverse((row.key(), index)), index)));
        }
        let mut batch: Vec<SortableRow> = Vec::with_capacity(BATCH_ROWS);
        while let Some((_, index)) = heads.pop() {
            batch.extend(runs[index].take_current());
            if let Some(row) = runs[index].next(self)? {
                heads.push((Reverse((row.key(), index)), index));
            }
            if batch.len() == BATCH_ROWS {
                if !take(&batch) {
                    return Ok(false);
                }
                batch.clear();
            }
        }
        Ok(take(&batch))
    }

    fn open_runs(&self) -> Vec<Run> {
        let mut from = 0;
        let run = |rows: &u64| {
            let run = Run { next_row: from, end_row: from + rows, read: Vec::new(), current: None };
            from += rows;
            run
        };
        self.runs.iter().map(run).collect()
    }
}

/// One run of sorted rows that is being read.
struct Run {
    next_row: u64,
    end_row: u64,
    /// Rows that were read, the next one last.
    read: Vec<SortableRow>,
    current: Option<SortableRow>,
}

impl Run {
    fn take_current(&mut self) -> Option<SortableRow> {
        self.current.take()
    }

    /// Goes on to the next row.
    fn next(&mut self, rows: &SortedRows) -> Result<Option<SortableRow>, FileError> {
        if self.read.is_empty() && self.next_row < self.end_row {
            self.fill(rows).map_err(|error| spilling(&rows.folder, error))?;
        }
        self.current = self.read.pop();
        Ok(self.current)
    }

    fn fill(&mut self, rows: &SortedRows) -> io::Result<()> {
        let count = (self.end_row - self.next_row).min(rows.read_rows as u64);
        let mut bytes = vec![0; count as usize * SortableRow::BYTES];
        rows.file.read_exact_at(&mut bytes, self.next_row * SortableRow::BYTES as u64)?;
        let (records, _) = bytes.as_chunks::<{ SortableRow::BYTES }>();
        self.read.extend(records.iter().rev().map(SortableRow::from_bytes));
        self.next_row += count;
        Ok(())
    }
}
