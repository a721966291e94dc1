//! Rows of the memory table, back from batches.

use arrow_array::RecordBatch;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use dwell_events::schema::memory::MemoryRow;

use crate::{number_at, text_at};

/// The rows of a batch of process samples. A column that the stream of an earlier version lacks is missing in each.
pub fn memory_rows(batch: &RecordBatch) -> Vec<MemoryRow> {
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
                cgroup_bytes: wide("cgroup_bytes", row),
                gpu_bytes: wide("gpu_bytes", row),
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
