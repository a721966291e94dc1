//! Which run, model and configuration a row of a dataset is of.
//!
//! The tables of all runs are read as one, by a glob over `data/*/*/trace.parquet` for one. The folder that a row came from
//! is lost then, so every row names it.

use std::path::Path;

use dwell_events::schema::Table;
use dwell_events::{csv_cell, csv_text};
use dwell_store::{ConstantColumn, copy_table_with};

use crate::run_results::RunResults;
use crate::{GroupKey, ReportError};

/// Columns that every table of a dataset has, and their meanings.
pub(crate) const IDENTITY_COLUMNS: [(&str, &str); 3] = [
    ("run_id", "the run; with `model_id` it names one row of `manifest.csv`"),
    ("model_id", "model that was run"),
    ("configuration", "fingerprint of all that makes runs repetitions of each other; `summary.csv` has its keys"),
];

/// What names a run in a dataset.
pub(super) struct Identity {
    values: [String; 3],
}

impl Identity {
    pub(super) fn of(run: &RunResults) -> Self {
        let RunResults { metadata, .. } = run;
        Self { values: [metadata.run_id.clone(), metadata.model_id.clone(), GroupKey::of(run).configuration()] }
    }

    fn columns(&self) -> Vec<ConstantColumn<'_>> {
        let named = IDENTITY_COLUMNS.iter().zip(&self.values);
        named.map(|((name, _), value)| ConstantColumn { name, value }).collect()
    }

    /// Copies a file of a run with the columns that name it. Returns whether it is a table: other files are not copied.
    pub(super) fn copy(&self, from: &Path, to: &Path, tables: &[Table]) -> Result<bool, ReportError> {
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        if let Some(table) = tables.iter().find(|table| table.file_name() == name) {
            copy_table_with(from, to, *table, &self.columns())?;
            return Ok(true);
        }
        let is_csv = name.ends_with(".csv");
        if is_csv {
            self.copy_csv(from, to)?;
        }
        Ok(is_csv)
    }

    fn copy_csv(&self, from: &Path, to: &Path) -> Result<(), ReportError> {
        let unfit = |error: csv::Error| ReportError::UnfitFile {
            action: "copying a file into a dataset",
            found: error.to_string(),
            path: from.to_path_buf(),
        };
        let unwritten = |error: csv::Error| ReportError::from_io("writing a dataset", to, error.into());
        let mut reader = csv::Reader::from_path(from).map_err(unfit)?;
        let mut writer = csv::Writer::from_path(to).map_err(unwritten)?;
        let mut header = reader.headers().map_err(unfit)?.clone();
        let columns = self.columns();
        let added: Vec<_> = columns.iter().filter(|column| !header.iter().any(|name| name == column.name)).collect();
        header.extend(added.iter().map(|column| column.name));
        writer.write_record(&header).map_err(unwritten)?;
        for record in reader.into_records() {
            let mut record = record.map_err(unfit)?;
            record.extend(added.iter().map(|column| column.value));
            // Runs of earlier versions have cells that are still to be marked.
            let cells = record.iter().map(|cell| csv_cell(csv_text(cell)).into_owned());
            writer.write_record(cells).map_err(unwritten)?;
        }
        writer.flush().map_err(|error| ReportError::from_io("writing a dataset", to, error))
    }
}
