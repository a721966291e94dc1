//! Which metrics on request are asked for.

use dwell_events::Metric;
use serde::{Deserialize, Serialize};

/// The metrics that are computed beside the standard ones; as a list of names in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Metric>", into = "Vec<Metric>")]
pub struct RequestedMetrics {
    /// One bit for each place in [`Metric::ALL`].
    bits: u32,
}

impl RequestedMetrics {
    /// All that there are.
    pub fn all() -> Self {
        Self::among(Metric::ON_REQUEST)
    }

    /// Those of the metrics that are computed only on request.
    pub fn among(metrics: &[Metric]) -> Self {
        let asked = metrics.iter().filter(|metric| Metric::ON_REQUEST.contains(metric));
        Self { bits: asked.fold(0, |bits, metric| bits | bit(*metric)) }
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// Whether the metric is asked for.
    pub fn contains(self, metric: Metric) -> bool {
        self.bits & bit(metric) != 0
    }
}

fn bit(metric: Metric) -> u32 {
    1 << metric as u32
}

impl From<Vec<Metric>> for RequestedMetrics {
    fn from(metrics: Vec<Metric>) -> Self {
        Self::among(&metrics)
    }
}

impl From<RequestedMetrics> for Vec<Metric> {
    fn from(requested: RequestedMetrics) -> Self {
        Metric::ALL.into_iter().filter(|metric| requested.contains(*metric)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_metrics_need_no_request() {
        let asked = RequestedMetrics::among(&[Metric::Retention, Metric::Bandwidth]);
        assert_eq!(Vec::from(asked), [Metric::Bandwidth]);
        assert!(RequestedMetrics::among(Metric::STANDARD).is_empty());
        assert_eq!(Vec::from(RequestedMetrics::all()), Metric::ON_REQUEST);
    }
}
