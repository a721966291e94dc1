//! `memory.csv`: the memory table for spreadsheets and for tools that read mrm-trace's file.
//!
//! Sizes are mebibytes (2^20 bytes), written so that the exact number of bytes can be had back. An empty field
//! means that the value is not known.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use dwell_events::ClockAnchor;
use dwell_events::schema::memory::MemoryRow;

use crate::{AtomicFile, StoreError};

/// First line of the file.
pub const MEMORY_CSV_HEADER: &str = "timestamp,label,pid,rss_mb,vms_mb,pss_mb,uss_mb,anon_mb,file_mb,shmem_mb,\
                                     swap_mb,cgroup_mb,gpu_mb,threads,minor_faults,major_faults,read_mb,write_mb,cpu_pct";

const BYTES_PER_MB: f64 = 1_048_576.0;

/// Writes rows as CSV to anything.
pub struct MemoryCsv<W: Write> {
    writer: W,
    anchor: ClockAnchor,
    line: String,
}

impl<W: Write> MemoryCsv<W> {
    /// Begins with the header line.
    pub fn new(mut writer: W, anchor: ClockAnchor) -> io::Result<Self> {
        writeln!(writer, "{MEMORY_CSV_HEADER}")?;
        Ok(Self { writer, anchor, line: String::new() })
    }

    /// Adds rows.
    pub fn write(&mut self, rows: &[MemoryRow]) -> io::Result<()> {
        for row in rows {
            self.line.clear();
            put_row(&mut self.line, row, &self.anchor);
            self.writer.write_all(self.line.as_bytes())?;
        }
        Ok(())
    }

    /// Has the writer hand on what it holds.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Gives the writer back.
    pub fn into_inner(self) -> W {
        self.writer
    }
}

/// `memory.csv` while it is written; it gets its name when it is finished.
pub struct MemoryCsvFile {
    csv: MemoryCsv<AtomicFile>,
    path: PathBuf,
}

impl MemoryCsvFile {
    /// Begins the file.
    pub fn create(path: &Path, anchor: ClockAnchor) -> Result<Self, StoreError> {
        let csv = MemoryCsv::new(AtomicFile::create(path)?, anchor).map_err(|error| write_error(path, error))?;
        Ok(Self { csv, path: path.to_owned() })
    }

    /// Adds rows.
    pub fn write(&mut self, rows: &[MemoryRow]) -> Result<(), StoreError> {
        self.csv.write(rows).map_err(|error| write_error(&self.path, error))
    }

    /// Ends the file.
    pub fn finish(self) -> Result<(), StoreError> {
        self.csv.into_inner().commit()
    }
}

fn write_error(path: &Path, error: io::Error) -> StoreError {
    StoreError::from_io("writing memory.csv", path, error)
}

fn put_row(line: &mut String, row: &MemoryRow, anchor: &ClockAnchor) {
    let micros = anchor.unix_ns_at(row.timestamp_ns) / 1_000;
    put(line, format_args!("{}.{:06}", micros / 1_000_000, micros % 1_000_000));
    line.push(',');
    put_text(line, &row.label);
    put(line, format_args!(",{}", row.pid));
    let sizes = [
        Some(row.rss_bytes),
        Some(row.vms_bytes),
        row.pss_bytes,
        row.uss_bytes,
        row.anon_bytes,
        row.file_bytes,
        row.shmem_bytes,
        row.swap_bytes,
        row.cgroup_bytes,
        row.gpu_bytes,
    ];
    sizes.into_iter().for_each(|bytes| put_mb(line, bytes));
    put_count(line, row.threads.map(u64::from));
    put_count(line, row.minor_faults);
    put_count(line, row.major_faults);
    put_mb(line, row.read_bytes);
    put_mb(line, row.write_bytes);
    line.push(',');
    if let Some(cpu_pct) = row.cpu_pct {
        put(line, format_args!("{cpu_pct:.2}"));
    }
    line.push('\n');
}

fn put_mb(line: &mut String, bytes: Option<u64>) {
    line.push(',');
    if let Some(bytes) = bytes {
        put(line, format_args!("{}", bytes as f64 / BYTES_PER_MB));
    }
}

fn put_count(line: &mut String, count: Option<u64>) {
    line.push(',');
    if let Some(count) = count {
        put(line, format_args!("{count}"));
    }
}

/// Quotes what would otherwise end the field.
fn put_text(line: &mut String, text: &str) {
    if text.contains([',', '"', '\n', '\r']) {
        put(line, format_args!("\"{}\"", text.replace('"', "\"\"")));
    } else {
        line.push_str(text);
    }
}

fn put(line: &mut String, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("a String takes whatever is written to it");
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANCHOR: ClockAnchor = ClockAnchor { monotonic_ns: 5_000_000_000, unix_ns: 1_700_000_000_000_000_000 };

    fn csv_of(row: MemoryRow) -> String {
        let mut csv = MemoryCsv::new(Vec::new(), ANCHOR).unwrap();
        csv.write(&[row]).unwrap();
        String::from_utf8(csv.into_inner()).unwrap()
    }

    #[test]
    fn a_full_row_is_written_in_mebibytes_and_wall_clock_seconds() {
        let row = MemoryRow {
            timestamp_ns: 4_500_000_999,
            label: "worker".to_owned(),
            pid: 42,
            rss_bytes: 4096,
            vms_bytes: 3 << 20,
            pss_bytes: Some(1 << 20),
            uss_bytes: Some(1 << 19),
            anon_bytes: Some(0),
            file_bytes: Some(1 << 20),
            shmem_bytes: Some(0),
            swap_bytes: Some(0),
            cgroup_bytes: Some(5 << 20),
            gpu_bytes: Some(3 << 19),
            threads: Some(3),
            minor_faults: Some(7),
            major_faults: Some(1),
            read_bytes: Some(2 << 20),
            write_bytes: Some(1),
            cpu_ns: Some(9),
            cpu_pct: Some(150.0),
        };
        let text = csv_of(row);
        assert!(text.starts_with("timestamp,label,pid,rss_mb,vms_mb,pss_mb"));
        assert_eq!(
            text.lines().nth(1).unwrap(),
            "1699999999.500000,worker,42,0.00390625,3,1,0.5,0,1,0,0,5,1.5,3,7,1,2,0.00000095367431640625,150.00"
        );
        assert_eq!(text.lines().nth(1).unwrap().split(',').count(), MEMORY_CSV_HEADER.split(',').count());
    }

    #[test]
    fn what_is_not_known_is_an_empty_field() {
        let row = MemoryRow { label: "a".to_owned(), pid: 1, ..MemoryRow::default() };
        assert_eq!(csv_of(row).lines().nth(1).unwrap(), "1699999995.000000,a,1,0,0,,,,,,,,,,,,,,");
    }

    #[test]
    fn a_label_with_commas_and_quotes_stays_one_field() {
        let row = MemoryRow { label: "my \"llama\", big".to_owned(), ..MemoryRow::default() };
        assert!(csv_of(row).contains(",\"my \"\"llama\"\", big\",0,"));
    }

    #[test]
    fn a_moment_before_the_epoch_is_the_epoch() {
        assert_eq!(ClockAnchor { monotonic_ns: 10, unix_ns: 5 }.unix_ns_at(0), 0);
    }
}
