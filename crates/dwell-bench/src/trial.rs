//! One run of the binary beside this one.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

/// `dwell`, which is built into the same folder.
pub(crate) fn dwell() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let dwell = own.with_file_name("dwell");
    if !dwell.exists() {
        bail!("dwell is not built: {dwell:?}");
    }
    Ok(dwell)
}

/// Runs `dwell run --json` with these arguments in a folder of its own and gives its summary.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<Value> {
    let results = tempfile::tempdir().context("making a folder for the results")?;
    let output = Command::new(dwell()?)
        .args(["run", "--json", "--output"])
        .arg(results.path())
        .args(arguments)
        .output()
        .context("starting dwell")?;
    if !output.status.success() {
        bail!("dwell run {arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("reading the summary")
}

/// A number in a summary, by its path.
pub(crate) fn number(summary: &Value, pointer: &str) -> anyhow::Result<f64> {
    summary.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("the summary has no number at {pointer}"))
}
