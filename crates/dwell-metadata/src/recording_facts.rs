//! How recording ended.

use dwell_events::host::SensorSummary;
use serde::{Deserialize, Serialize};

/// What recording found out that is in no raw stream: `raw/recorded.json`.
///
/// It is the last thing that recording writes: a run without it was not recorded to its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RecordingFacts {
    /// How the worker ended, if not well.
    pub worker_failure: Option<String>,
    /// Time for which the worker waited for the observer.
    pub worker_blocked_ns: u64,
    /// Process samples that were due but not taken.
    pub missed_samples: u64,
    /// Why there are no process samples at all.
    #[serde(default)]
    pub sampling_failure: Option<String>,
    /// Why processes that run the model were not sampled.
    #[serde(default)]
    pub unsampled: Vec<String>,
    /// Whether the user interrupted before all was done.
    pub is_interrupted: bool,
    /// What the machine's sensors said meanwhile.
    #[serde(default)]
    pub sensors: Option<SensorSummary>,
}

impl RecordingFacts {
    /// File name in `raw/`.
    pub const FILE_NAME: &str = "recorded.json";
}
