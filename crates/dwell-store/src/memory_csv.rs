//! `memory.csv`: the memory table for spreadsheets and for tools that read mrm-trace's file.
//!
//! Sizes are mebibytes (2^20 bytes), written so that the exact number of bytes can be had back. An empty field
//! means that the value is not known.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use dwell_events::schema::memory::MemoryRow;
use dwell_events::{ClockAnchor, csv_cell};
use dwell_files::AtomicFile;

use crate::StoreError;

/// First line of the file.
pub const MEMORY_CSV_HEADER: &str = "timestamp,label,pid,rss_mb,vms_mb,pss_mb,uss_mb,anon_mb,file_mb,shmem_mb,\
                                     swap_mb,cgroup_mb,gpu_mb,threads,minor_faults,major_faults,read_mb,write_mb,cpu_pct";

const BYTES_PER_MB: f64 = 1_048_576.0;

/// Writes rows as CSV to anything.
pub struct MemoryCsv<W: Write> {
    writer: csv::Writer<W>,
    anchor: ClockAnchor,
    /// The field that is being written; kept so that a row allocates nothing.
    field: String,
}

impl<W: Write> MemoryCsv<W> {
    /// Begins with the header line.
    pub fn new(writer: W, anchor: ClockAnchor) -> io::Result<Self> {
        let mut writer = csv::Writer::from_writer(writer);
        writer.write_record(MEMORY_CSV_HEADER.split(','))?;
        Ok(Self { writer, anchor, field: String::new() })
    }

    /// Adds rows.
    pub fn write(&mut self, rows: &[MemoryRow]) -> io::Result<()> {
        rows.iter().try_for_each(|row| self.row(row)).map_err(io::Error::from)
    }

    /// Has the writer hand on what it holds.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Hands on what it holds and gives the writer back.
    pub fn into_inner(self) -> io::Result<W> {
        self.writer.into_inner().map_err(csv::IntoInnerError::into_error)
    }

    fn row(&mut self, row: &MemoryRow) -> csv::Result<()> {
        let micros = self.anchor.unix_ns_at(row.timestamp_ns) / 1_000;
        self.number(format_args!("{}.{:06}", micros / 1_000_000, micros % 1_000_000))?;
        self.writer.write_field(csv_cell(&row.label).as_bytes())?;
        self.number(format_args!("{}", row.pid))?;
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
        sizes.into_iter().try_for_each(|bytes| self.mebibytes(bytes))?;
        let counts = [row.threads.map(u64::from), row.minor_faults, row.major_faults];
        counts.into_iter().try_for_each(|count| self.known(count, |field, count| write!(field, "{count}")))?;
        [row.read_bytes, row.write_bytes].into_iter().try_for_each(|bytes| self.mebibytes(bytes))?;
        self.known(row.cpu_pct, |field, cpu_pct| write!(field, "{cpu_pct:.2}"))?;
        self.writer.write_record(None::<&[u8]>)
    }

    fn mebibytes(&mut self, bytes: Option<u64>) -> csv::Result<()> {
        self.known(bytes, |field, bytes| write!(field, "{}", bytes as f64 / BYTES_PER_MB))
    }

    fn number(&mut self, text: fmt::Arguments<'_>) -> csv::Result<()> {
        self.known(Some(text), |field, text| field.write_fmt(text))
    }

    /// An empty field for what is not known.
    fn known<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut String, T) -> fmt::Result) -> csv::Result<()> {
        self.field.clear();
        if let Some(value) = value {
            put(&mut self.field, value).expect("a String takes whatever is written to it");
        }
        self.writer.write_field(&self.field)
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
        let file = self.csv.into_inner().map_err(|error| write_error(&self.path, error))?;
        Ok(file.commit()?)
    }
}

fn write_error(path: &Path, error: io::Error) -> StoreError {
    StoreError::from_io("writing memory.csv", path, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANCHOR: ClockAnchor = ClockAnchor { monotonic_ns: 5_000_000_000, unix_ns: 1_700_000_000_000_000_000 };

    fn csv_of(row: MemoryRow) -> String {
        let mut csv = MemoryCsv::new(Vec::new(), ANCHOR).unwrap();
        csv.write(&[row]).unwrap();
        String::from_utf8(csv.into_inner().unwrap()).unwrap()
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
