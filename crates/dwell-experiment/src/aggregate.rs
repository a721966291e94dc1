//! What the runs of an experiment say together: `summary.csv` and figures.

use std::fs;

use dwell_config::Figures;
use dwell_files::write_bytes_atomically;
use dwell_report::{AggregateOptions, RunResults, aggregate, exclusions_text, experiment_figures};
use dwell_store::{RunDir, StoreError};

use crate::{ExperimentDir, ExperimentError, Setup};

/// Writes the aggregates of all runs of the experiment that count. Returns what was left out, in words.
pub(crate) fn write_summary(setup: &Setup, dir: &ExperimentDir) -> Result<String, ExperimentError> {
    let failed = |error: dwell_report::ReportError| ExperimentError::Summary { reason: error.to_string() };
    let runs = facts_of_runs(setup, dir).map_err(failed)?;
    let aggregate = aggregate(&runs, &AggregateOptions::default()).map_err(failed)?;
    write_bytes_atomically(&dir.path().join("summary.csv"), aggregate.summary_csv().as_bytes())?;
    if setup.experiment.output.figures == Figures::Svg {
        let folder = dir.path().join("figures");
        fs::create_dir_all(&folder)
            .map_err(|error| StoreError::from_io("making the folder of figures", &folder, error))?;
        for (name, svg) in experiment_figures(&aggregate).map_err(failed)? {
            write_bytes_atomically(&folder.join(name), svg.as_bytes())?;
        }
    }
    Ok(exclusions_text(&aggregate.excluded))
}

/// The facts of the runs that were finished.
fn facts_of_runs(setup: &Setup, dir: &ExperimentDir) -> Result<Vec<RunResults>, dwell_report::ReportError> {
    let mut facts = Vec::new();
    for run in &setup.plan.runs {
        let path = setup.run_path(run, &dir.run_id(run));
        if path.join("manifest.json").is_file() {
            facts.push(RunResults::load(&RunDir::open(&path)?)?);
        }
    }
    Ok(facts)
}
