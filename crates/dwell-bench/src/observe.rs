//! What `dwell observe` costs: its own CPU time when little happens, and the time that the kernel spends in its programs for
//! each block request, by the kernel's own count.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::report::{Report, median};
use crate::trial::{dwell, number};

/// The greatest share of one core in percent.
const IDLE_BAR_PCT: f64 = 0.5;
/// The greatest time in the programs for one request.
const REQUEST_BAR_NS: f64 = 500.0;
const INTERVAL_S: &str = "5";
const INTERVALS: &str = "4";
/// 4 KiB each, past the page cache.
const REQUESTS: u64 = 40_000;
/// Whether the kernel takes the time of each program.
const TIMES_SETTING: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Measures both; the second as root alone.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let idle_pct = idle(report)?;
    let mut text = format!(
        "## Observing the kernel\n\n| what | cost |\n| --- | --- |\n| `dwell observe --interval 5`, all groups | {idle_pct:.3} % of one core |\n"
    );
    if idle_pct > IDLE_BAR_PCT {
        report.missed_bar(format!("observing takes {idle_pct:.2} % of one core, at most {IDLE_BAR_PCT} % are allowed"));
    }
    match per_request(report) {
        Ok(request_ns) => {
            text.push_str(&format!("| a block request, issue and completion | {request_ns:.0} ns |\n"));
            if request_ns > REQUEST_BAR_NS {
                report.missed_bar(format!(
                    "a block request takes {request_ns:.0} ns, at most {REQUEST_BAR_NS} ns are allowed"
                ));
            }
        }
        Err(error) => text.push_str(&format!("\nBlock requests were not measured: {error:#}\n")),
    }
    report.section(&text);
    Ok(())
}

/// Share of one core over several intervals, in percent.
fn idle(report: &mut Report) -> anyhow::Result<f64> {
    let mut command = Command::new(dwell()?);
    command.args(["observe", "--json", "--no-output", "--interval", INTERVAL_S, "--count", INTERVALS]);
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut shares_pct = Vec::new();
    for (round, line) in String::from_utf8_lossy(&output.stdout).lines().enumerate() {
        let line: Value = serde_json::from_str(line).context("reading a line")?;
        let share_pct = number(&line, "/observer_cpu_ns")? / number(&line, "/interval_s")? / 1e7;
        report.raw("observe", round as u32, "all groups every 5 s", "cpu_pct", share_pct)?;
        shares_pct.push(share_pct);
    }
    Ok(median(&shares_pct))
}

/// Time in both programs for one request.
fn per_request(report: &mut Report) -> anyhow::Result<f64> {
    let _times = TimedPrograms::begin()?;
    let folder = tempfile::tempdir_in(".").context("making a folder on the disk")?;
    let file = folder.path().join("data");
    dd(&[&format!("of={}", file.display()), "if=/dev/zero", "bs=1M", "count=160", "conv=fsync"])?;
    let mut observer = Observing::start()?;
    dd(&[&format!("if={}", file.display()), "of=/dev/null", "bs=4k", &format!("count={REQUESTS}"), "iflag=direct"])?;
    let programs = program_times(observer.0.id())?;
    observer.end();
    let (time_ns, runs) = programs.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if programs.len() != 2 || runs < REQUESTS {
        bail!("{} programs ran {runs} times", programs.len());
    }
    // Each request runs both.
    let request_ns = time_ns as f64 / runs as f64 * 2.0;
    report.raw("observe", 0, "disk", "request_ns", request_ns)?;
    Ok(request_ns)
}

fn dd(arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("dd").args(arguments).output().context("starting dd")?;
    if !output.status.success() {
        bail!("dd failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Time and runs of each program that a process holds.
fn program_times(pid: u32) -> anyhow::Result<Vec<(u64, u64)>> {
    let mut programs = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).context("reading what dwell holds")? {
        let text = fs::read_to_string(entry?.path()).unwrap_or_default();
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        programs.extend(value("run_time_ns:").zip(value("run_cnt:")));
    }
    Ok(programs)
}

/// An observer of disks, which ends with this value.
struct Observing(Child);

impl Observing {
    fn start() -> anyhow::Result<Self> {
        let mut command = Command::new(dwell()?);
        command.args(["observe", "--only", "disk", "--no-output", "--json", "--interval", "0.5"]);
        let observer = Self(command.stdout(Stdio::null()).spawn().context("starting the observer")?);
        for _ in 0..100 {
            if program_times(observer.0.id())?.len() == 2 {
                return Ok(observer);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("dwell observe loaded no programs; they need root")
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes the kernel take the time of programs, and puts the setting back.
struct TimedPrograms {
    before: String,
}

impl TimedPrograms {
    fn begin() -> anyhow::Result<Self> {
        let setting = Path::new(TIMES_SETTING);
        let before = fs::read_to_string(setting).context("reading whether the kernel times programs")?;
        fs::write(setting, "1").context("making the kernel time programs")?;
        Ok(Self { before })
    }
}

impl Drop for TimedPrograms {
    fn drop(&mut self) {
        let _ = fs::write(TIMES_SETTING, self.before.trim());
    }
}
