//! One run of the binary beside this one.

use std::path::{Path, PathBuf};
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
    run_with(&dwell()?, arguments)
}

/// The same with another build of dwell.
pub(crate) fn run_with(dwell: &Path, arguments: &[String]) -> anyhow::Result<Value> {
    let results = tempfile::tempdir().context("making a folder for the results")?;
    let output = Command::new(dwell)
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

/// Time that this thread has run.
pub(crate) fn thread_s() -> f64 {
    dwell_clock::thread_cpu_ns() as f64 * 1e-9
}

/// CPU time of all processes that this one started and waited for, with those that they waited for.
pub(crate) fn child_cpu_s() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("reading the CPU time of children")?;
    // The program's name is in parentheses and may hold spaces; cutime and cstime are the 14th and 15th after it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok());
    let (user, system) = ticks(13).zip(ticks(14)).context("the CPU time of children is missing in /proc/self/stat")?;
    Ok((user + system) / rustix::param::clock_ticks_per_second() as f64)
}

/// The highest memory that a process has had.
pub(crate) fn own_peak_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok())
}
