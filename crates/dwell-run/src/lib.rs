//! One run from start to finish.
//!
//! ```text
//! RunRequest ─▶ session: worker + collectors ─▶ raw/ ─▶ build: labeller ─▶ tables ─▶ metrics, metadata, manifest
//!                                                └────── recover joins here, for a run that was killed
//! ```
//!
//! Live recording only appends to `raw/`. Everything else is made from that by [`build_run`], which is the same function
//! for a run that has just ended and for one that is recovered.

#![forbid(unsafe_code)]

mod build;
mod discard;
mod error;
mod host;
mod metadata;
mod patience;
mod raw_records;
mod record;
mod recover;
mod request;
mod rings;
mod run_loss;
mod samples;
mod sampling;
mod session;
mod summary;
mod worker_process;

pub use build::{BuildOptions, BuiltRun, analyse_run, build_run};
pub use discard::discard_run;
pub use error::RunError;
pub use host::HostFacts;
pub use metadata::{Generation, Metadata, ObserverEffect, ProcessCost};
pub use recover::recover_run;
pub use request::{RunRecord, RunRequest};
pub use session::{RecordingFacts, RunListener, record_run};
pub use summary::{RegionSummary, RunSummary};

/// Name of the raw stream of the `tensor_ops` collector.
pub const TENSOR_OPS_STREAM: &str = "tensor_ops";
/// Name of the raw stream of the `process` collector.
pub const PROCESS_STREAM: &str = "process";
/// Label of the worker in the memory table.
pub const WORKER_LABEL: &str = "worker";
/// Label of the observer in the memory table.
pub const OBSERVER_LABEL: &str = "observer";
