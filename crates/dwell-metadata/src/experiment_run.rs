//! The place of a run in its experiment.

use dwell_events::{About, RunKind};
use serde::{Deserialize, Serialize};

/// The experiment that a run belongs to, and its place in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExperimentRun {
    /// Identifies one execution of the experiment.
    pub id: String,
    /// The experiment.
    #[serde(flatten)]
    pub about: About,
    /// What the run is for.
    pub run_kind: RunKind,
    /// Which run of its kind, from 1.
    pub repetition: u32,
}
