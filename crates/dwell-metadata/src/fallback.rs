use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A collector that was wanted and does not work here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// The collector.
    pub wanted: String,
    /// What takes its place.
    pub instead: String,
    /// Why it does not work.
    pub reason: String,
}

/// A collector that was tried and cannot watch the run. A fallback that was tried in vain is one, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The collector.
    pub collector: String,
    /// When that was found out.
    pub at: RefusedAt,
    /// Why it cannot.
    pub reason: String,
}

/// When a collector was found to be unable to watch a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedAt {
    /// It was tried on this machine, before the run.
    Check,
    /// It cannot watch the engine, whatever the machine.
    Engine,
    /// It worked when it was tried, and could not begin.
    Begin,
    /// It began, and the engine gave it nothing to see.
    Run,
}

impl RefusedAt {
    /// In words, behind the name of the collector.
    pub fn words(self) -> &'static str {
        match self {
            Self::Check => "does not work here",
            Self::Engine => "cannot watch the engine",
            Self::Begin => "could not begin",
            Self::Run => "saw nothing",
        }
    }
}

/// A collector that takes the place of one that cannot begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Substitute {
    /// The collector, as text: a later version may have others.
    pub collector: String,
    /// Its settings, which it reads itself.
    pub settings: Value,
}
