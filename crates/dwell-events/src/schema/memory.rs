//! `memory`: one row per process and sample.
//!
//! Sizes are bytes here and mebibytes in `memory.csv`. A value that the kernel did not give is missing, never 0.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::columns::{numbers, words};
use super::{Meaning, column, meaning, optional, text};

/// One sample of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryRow {
    /// CLOCK_MONOTONIC nanoseconds.
    pub timestamp_ns: u64,
    /// Role of the process in the run: `worker`, `observer`; `<label>:total` sums up a tree.
    pub label: String,
    /// Process id; 0 for a total.
    pub pid: u32,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Virtual memory.
    pub vms_bytes: u64,
    /// Proportional share of resident memory.
    pub pss_bytes: Option<u64>,
    /// Memory that belongs to this process alone.
    pub uss_bytes: Option<u64>,
    /// Resident anonymous memory.
    pub anon_bytes: Option<u64>,
    /// Resident file-backed memory.
    pub file_bytes: Option<u64>,
    /// Resident shared memory.
    pub shmem_bytes: Option<u64>,
    /// Swapped-out memory.
    pub swap_bytes: Option<u64>,
    /// Memory charged to the control group of the process, with whatever else is in it.
    pub cgroup_bytes: Option<u64>,
    /// Memory on GPUs.
    pub gpu_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u32>,
    /// Minor faults since the process began.
    pub minor_faults: Option<u64>,
    /// Major faults since the process began.
    pub major_faults: Option<u64>,
    /// Bytes read from storage since the process began.
    pub read_bytes: Option<u64>,
    /// Bytes written to storage since the process began.
    pub write_bytes: Option<u64>,
    /// CPU time since the process began.
    pub cpu_ns: Option<u64>,
    /// CPU use since the previous sample of this process, 100 = one core.
    pub cpu_pct: Option<f64>,
}

/// Columns of the table.
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![
            column("timestamp_ns", DataType::UInt64),
            text("label", false),
            column("pid", DataType::UInt32),
            column("rss_bytes", DataType::UInt64),
            column("vms_bytes", DataType::UInt64),
            optional("pss_bytes", DataType::UInt64),
            optional("uss_bytes", DataType::UInt64),
            optional("anon_bytes", DataType::UInt64),
            optional("file_bytes", DataType::UInt64),
            optional("shmem_bytes", DataType::UInt64),
            optional("swap_bytes", DataType::UInt64),
            optional("cgroup_bytes", DataType::UInt64),
            optional("gpu_bytes", DataType::UInt64),
            optional("threads", DataType::UInt32),
            optional("minor_faults", DataType::UInt64),
            optional("major_faults", DataType::UInt64),
            optional("read_bytes", DataType::UInt64),
            optional("write_bytes", DataType::UInt64),
            optional("cpu_ns", DataType::UInt64),
            optional("cpu_pct", DataType::Float64),
        ]))
    });
    SCHEMA.clone()
}

/// Unit and meaning of each column, in the order of the schema.
#[rustfmt::skip]
pub(super) const MEANINGS: [Meaning; 20] = [
    meaning("timestamp_ns", "ns", "when it was sampled"),
    meaning("label", "", "role of the process: `worker` runs the model, `client` drives a server or a command, `observer` watches; `<label>:total` sums up the processes of a label"),
    meaning("pid", "", "process id; 0 for a total"),
    meaning("rss_bytes", "bytes", "resident memory"),
    meaning("vms_bytes", "bytes", "virtual memory"),
    meaning("pss_bytes", "bytes", "resident memory, shared pages divided among those who share them"),
    meaning("uss_bytes", "bytes", "resident memory that no other process shares"),
    meaning("anon_bytes", "bytes", "resident anonymous memory"),
    meaning("file_bytes", "bytes", "resident file-backed memory, such as mapped weights"),
    meaning("shmem_bytes", "bytes", "resident shared memory"),
    meaning("swap_bytes", "bytes", "swapped-out memory"),
    meaning("cgroup_bytes", "bytes", "memory charged to the process's control group, page cache and other processes included"),
    meaning("gpu_bytes", "bytes", "memory on NVIDIA GPUs"),
    meaning("threads", "", "threads"),
    meaning("minor_faults", "", "minor page faults since the process began"),
    meaning("major_faults", "", "major page faults since the process began"),
    meaning("read_bytes", "bytes", "bytes read from storage since the process began"),
    meaning("write_bytes", "bytes", "bytes written to storage since the process began"),
    meaning("cpu_ns", "ns", "CPU time since the process began, in nanoseconds"),
    meaning("cpu_pct", "%", "CPU use since the previous sample of the process; 100 is one core"),
];

/// The rows as one batch of the table's schema.
pub fn batch(rows: &[MemoryRow]) -> RecordBatch {
    let wide = |value: fn(&MemoryRow) -> Option<u64>| numbers::<UInt64Type, _>(rows, value);
    let counts = |value: fn(&MemoryRow) -> Option<u32>| numbers::<UInt32Type, _>(rows, value);
    let columns = vec![
        wide(|row| Some(row.timestamp_ns)),
        words(rows, |row| &row.label),
        counts(|row| Some(row.pid)),
        wide(|row| Some(row.rss_bytes)),
        wide(|row| Some(row.vms_bytes)),
        wide(|row| row.pss_bytes),
        wide(|row| row.uss_bytes),
        wide(|row| row.anon_bytes),
        wide(|row| row.file_bytes),
        wide(|row| row.shmem_bytes),
        wide(|row| row.swap_bytes),
        wide(|row| row.cgroup_bytes),
        wide(|row| row.gpu_bytes),
        counts(|row| row.threads),
        wide(|row| row.minor_faults),
        wide(|row| row.major_faults),
        wide(|row| row.read_bytes),
        wide(|row| row.write_bytes),
        wide(|row| row.cpu_ns),
        numbers::<Float64Type, _>(rows, |row| row.cpu_pct),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are the schema's, in order")
}
