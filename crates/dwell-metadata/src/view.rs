//! Files that show a run, made before the run is sealed.
//!
//! The trait is here because building a run and drawing it know what is said of the run and not each other.

use std::path::Path;

use dwell_analysis::MetricsReport;
use dwell_analysis::overview::Overview;

use crate::RunMetadata;

/// A file of a run directory that shows the run, such as a figure or a report.
pub trait RunView: Sync {
    /// Its path in the run directory.
    fn path(&self) -> &'static str;

    /// Its content; `None` if the run has nothing to show. The error is a sentence for people.
    fn content(&self, run: &ViewedRun<'_>) -> Result<Option<String>, String>;
}

/// What a view is made from.
#[derive(Clone, Copy, Debug)]
pub struct ViewedRun<'a> {
    /// The run directory, with its tables and metrics.
    pub path: &'a Path,
    /// What will be written about the run.
    pub metadata: &'a RunMetadata,
    /// Its metrics.
    pub metrics: &'a MetricsReport,
    /// The picture of its trace.
    pub overview: &'a Overview,
    /// Bins of histograms.
    pub bins: usize,
}
