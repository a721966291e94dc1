//! Files of a run that are made from its tables: figures and views.

use std::fs;

use dwell_analysis::MetricsReport;
use dwell_files::write_bytes_atomically;
use dwell_metadata::{BuildOptions, RunView, ViewedRun};
use dwell_store::{RunDir, StoreError};

use crate::BuildError;

pub(crate) fn write_metrics(run: &RunDir, metrics: &MetricsReport, build: &BuildOptions) -> Result<(), BuildError> {
    let file = |name: &str| run.path().join(name);
    write_bytes_atomically(&run.metrics_csv(), metrics.metrics_csv_of(&build.metrics).as_bytes())?;
    write_bytes_atomically(&file("metrics_by_region.csv"), metrics.regions_csv().as_bytes())?;
    if metrics.has_times() {
        let histogram = metrics.retention_histogram_csv(build.bins);
        write_bytes_atomically(&file("retention_histogram.csv"), histogram.as_bytes())?;
    }
    for (name, text) in metrics.requested_tables() {
        write_bytes_atomically(&file(name), text.as_bytes())?;
    }
    Ok(())
}

pub(crate) fn write_views(run: &RunDir, views: &[&dyn RunView], viewed: &ViewedRun<'_>) -> Result<(), BuildError> {
    views.iter().try_for_each(|view| write_view(run, *view, viewed))
}

fn write_view(run: &RunDir, view: &dyn RunView, viewed: &ViewedRun<'_>) -> Result<(), BuildError> {
    let Some(content) = view.content(viewed).map_err(|reason| BuildError::Figure { reason })? else { return Ok(()) };
    let path = run.path().join(view.path());
    let folder = path.parent().unwrap_or(run.path());
    fs::create_dir_all(folder).map_err(|error| StoreError::from_io("making the folder of plots", folder, error))?;
    Ok(write_bytes_atomically(&path, content.as_bytes())?)
}
