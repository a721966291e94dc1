//! What is written about a run beside its tables.
//!
//! [`RunRecord`] (`raw/run.json`) is written before anything starts, [`RecordingFacts`] (`raw/recorded.json`) when
//! recording ends: with the raw streams they are all that building a run needs.

#![forbid(unsafe_code)]

mod build_options;
mod experiment_run;
mod fallback;
mod generation;
mod observer_effect;
mod page_cache;
mod recording_facts;
mod run_request;

pub use build_options::{BuildOptions, DEFAULT_BINS};
pub use experiment_run::ExperimentRun;
pub use fallback::Fallback;
pub use generation::Generation;
pub use observer_effect::{ObserverEffect, ProcessCost, Slowdown, UntracedRun};
pub use page_cache::PageCache;
pub use recording_facts::RecordingFacts;
pub use run_request::{RunRecord, RunRequest};
