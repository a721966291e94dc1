//! Estimates of the metrics of a run from a share of its pages.

use dwell_analysis::{Analyser, Approximation, SuitabilityThresholds};
use dwell_store::{RunDir, ensure_listed_tables};

use crate::{MetricsError, pass};

/// Estimates by dwell's definitions from this share of the pages, above 0 and up to 1. All rows are read, in the order in which
/// they are: a row that is earlier than one before it is followed where it stands.
pub fn approximate_run(
    run: &RunDir,
    thresholds: SuitabilityThresholds,
    share: f64,
) -> Result<Approximation, MetricsError> {
    ensure_listed_tables(run)?;
    let analyser = pass::push_tables(run, Analyser::of_share(thresholds, share))?;
    let sample = analyser.conclude_sample().ok_or_else(|| MetricsError::Analysis {
        run: run.path().to_owned(),
        reason: "no share of the pages was followed".to_owned(),
    })?;
    Ok(sample.estimate())
}
