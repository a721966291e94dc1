//! One run of the binary beside this one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// Time that all threads of this process have run.
pub(crate) fn process_s() -> f64 {
    dwell_clock::process_cpu_ns() as f64 * 1e-9
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

/// Whose definitions `dwell analyse` can follow.
pub(crate) const DEFINITIONS: [&str; 2] = ["mrm-trace", "dwell"];

/// What a program took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) cpu_s: f64,
    pub(crate) wall_s: f64,
    pub(crate) peak_bytes: f64,
}

/// Analyses a run directory with a build of dwell.
pub(crate) fn analyse(program: &Path, run: &Path, definitions: &str) -> anyhow::Result<Cost> {
    measured(Command::new(program).args(["analyse", "--json", "--definitions", definitions]).arg(run))
}

/// Runs a command to its end; what it prints is dropped.
pub(crate) fn measured(command: &mut Command) -> anyhow::Result<Cost> {
    let (before_s, begin) = (child_cpu_s()?, Instant::now());
    let mut child = command.stdout(Stdio::null()).spawn().with_context(|| format!("starting {command:?}"))?;
    let mut peak_kib = 0;
    let status = loop {
        // The highest value so far: what is read last before the end is close to the highest of all.
        peak_kib = own_peak_kib(child.id()).unwrap_or(peak_kib);
        if let Some(status) = child.try_wait().with_context(|| format!("waiting for {command:?}"))? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    let wall_s = begin.elapsed().as_secs_f64();
    Ok(Cost { cpu_s: child_cpu_s()? - before_s, wall_s, peak_bytes: peak_kib as f64 * 1024.0 })
}
