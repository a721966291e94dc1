use serde::{Deserialize, Serialize};

/// Part of a run's life. Together with the step it says when in a run something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// From the start of loading until every weight is in its place.
    WeightLoad,
    /// Prompts that dwell sends for its own purposes: a warm-up, or to find out how many tokens a text has. What they
    /// compute has no step.
    Setup,
    /// Prompt (step 0) and decoded tokens (step n).
    Generation,
    /// Contexts and weights are given back.
    Teardown,
}

impl Phase {
    /// Every phase, in the order in which a run goes through them.
    pub const ALL: [Phase; 4] = [Phase::WeightLoad, Phase::Setup, Phase::Generation, Phase::Teardown];

    /// The name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Phase::WeightLoad => "weight_load",
            Phase::Setup => "setup",
            Phase::Generation => "generation",
            Phase::Teardown => "teardown",
        }
    }
}
