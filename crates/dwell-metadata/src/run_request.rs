//! What to run, how to watch it, and what to make of it.

use dwell_events::ClockAnchor;
use dwell_events::engine::Job;
use dwell_events::host::{Baseline, Host};
use serde::{Deserialize, Serialize};

use crate::{BuildOptions, ExperimentRun, Fallback, PageCache, UntracedRun};

/// What to run and how to watch it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRequest {
    /// Engine and work.
    pub job: Job,
    /// Where the model came from, for the metadata: a file, or a name that was resolved.
    pub model_id: String,
    /// Whether graphs are recorded; without, only events and process samples are.
    pub is_traced: bool,
    /// Time between two process samples; none takes no samples.
    pub sample_interval_ms: Option<u64>,
    /// How long the machine is watched before the run begins.
    #[serde(default)]
    pub baseline_ms: u64,
    /// Time between two looks at temperature and frequency.
    #[serde(default)]
    pub sensor_interval_ms: u64,
    /// Command line, for the metadata.
    pub command_line: Vec<String>,
    /// What is made of the records.
    #[serde(default)]
    pub build: BuildOptions,
    /// The experiment that the run belongs to.
    #[serde(default)]
    pub experiment: Option<ExperimentRun>,
    /// Collectors that were wanted and do not work here.
    #[serde(default)]
    pub fallbacks: Vec<Fallback>,
    /// The same work without recording, to tell how much recording slows it down.
    #[serde(default)]
    pub untraced: Option<UntracedRun>,
}

/// What is written before anything starts, so that a killed run can be finished: `raw/run.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// What was asked for.
    #[serde(flatten)]
    pub request: RunRequest,
    /// What both clocks said at the start.
    pub clock: ClockAnchor,
    /// The machine.
    pub host: Host,
    /// What the machine did before the run; none if that was not looked at.
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// How much of the model's file was in the page cache when the run began; none if there is no file to look at.
    #[serde(default)]
    pub page_cache: Option<PageCache>,
    /// Version of dwell.
    pub dwell_version: String,
}

impl RunRecord {
    /// File name in `raw/`.
    pub const FILE_NAME: &str = "run.json";
}
