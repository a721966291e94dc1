use serde::{Deserialize, Serialize};

/// What two collectors say about the same thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Agreement {
    /// What they both see.
    pub about: String,
    /// One collector.
    pub first: String,
    /// The other.
    pub second: String,
    /// How many both have.
    pub both: u64,
    /// How many only the first has.
    pub first_only: u64,
    /// How many only the second has.
    pub second_only: u64,
    /// From when they are compared.
    pub from_ns: u64,
    /// Until when they are compared.
    pub until_ns: u64,
}

impl Agreement {
    /// Share of all that at least one has that both have; none if there is nothing.
    pub fn share(&self) -> Option<f64> {
        let all = self.both + self.first_only + self.second_only;
        (all > 0).then(|| self.both as f64 / all as f64)
    }
}
