//! Process samples: from their raw stream to the memory table, and what the rest of the run needs of them.

use dwell_analysis::memory::MemorySeries;
use dwell_events::schema::Table;
use dwell_events::schema::memory::{self, MemoryRow};
use dwell_metadata::ProcessCost;
use dwell_process::total_label;
use dwell_store::{ClockAnchor, Compression, MemoryCsvFile, RunDir, StoreError, TableWriter, memory_rows};

use super::{NAME, OBSERVER_LABEL, SERVER_LABEL, WORKER_LABEL};
use crate::batches::each_batch;

/// What is kept of the samples after they were written; a long run has many.
#[derive(Default)]
pub struct ProcessSamples {
    /// Rows of the memory table.
    pub rows: u64,
    /// Cost of the process that runs the model.
    pub worker: ProcessCost,
    /// Cost of the process that watches.
    pub observer: ProcessCost,
    /// Memory of what runs the model: the worker, or all processes of a server together.
    pub engine: MemorySeries,
    /// Batches that are damaged or cut off; a stream that cannot be read at all counts as one.
    pub damaged_batches: u64,
}

impl ProcessSamples {
    /// Writes the memory table and its CSV from all samples that the raw stream has: the run does not depend on those
    /// that are missing.
    pub(super) fn write_tables(
        run: &RunDir,
        anchor: ClockAnchor,
        compression: Compression,
    ) -> Result<Self, StoreError> {
        let mut table = TableWriter::create_with(run.path(), Table::Memory, compression)?;
        let mut csv = MemoryCsvFile::create(&run.memory_csv(), anchor)?;
        let mut samples = Self::default();
        samples.damaged_batches = each_batch(&run.raw_stream(NAME.name()), |batch| {
            let rows = memory_rows(&batch);
            table.write(&memory::batch(&rows))?;
            csv.write(&rows)?;
            samples.note(&rows);
            Ok(())
        })?;
        samples.rows = table.finish()?;
        csv.finish()?;
        Ok(samples)
    }

    fn note(&mut self, rows: &[MemoryRow]) {
        for row in rows {
            match row.label.as_str() {
                OBSERVER_LABEL => self.observer.note(row),
                label if label == WORKER_LABEL || label == total_label(SERVER_LABEL) => {
                    self.worker.note(row);
                    self.engine.push(row);
                }
                _ => {}
            }
        }
    }
}
