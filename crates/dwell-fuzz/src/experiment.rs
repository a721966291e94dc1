//! Experiment files, and the runs that one plans.

use std::path::Path;

use dwell_config::parse;

/// More runs than an experiment of a test has; planning them takes memory for each.
const PLANNED_RUNS_MAX: u128 = 1000;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(parsed) = parse(text, Path::new("experiment.yaml")) else { return };
    let runs = parsed.experiment.run_count();
    if runs <= PLANNED_RUNS_MAX
        && let Ok(plan) = parsed.experiment.plan(4)
    {
        assert_eq!(plan.runs.len() as u128, runs);
    }
}
