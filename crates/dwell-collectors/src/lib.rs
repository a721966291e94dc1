//! What watches a run: each collector from its source to its raw stream, and from there to tables.

#![forbid(unsafe_code)]

mod error;
pub mod kv_events;
mod merged_records;
mod raw_records;
mod record_stream;
mod recordings;
mod ring_recording;
pub mod rings;
mod salvage;
mod samples;
mod sampling;

pub use error::CollectError;
pub use merged_records::MergedRecords;
pub use recordings::Recordings;
pub use salvage::salvage;
pub use samples::ProcessSamples;
pub use sampling::{Sampling, SamplingEnd};

/// Name of the raw stream of the engine's events, which every engine has.
pub const ENGINE_STREAM: &str = "engine";
/// Name of the raw stream of the `tensor_ops` collector.
pub const TENSOR_OPS_STREAM: &str = "tensor_ops";
/// Name of the raw stream of the `process` collector.
pub const PROCESS_STREAM: &str = "process";
/// Label of the worker in the memory table.
pub const WORKER_LABEL: &str = "worker";
/// Label of a server's processes in the memory table.
pub const SERVER_LABEL: &str = "server";
/// Label of the process that asks a server in the memory table.
pub const CLIENT_LABEL: &str = "client";
/// Label of the observer in the memory table.
pub const OBSERVER_LABEL: &str = "observer";
