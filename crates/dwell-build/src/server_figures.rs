//! `server_metrics.csv`: what a server published of itself, over time.

use std::path::PathBuf;

use dwell_events::csv_cell;
use dwell_files::AtomicFile;
use dwell_label::ServerFigure;
use dwell_store::{ClockAnchor, RunDir, StoreError};

const FILE_NAME: &str = "server_metrics.csv";
const WRITING: &str = "writing a server's figures";

/// The file while it is written.
pub(crate) struct ServerFiguresFile {
    csv: csv::Writer<AtomicFile>,
    anchor: ClockAnchor,
    path: PathBuf,
}

impl ServerFiguresFile {
    pub(crate) fn create(run: &RunDir, anchor: ClockAnchor) -> Result<Self, StoreError> {
        let path = run.path().join(FILE_NAME);
        let mut file = Self { csv: csv::Writer::from_writer(AtomicFile::create(&path)?), anchor, path };
        file.row(["timestamp", "name", "value"])?;
        Ok(file)
    }

    pub(crate) fn write(&mut self, figures: &[ServerFigure]) -> Result<(), StoreError> {
        for figure in figures {
            let micros = self.anchor.unix_ns_at(figure.timestamp_ns) / 1_000;
            let timestamp = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            self.row([timestamp.as_str(), &csv_cell(&figure.name), &figure.value.to_string()])?;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<(), StoreError> {
        let failed = |error: csv::IntoInnerError<_>| StoreError::from_io(WRITING, &self.path, error.into_error());
        Ok(self.csv.into_inner().map_err(failed)?.commit()?)
    }

    fn row(&mut self, fields: [&str; 3]) -> Result<(), StoreError> {
        let failed = |error| StoreError::from_io(WRITING, &self.path, std::io::Error::other(error));
        self.csv.write_record(fields).map_err(failed)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_spreadsheet_would_calculate_is_marked() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(dir.path(), "m", "r").unwrap();
        let mut file = ServerFiguresFile::create(&run, ClockAnchor { monotonic_ns: 0, unix_ns: 0 }).unwrap();
        file.write(&[ServerFigure { timestamp_ns: 0, name: "=1+1".to_owned(), value: -2.0 }]).unwrap();
        file.finish().unwrap();
        let text = std::fs::read_to_string(run.path().join(FILE_NAME)).unwrap();
        assert_eq!(text, "timestamp,name,value\n0.000000,'=1+1,-2\n");
    }
}
