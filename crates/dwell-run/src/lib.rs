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
mod build_options;
mod capture;
mod discard;
mod error;
mod experiment_run;
mod judgement;
mod kv_events;
mod manifest_row;
mod memory_report;
mod merged_records;
mod metadata;
mod observer_effect;
mod page_cache;
mod patience;
mod probe;
mod raw_records;
mod record;
mod recordings;
mod recover;
mod relabel;
mod request;
mod rings;
mod run_loss;
mod samples;
mod sampling;
mod server_figures;
mod session;
mod summary;
mod worker_process;

pub use build::{BuiltRun, analyse_run, build_run};
pub use build_options::{BuildOptions, DEFAULT_BINS};
pub use capture::{CaptureListener, CaptureReport, capture};
pub use discard::discard_run;
pub use error::RunError;
pub use experiment_run::ExperimentRun;
pub use manifest_row::failed_row;
pub use metadata::{CollectorFacts, Fallback, Generation, Metadata, Telemetry};
pub use observer_effect::{ObserverEffect, ProcessCost, Slowdown, UntracedRun};
pub use probe::{TensorOpsProbe, probe_tensor_ops};
pub use recover::{ensure_unattended, recover_run};
pub use relabel::{RelabelReport, RelabelRequest, read_rules, relabel_run};
pub use request::{RunRecord, RunRequest};
pub use session::{NoListener, RecordingFacts, RunListener, record_run};
pub use summary::{RegionSummary, RunSummary};

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
