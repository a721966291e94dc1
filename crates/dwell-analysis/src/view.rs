//! Files that show the metrics of a run, made before the run is sealed.
//!
//! The trait is here because building a run and drawing it know the metrics and not each other.

use crate::MetricsReport;

/// A file of a run directory that shows its metrics, such as a figure.
pub trait RunView: Sync {
    /// Its path in the run directory.
    fn path(&self) -> &'static str;

    /// Its content; `None` if the run has nothing to show. The error is a sentence for people.
    fn content(&self, run: &ViewedRun<'_>) -> Result<Option<String>, String>;
}

/// What a view is made from.
#[derive(Clone, Copy, Debug)]
pub struct ViewedRun<'a> {
    /// The run.
    pub run_id: &'a str,
    /// Its metrics.
    pub metrics: &'a MetricsReport,
    /// Bins of histograms.
    pub bins: usize,
}
