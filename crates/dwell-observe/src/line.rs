//! One line of a file of observations: what happened in one interval.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::Bucket;

/// What happened in one interval. Fields that were not asked for are absent; those that could not be had are named in
/// `sources`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// End of the interval in seconds since 1970 UTC.
    pub timestamp: f64,
    /// The same in ISO 8601.
    pub iso_timestamp: String,
    /// Length of the interval.
    pub interval_s: f64,
    /// Begin of the interval on CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// End of the interval on CLOCK_MONOTONIC.
    pub end_ns: u64,
    /// Identity of the boot that CLOCK_MONOTONIC counts from.
    pub boot_id: String,
    /// What the user called it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Where each group of fields comes from.
    pub sources: BTreeMap<String, Source>,
    /// Latency of block requests, by device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_histogram: Option<Vec<DeviceLatency>>,
    /// Block requests that are with the device at the end of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inflight: Option<Vec<DeviceInflight>>,
    /// What `/proc/diskstats` counted in the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disks: Option<Vec<DiskCounts>>,
    /// Time that the threads of each process did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_cpu_ns: Option<BTreeMap<u32, u64>>,
    /// Page faults of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<BTreeMap<u32, u64>>,
    /// Pressure stall information by resource, then by `some` and `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<PressureLines>,
    /// Processes that did anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<ProcessUse>>,
    /// Time between a thread being ready and running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_queue: Option<RunQueue>,
    /// System calls that move data or map memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syscalls: Option<Vec<CallUse>>,
    /// System calls that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Vec<CallUse>>,
    /// TCP of the whole machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpUse>,
    /// What is missing.
    pub lost: Lost,
    /// CPU time of dwell itself in the interval.
    pub observer_cpu_ns: u64,
}

/// Pressure by resource, then by `some` and `full`.
pub type PressureLines = BTreeMap<String, BTreeMap<String, PressureValues>>;

/// Where a group of fields comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Which mechanism.
    pub source: SourceKind,
    /// Why it is not eBPF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A mechanism that fields come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Programs in the kernel.
    Ebpf,
    /// Counters of the kernel.
    Procfs,
    /// None: the fields are absent.
    Unavailable,
}

impl SourceKind {
    /// The name that is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ebpf => "ebpf",
            Self::Procfs => "procfs",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Latency of the block requests of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceLatency {
    /// Number of the device: major times 2^20 plus minor.
    pub device_id: u32,
    /// Name of the device.
    pub device_name: String,
    /// Requests in the buckets.
    pub total: u64,
    /// Slots that are not empty.
    pub buckets: Vec<Bucket>,
    /// The same by kind of request.
    pub operations: Vec<OperationLatency>,
}

impl DeviceLatency {
    /// Bytes that were read and written. Other requests, such as discards, name blocks and move no data.
    pub fn moved_bytes(&self) -> u64 {
        let moves = |operation: &&OperationLatency| ["read", "write"].contains(&operation.operation.as_str());
        self.operations.iter().filter(moves).map(|operation| operation.bytes).sum()
    }
}

/// Block requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationLatency {
    /// `read`, `write` or `other` (discards and the like).
    pub operation: String,
    /// Requests that completed.
    pub requests: u64,
    /// Bytes that completed.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Times that a request was issued again.
    pub requeues: u64,
    /// Sum of the latencies.
    pub latency_ns: u64,
    /// Greatest latency since observing began.
    pub latency_max_ns: u64,
    /// Slots that are not empty.
    pub buckets: Vec<Bucket>,
}

/// Requests with a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceInflight {
    /// Number of the device.
    pub device_id: u32,
    /// Name of the device.
    pub device_name: String,
    /// Requests that were issued and did not complete.
    pub count: u64,
    /// The kernel's own number, from `/sys/block/<name>/inflight`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_count: Option<u64>,
}

/// What the kernel's own counters of a disk say of the interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskCounts {
    /// Number of the device.
    pub device_id: u32,
    /// Name of the device.
    pub device_name: String,
    /// Reads that completed.
    pub reads: u64,
    /// Writes that completed; flushes are among them.
    pub writes: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Flushes that completed.
    pub flushes: u64,
    /// Mean latency of a read in milliseconds, as exact as the kernel counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ms_mean: Option<f64>,
    /// Mean latency of a write in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_ms_mean: Option<f64>,
    /// Mean number of requests with the device.
    pub queue_depth: f64,
    /// Share of the interval with a request at the device.
    pub busy_pct: f64,
}

/// A line of a pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PressureValues {
    /// Share of the last 10 s in percent.
    pub avg10: f64,
    /// Share of the last 60 s in percent.
    pub avg60: f64,
    /// Share of the last 300 s in percent.
    pub avg300: f64,
    /// Microseconds since boot.
    pub total: u64,
    /// Microseconds in this interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_us: Option<u64>,
}

/// What one process did in the interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessUse {
    /// Process id.
    pub pid: u32,
    /// Short name.
    pub name: String,
    /// Threads that were seen.
    pub threads: u32,
    /// Time that its threads did not run.
    pub off_cpu_ns: Option<u64>,
    /// Time that its threads were ready and did not run.
    pub run_queue_ns: Option<u64>,
    /// Times that a thread left the processor.
    pub switches: Option<u64>,
    /// Page faults.
    pub page_faults: Option<u64>,
    /// Page faults by a write.
    pub write_faults: Option<u64>,
    /// Page faults that read from a disk.
    pub major_faults: Option<u64>,
    /// Traced system calls that ended.
    pub calls: Option<u64>,
    /// Time in traced system calls.
    pub call_ns: Option<u64>,
    /// Time in system calls that wait.
    pub wait_ns: Option<u64>,
    /// Bytes that calls read.
    pub read_bytes: Option<u64>,
    /// Bytes that calls wrote.
    pub written_bytes: Option<u64>,
    /// Bytes sent by TCP.
    pub tcp_sent_bytes: Option<u64>,
    /// Bytes received by TCP.
    pub tcp_received_bytes: Option<u64>,
    /// TCP segments sent again.
    pub tcp_retransmits: Option<u64>,
}

/// Waits of ready threads for a processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunQueue {
    /// Waits.
    pub count: u64,
    /// Sum of the waits.
    pub wait_ns: u64,
    /// Slots that are not empty; empty if only the sum is known.
    pub buckets: Vec<Bucket>,
}

/// One kind of system call in the interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallUse {
    /// Name of the call.
    pub syscall: String,
    /// Calls that ended.
    pub count: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Sum of the latencies.
    pub latency_ns: u64,
    /// Greatest latency since observing began.
    pub latency_max_ns: u64,
    /// Slots that are not empty.
    pub buckets: Vec<Bucket>,
}

/// TCP of the whole machine, as the kernel counts it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpUse {
    /// Segments received.
    pub segments_received: u64,
    /// Segments sent, without those sent again.
    pub segments_sent: u64,
    /// Segments sent again.
    pub segments_retransmitted: u64,
}

/// Events that found no room in the kernel's maps or went by unseen, in the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lost {
    /// Block requests without a time of issue.
    pub requests: u64,
    /// Events of further devices.
    pub devices: u64,
    /// Events of further threads.
    pub threads: u64,
    /// Sockets whose retransmissions are not counted.
    pub sockets: u64,
    /// Block requests whose completion went by unseen.
    pub completions: u64,
}

impl Lost {
    /// Events that found no room. Unseen completions are not among them: the kernel's own counts tell of those requests.
    pub fn total(&self) -> u64 {
        self.requests + self.devices + self.threads + self.sockets
    }
}
