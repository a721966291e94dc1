//! What is made of the records of a run.

use dwell_analysis::{Metric, Options, RequestedMetrics};
use dwell_events::{Compression, UnknownPolicy};
use serde::{Deserialize, Serialize};

/// Bins of the histogram of lives, if nobody says otherwise.
pub const DEFAULT_BINS: usize = 60;

/// What is made of the records of a run.
///
/// It is kept in `raw/run.json`, so that a run that was killed is finished as it was meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BuildOptions {
    /// How metrics are computed.
    pub analysis: Options,
    /// Metrics that `metrics.csv` has columns of.
    pub metrics: Vec<Metric>,
    /// Bins of the histogram of lives.
    pub bins: usize,
    /// Whether figures are drawn.
    pub draws_figures: bool,
    /// How tables are compressed.
    pub compression: Compression,
    /// Text of the rules by which accesses are labelled, beside what buffers say.
    pub rules: Option<String>,
    /// What becomes of accesses that nothing labels.
    pub unknown_policy: UnknownPolicy,
    /// Whether throttling says nothing about the validity of the run.
    pub ignores_throttle: bool,
}

impl BuildOptions {
    /// How metrics are computed, with those among them that are computed only on request.
    pub fn analysis_options(&self) -> Options {
        Options { requested: RequestedMetrics::among(&self.metrics), ..self.analysis }
    }
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            analysis: Options::default(),
            metrics: Metric::STANDARD.to_vec(),
            bins: DEFAULT_BINS,
            draws_figures: true,
            compression: Compression::default(),
            rules: None,
            unknown_policy: UnknownPolicy::default(),
            ignores_throttle: false,
        }
    }
}
