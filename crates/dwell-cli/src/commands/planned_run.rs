//! `dwell planned-run`: observes one run of an experiment, as a process of its own.

use std::process::ExitCode;

use anyhow::Context;
use dwell_experiment::RunTask;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let task: RunTask = serde_json::from_reader(std::io::stdin().lock()).context("reading the run to be done")?;
    super::print_json(&task.run_here())?;
    Ok(ExitCode::SUCCESS)
}
