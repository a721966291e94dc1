//! Runs an experiment: every planned run, once, whatever interrupts it.
//!
//! ```text
//! experiment file ─▶ dwell-config ─▶ Setup: models, prompts, rules, plan ─▶ check: does it fit, what works here
//!                                        │
//!                                        ▼
//!                     ExperimentDir ─▶ execute: run by run, record and build ─▶ results/<model>/<run>/, manifest.csv
//!                     (lock, resume)                                        └▶ experiments/<id>/summary.csv, figures/
//! ```
//!
//! What is done is known from the run directories alone: a run that has its manifest is finished. So an experiment that
//! was killed at any moment goes on where it was.

#![forbid(unsafe_code)]

mod aggregate;
mod check;
mod collectors;
mod engine_limits;
mod error;
mod estimate;
mod execute;
mod experiment_dir;
mod finding;
mod found_run;
mod listing;
mod model;
mod requests;
mod run_process;
mod setup;
mod small_model;

pub use check::{check, check_results};
pub use collectors::{ChosenCollectors, CollectorStatus, choose_collectors, probe_collectors};
pub use error::ExperimentError;
pub use estimate::{Estimate, SpeedBasis};
pub use execute::{ExperimentListener, ExperimentSummary, FailedRun, RunEnd, RunPlace, execute};
pub use experiment_dir::{ExperimentDir, Resumable};
pub use finding::{Finding, Severity, has_errors};
pub use listing::list_experiments;
pub use model::{Model, ModelFile};
pub use run_process::{FailedTask, RunTask, TaskEnd, TaskError};
pub use setup::{Setup, SetupFiles};
pub use small_model::run_small_model;
