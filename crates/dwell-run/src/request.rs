use std::time::Duration;

use dwell_events::engine::Job;
use dwell_store::ClockAnchor;
use serde::{Deserialize, Serialize};

use crate::host::HostFacts;

/// What to run and how to watch it.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Engine and work.
    pub job: Job,
    /// Where the model came from, for the metadata: a file, or a name that was resolved.
    pub model_id: String,
    /// Whether graphs are recorded; without, only events and process samples are.
    pub is_traced: bool,
    /// Time between two process samples; none takes no samples.
    pub sample_interval: Option<Duration>,
    /// Command line, for the metadata.
    pub command_line: Vec<String>,
}

/// What is written before anything starts, so that a killed run can be finished: `raw/run.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// The work.
    pub job: Job,
    /// The model's name.
    pub model_id: String,
    /// Whether graphs are recorded.
    pub is_traced: bool,
    /// Time between two process samples; none if no samples are taken.
    pub sample_interval_ms: Option<u64>,
    /// Command line.
    pub command_line: Vec<String>,
    /// What both clocks said at the start.
    pub clock: ClockAnchor,
    /// The machine.
    pub host: HostFacts,
    /// Version of dwell.
    pub dwell_version: String,
}

impl RunRecord {
    /// File name in `raw/`.
    pub const FILE_NAME: &str = "run.json";

    /// The record of a request, as of now.
    pub fn of(request: &RunRequest) -> Self {
        Self {
            job: request.job.clone(),
            model_id: request.model_id.clone(),
            is_traced: request.is_traced,
            sample_interval_ms: request.sample_interval.map(|interval| interval.as_millis() as u64),
            command_line: request.command_line.clone(),
            clock: clock_anchor(),
            host: HostFacts::read(),
            dwell_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

fn clock_anchor() -> ClockAnchor {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    ClockAnchor { monotonic_ns: dwell_ggml::monotonic_ns(), unix_ns: unix.as_nanos() as u64 }
}
