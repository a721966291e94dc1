//! `dwell schema`.

use std::process::ExitCode;

use super::print_json;

/// Prints the JSON Schema of experiment files.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    print_json(&dwell_config::json_schema())?;
    Ok(ExitCode::SUCCESS)
}
