//! What a trace covers, and how finely: what every figure is limited by.

use crate::sampling::SamplerTally;
use crate::survival::Quantile;

/// What a trace covers, and how finely.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observation {
    pub(crate) samples: SamplerTally,
    pub(crate) window_s: f64,
    /// Median time between two times that rows have. Accesses that lie closer together have the same time.
    pub(crate) resolution_s: f64,
    /// Steps of the process that made the most of them.
    pub(crate) steps: u64,
    /// How long they take at the pace that suitability is rated at, with the pauses between them.
    pub(crate) paced_s: f64,
}

impl Observation {
    /// Whether steps can serve as a clock: one alone measures nothing.
    pub(crate) fn has_steps(&self) -> bool {
        self.steps > 1
    }

    /// A duration of nothing is one below the resolution.
    pub(crate) fn resolved(&self, quantile: Quantile) -> Quantile {
        match quantile.high {
            Some(high) if high <= 0.0 => Quantile { high: Some(self.resolution_s), ..quantile },
            _ => quantile,
        }
    }

    /// Adds another run. No two of them share time, so what is finest for one says nothing for the other.
    pub(crate) fn merge(&mut self, other: &Observation) {
        self.samples.merge(&other.samples);
        self.window_s = self.window_s.max(other.window_s);
        self.resolution_s = self.resolution_s.max(other.resolution_s);
        self.steps = self.steps.max(other.steps);
        self.paced_s = self.paced_s.max(other.paced_s);
    }
}
