//! The place of a run in its experiment.

use dwell_events::RunKind;
use serde::{Deserialize, Serialize};

/// The experiment that a run belongs to, and its place in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentRun {
    /// Identifies one execution of the experiment.
    pub id: String,
    /// Name of the experiment.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// Its version.
    pub version: String,
    /// Who made it.
    pub authors: Vec<String>,
    /// Where they work.
    pub institution: String,
    /// The paper that it belongs to.
    pub paper_ref: String,
    /// Under what licence its data are published.
    pub licence: Option<String>,
    /// What the run is for.
    pub run_kind: RunKind,
    /// Which run of its kind, from 1.
    pub repetition: u32,
}
