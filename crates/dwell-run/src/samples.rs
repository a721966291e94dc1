//! Process samples: from their raw stream to the memory table, and what the rest of the run needs of them.

use arrow_array::RecordBatch;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use dwell_events::schema::Table;
use dwell_events::schema::memory::{self, MemoryRow};
use dwell_store::{
    ClockAnchor, Compression, MemoryCsvFile, RawReader, RunDir, StoreError, StreamEnd, TableWriter, number_at, text_at,
};

use crate::observer_effect::ProcessCost;
use crate::{OBSERVER_LABEL, PROCESS_STREAM, WORKER_LABEL};

/// What is kept of the samples after they were written; a long run has many.
#[derive(Default)]
pub(crate) struct ProcessSamples {
    /// Rows of the memory table.
    pub(crate) rows: u64,
    /// Cost of the process that runs the model.
    pub(crate) worker: ProcessCost,
    /// Cost of the process that watches.
    pub(crate) observer: ProcessCost,
    /// Resident memory of the worker: times and bytes.
    worker_rss: Vec<(u64, u64)>,
    /// Batches that are damaged or cut off; a stream that cannot be read at all counts as one.
    pub(crate) damaged_batches: u64,
}

impl ProcessSamples {
    /// Writes the memory table and its CSV from all samples that the raw stream has: the run does not depend on those
    /// that are missing.
    pub(crate) fn write_tables(
        run: &RunDir,
        anchor: ClockAnchor,
        compression: Compression,
    ) -> Result<Self, StoreError> {
        let mut table = TableWriter::create_with(run.path(), Table::Memory, compression)?;
        let mut csv = MemoryCsvFile::create(&run.memory_csv(), anchor)?;
        let mut samples = Self::default();
        match RawReader::open(&run.raw_stream(PROCESS_STREAM)) {
            Ok(mut reader) => {
                for batch in reader.by_ref() {
                    let Ok(batch) = batch else {
                        samples.damaged_batches += 1;
                        continue;
                    };
                    let rows = rows_of(&batch);
                    table.write(&memory::batch(&rows))?;
                    csv.write(&rows)?;
                    samples.note(&rows);
                }
                let is_torn = |bytes_dropped| bytes_dropped > 0;
                let end = reader.end();
                samples.damaged_batches += u64::from(
                    matches!(end, Some(StreamEnd::Truncated { bytes_dropped, .. }) if is_torn(bytes_dropped)),
                );
            }
            Err(StoreError::NotFound { .. } | StoreError::TruncatedHeader { .. }) => {}
            Err(_) => samples.damaged_batches = 1,
        }
        samples.rows = table.finish()?;
        csv.finish()?;
        Ok(samples)
    }

    fn note(&mut self, rows: &[MemoryRow]) {
        for row in rows {
            match row.label.as_str() {
                WORKER_LABEL => {
                    self.worker.note(row);
                    self.worker_rss.push((row.timestamp_ns, row.rss_bytes));
                }
                OBSERVER_LABEL => self.observer.note(row),
                _ => {}
            }
        }
    }

    /// Resident memory of the worker at a time, from the nearest earlier sample.
    pub(crate) fn worker_rss_at(&self, time_ns: u64) -> Option<u64> {
        let later = self.worker_rss.partition_point(|&(sampled_ns, _)| sampled_ns <= time_ns);
        later.checked_sub(1).map(|at| self.worker_rss[at].1)
    }
}

fn rows_of(batch: &RecordBatch) -> Vec<MemoryRow> {
    let wide = |name: &str, row: usize| number_at::<UInt64Type>(batch, name, row);
    let count = |name: &str, row: usize| number_at::<UInt32Type>(batch, name, row);
    (0..batch.num_rows())
        .filter_map(|row| {
            Some(MemoryRow {
                timestamp_ns: wide("timestamp_ns", row)?,
                label: text_at(batch, "label", row)?.to_owned(),
                pid: count("pid", row)?,
                rss_bytes: wide("rss_bytes", row)?,
                vms_bytes: wide("vms_bytes", row)?,
                pss_bytes: wide("pss_bytes", row),
                uss_bytes: wide("uss_bytes", row),
                anon_bytes: wide("anon_bytes", row),
                file_bytes: wide("file_bytes", row),
                shmem_bytes: wide("shmem_bytes", row),
                swap_bytes: wide("swap_bytes", row),
                threads: count("threads", row),
                minor_faults: wide("minor_faults", row),
                major_faults: wide("major_faults", row),
                read_bytes: wide("read_bytes", row),
                write_bytes: wide("write_bytes", row),
                cpu_ns: wide("cpu_ns", row),
                cpu_pct: number_at::<Float64Type>(batch, "cpu_pct", row),
            })
        })
        .collect()
}
