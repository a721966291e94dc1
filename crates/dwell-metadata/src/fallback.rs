use serde::{Deserialize, Serialize};

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
