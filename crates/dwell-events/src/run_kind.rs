use serde::{Deserialize, Serialize};

/// What a run is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// A run of its own, outside of any experiment.
    #[default]
    Single,
    /// Brings the machine to working temperature; does not count.
    Warmup,
    /// The same work without recording; tells how much recording slows it down.
    Untraced,
    /// Counts.
    Repetition,
}

impl RunKind {
    /// The name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            RunKind::Single => "single",
            RunKind::Warmup => "warmup",
            RunKind::Untraced => "untraced",
            RunKind::Repetition => "repetition",
        }
    }
}
