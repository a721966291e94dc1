//! From the raw streams of a run to a sealed run directory.
//!
//! ```text
//! raw/ ─▶ build: labeller ─▶ tables ─▶ metrics, metadata, manifest
//!   └──── recover joins here, for a run that was killed
//! ```
//!
//! [`build_run`] is the same function for a run that has just ended and for one that is recovered.

#![forbid(unsafe_code)]

mod build;
mod energy_report;
mod error;
mod foreign_columns;
pub mod import;
mod judgement;
mod listener;
mod manifest_row;
mod memory_report;
mod metadata;
mod recover;
mod relabel;
mod run_files;
mod run_loss;
mod sampled_trace;
mod seal;
mod server_figures;
mod snapshot;
mod trace_order;

pub use build::{BuildSetup, BuiltRun, build_run};
pub use error::BuildError;
pub use judgement::GivenRows;
pub use listener::{BuildListener, NoListener};
pub use manifest_row::failed_row;
pub use recover::{ensure_unattended, is_running_dwell, recover_run};
pub use relabel::{RelabelReport, RelabelRequest, read_rules, relabel_run};
pub use snapshot::build_snapshot;
