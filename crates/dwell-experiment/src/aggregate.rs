//! What the runs of an experiment say together: `summary.csv` and figures.

use std::fs;
use std::path::Path;

use dwell_config::Figures;
use dwell_files::write_bytes_atomically;
use dwell_report::{Aggregate, AggregateOptions, ReportError, RunResults, aggregate, experiment_figures};
use dwell_store::{RunDir, StoreError};

use crate::{ExperimentDir, ExperimentError, Setup};

/// Writes the aggregates of all runs of the experiment that count.
pub(crate) fn write_summary(setup: &Setup, dir: &ExperimentDir) -> Result<Aggregate, ExperimentError> {
    // The runs are whole; only what they say together is missing.
    let summary_failed = |error: ReportError| ExperimentError::Summary {
        reason: error.to_string(),
        results: setup.results.clone(),
        dir: dir.path().to_owned(),
        id: dir.id().to_owned(),
    };
    let runs = facts_of_runs(setup, dir).map_err(summary_failed)?;
    let aggregate = aggregate(&runs, &AggregateOptions::default()).map_err(summary_failed)?;
    write_bytes_atomically(&dir.path().join("summary.csv"), aggregate.summary_csv().as_bytes())?;
    if setup.experiment.output.figures == Figures::Svg {
        let folder = dir.path().join("figures");
        fs::create_dir_all(&folder)
            .map_err(|error| StoreError::from_io("making the folder of plots", &folder, error))?;
        for figure in experiment_figures(&aggregate).map_err(summary_failed)? {
            write_bytes_atomically(&folder.join(figure.name()).with_extension("svg"), figure.svg().as_bytes())?;
            write_bytes_atomically(&folder.join(figure.name()).with_extension("csv"), figure.csv().as_bytes())?;
        }
    }
    Ok(aggregate)
}

/// What is known of a run that was finished.
pub(crate) fn read_run(path: &Path) -> Result<RunResults, ReportError> {
    RunResults::load(&RunDir::open(path)?)
}

/// The facts of the runs that were finished.
fn facts_of_runs(setup: &Setup, dir: &ExperimentDir) -> Result<Vec<RunResults>, ReportError> {
    let mut facts = Vec::new();
    for run in &setup.plan.runs {
        let path = setup.run_path(run, &dir.run_id(run));
        if path.join("manifest.json").is_file() {
            facts.push(read_run(&path)?);
        }
    }
    Ok(facts)
}
