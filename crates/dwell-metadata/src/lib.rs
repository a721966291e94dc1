//! What is written about a run beside its tables.
//!
//! [`RunRecord`] (`raw/run.json`) is written before anything starts, [`RecordingEnd`] (`raw/recorded.json`) when
//! recording ends: with the raw streams they are all that building a run needs. [`RunMetadata`] (`metadata.json`) is
//! written when the run is sealed and read by whatever reports on it.
//!
//! Types and their checks only: nothing here opens a file.

#![forbid(unsafe_code)]

mod agreement;
mod build_options;
mod collectors;
mod experiment_run;
mod fallback;
mod generation;
mod observer_effect;
mod origin;
mod page_cache;
mod reading;
mod recording_end;
mod run_metadata;
mod run_request;
mod view;

pub use agreement::Agreement;
pub use build_options::{BuildOptions, DEFAULT_BINS};
pub use collectors::{CollectorEnd, CollectorLoss, Collectors};
pub use experiment_run::ExperimentRun;
pub use fallback::{Fallback, Refusal, RefusedAt, Substitute};
pub use generation::Generation;
pub use observer_effect::{ObserverEffect, ProcessCost, Slowdown, UntracedRun};
pub use origin::{
    AllocatorTotals, ImportOrigin, ImportedFile, KvEventsImport, MemrayCaptureOrigin, MemrayImport, Relabelling,
    Timestamps,
};
pub use page_cache::PageCache;
pub use reading::MetadataError;
pub use recording_end::{RecordingEnd, sampling_end};
pub use run_metadata::{CollectorAbout, CollectorUse, RunMetadata, Stop, TableOrigin, Telemetry, kv_type_name};
pub use run_request::{RunRecord, RunRequest};
pub use view::{RunView, ViewedRun};
