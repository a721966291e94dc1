//! Process samples, read back from their raw stream.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use dwell_events::schema::memory::MemoryRow;
use dwell_store::{RawReader, StoreError, StreamEnd};

/// The samples of a run.
#[derive(Default)]
pub(crate) struct ProcessSamples {
    /// In time order.
    pub(crate) rows: Vec<MemoryRow>,
    /// Batches that are damaged or cut off; a stream that cannot be read at all counts as one.
    pub(crate) damaged_batches: u64,
}

impl ProcessSamples {
    /// All samples that a stream has: the run does not depend on those that are missing.
    pub(crate) fn read(stream: &Path) -> Self {
        let mut reader = match RawReader::open(stream) {
            Ok(reader) => reader,
            Err(StoreError::NotFound { .. } | StoreError::TruncatedHeader { .. }) => return Self::default(),
            Err(_) => return Self { rows: Vec::new(), damaged_batches: 1 },
        };
        let mut samples = Self::default();
        for batch in reader.by_ref() {
            match batch {
                Ok(batch) => samples.rows.extend(rows_of(&batch)),
                Err(_) => samples.damaged_batches += 1,
            }
        }
        let is_torn = matches!(reader.end(), Some(StreamEnd::Truncated { bytes_dropped, .. }) if bytes_dropped > 0);
        samples.damaged_batches += u64::from(is_torn);
        samples.rows.sort_by_key(|row| row.timestamp_ns);
        samples
    }
}

fn rows_of(batch: &RecordBatch) -> Vec<MemoryRow> {
    let labels = batch.column_by_name("label").and_then(|column| column.as_dictionary_opt::<Int32Type>());
    let label = |row: usize| {
        let labels = labels?;
        let text = labels.values().as_string_opt::<i32>()?.value(labels.key(row)?);
        Some(text.to_owned())
    };
    let wide = |name: &str, row: usize| {
        let column = batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>()?;
        column.is_valid(row).then(|| column.value(row))
    };
    let count = |name: &str, row: usize| {
        let column = batch.column_by_name(name)?.as_primitive_opt::<UInt32Type>()?;
        column.is_valid(row).then(|| column.value(row))
    };
    let share = |name: &str, row: usize| {
        let column = batch.column_by_name(name)?.as_primitive_opt::<Float64Type>()?;
        column.is_valid(row).then(|| column.value(row))
    };
    (0..batch.num_rows())
        .filter_map(|row| {
            Some(MemoryRow {
                timestamp_ns: wide("timestamp_ns", row)?,
                label: label(row)?,
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
                cpu_pct: share("cpu_pct", row),
            })
        })
        .collect()
}
