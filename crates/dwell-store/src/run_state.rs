use std::path::Path;

use dwell_files::{read_json, write_json_atomically};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::utc::{unix_secs_now, utc_text};

/// Longest `raw/STATE`; it has some hundred bytes.
const STATE_MAX_BYTES: u64 = 64 << 10;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Collectors append to `raw/`. A run found like this without its observer was killed.
    Recording,
    /// Recording ended; the tables are being written from `raw/`.
    Building,
    /// Tables and manifest are whole.
    Complete,
    /// Tables and manifest are whole, but what they were built from is not; the loss table says what is missing.
    Partial,
}

impl RunState {
    /// As in `raw/STATE`.
    pub fn name(self) -> &'static str {
        match self {
            RunState::Recording => "recording",
            RunState::Building => "building",
            RunState::Complete => "complete",
            RunState::Partial => "partial",
        }
    }

    /// Whether the tables have been built.
    pub fn is_final(self) -> bool {
        matches!(self, RunState::Complete | RunState::Partial)
    }
}

/// Content of `raw/STATE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunMarker {
    /// How far the run has come.
    pub state: RunState,
    /// The run.
    pub run_id: String,
    /// The model that was run.
    pub model_id: String,
    /// Process that wrote the marker, so that a run still being recorded can be told from a killed one.
    pub observer_pid: u32,
    /// When the marker was written.
    pub changed_at_utc: String,
}

impl RunMarker {
    pub(crate) fn now(state: RunState, model_id: &str, run_id: &str) -> Self {
        Self {
            state,
            run_id: run_id.to_owned(),
            model_id: model_id.to_owned(),
            observer_pid: std::process::id(),
            changed_at_utc: utc_text(unix_secs_now()),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Self, StoreError> {
        Ok(read_json("reading the state of a run", path, STATE_MAX_BYTES)?)
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), StoreError> {
        Ok(write_json_atomically(path, self)?)
    }
}
