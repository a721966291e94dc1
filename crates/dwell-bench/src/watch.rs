//! What `dwell watch` costs, beside a loop around psutil that writes resident and virtual memory to a CSV file.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::report::{Report, median};
use crate::trial::{dwell, number};

/// What the watched process has resident.
const WATCHED_BYTES: usize = 1 << 30;
/// Set for the process that is watched: this program again.
const IS_WATCHED: &str = "DWELL_BENCH_WATCHED";
/// Interval in seconds, and the greatest share of one core in percent.
const BARS: [(f64, f64); 2] = [(0.1, 0.5), (0.005, 3.0)];
const PEAK_LIMIT_MIB: f64 = 20.0;
/// Processes of a large tree, and the greatest share of one core in percent for watching them every 100 ms.
const MANY: (u32, f64) = (200, 2.0);

/// The same deadlines as dwell's, one row per sample, flushed as dwell's are.
const PSUTIL_LOOP: &str = r#"
import csv, json, resource, sys, time
import psutil
pid, interval, seconds, path = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
process = psutil.Process(pid)
with open(path, "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["timestamp", "label", "pid", "rss_mb", "vms_mb"])
    cpu, begin, samples = time.process_time(), time.monotonic(), 0
    while (now := time.monotonic()) - begin < seconds:
        memory = process.memory_info()
        writer.writerow([time.time(), "watched", pid, memory.rss / 2**20, memory.vms / 2**20])
        file.flush()
        samples += 1
        time.sleep(max(0.0, begin + samples * interval - time.monotonic()))
    wall = time.monotonic() - begin
print(json.dumps({
    "samples": samples,
    "own": {
        "cpu_pct": (time.process_time() - cpu) / wall * 100,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    },
}))
"#;

/// Is the watched process, if this is it: takes its memory and waits until nobody holds its input any more.
pub(crate) fn be_watched_if_asked() {
    if std::env::var_os(IS_WATCHED).is_some() {
        let memory = std::hint::black_box(vec![1_u8; WATCHED_BYTES]);
        println!("ready");
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(memory);
        std::process::exit(0);
    }
}

/// Watches one process in turns with both programs, at both intervals.
pub(crate) fn measure(rounds: u32, seconds: u32, report: &mut Report) -> anyhow::Result<()> {
    let python = python()?;
    let watched = Watched::start()?;
    let folder = tempfile::tempdir().context("making a folder for the samples")?;
    let mut text = format!(
        "## Watching a process with 1 GiB resident\n\nMedians of {rounds} rounds of {seconds} s. Share of one core; most \
         memory resident.\n\n| interval | program | columns | CPU | memory | samples |\n| --- | --- | --- | --- | --- | --- |\n"
    );
    for (interval_s, most_cpu_pct) in BARS {
        let mut ours = Figures::default();
        let mut theirs = Figures::default();
        for round in 0..rounds {
            let summary = watch(&watched, interval_s, seconds, folder.path())?;
            ours.note(report, round, "dwell", interval_s, &summary)?;
            let summary = watch_with_psutil(&python, &watched, interval_s, seconds, folder.path())?;
            theirs.note(report, round, "psutil", interval_s, &summary)?;
        }
        text.push_str(&ours.line("dwell watch", 19, interval_s));
        text.push_str(&theirs.line("psutil", 5, interval_s));
        let (cpu_pct, peak_mib) = (median(&ours.cpu_pct), median(&ours.peak_mib));
        if cpu_pct > most_cpu_pct {
            report.missed_bar(format!(
                "watching every {interval_s} s takes {cpu_pct:.2} % of one core, at most {most_cpu_pct} % are allowed"
            ));
        }
        if peak_mib > PEAK_LIMIT_MIB {
            report.missed_bar(format!("watching takes {peak_mib:.1} MiB, at most {PEAK_LIMIT_MIB} MiB are allowed"));
        }
    }
    drop(watched);
    text.push_str(&measure_many(rounds, seconds, folder.path(), report)?);
    report.section(&text);
    Ok(())
}

/// Watches a tree of many processes that sleep.
fn measure_many(rounds: u32, seconds: u32, folder: &Path, report: &mut Report) -> anyhow::Result<String> {
    let (processes, most_cpu_pct) = MANY;
    let interval_s = BARS[0].0;
    let tree = Watched::start_many(processes)?;
    let mut figures = Figures::default();
    for round in 0..rounds {
        let summary = watch(&tree, interval_s, seconds, folder)?;
        figures.note(report, round, &format!("dwell, {processes} processes,"), interval_s, &summary)?;
    }
    let cpu_pct = median(&figures.cpu_pct);
    if cpu_pct > most_cpu_pct {
        report.missed_bar(format!(
            "watching {processes} processes every {interval_s} s takes {cpu_pct:.2} % of one core, at most {most_cpu_pct} % \
             are allowed"
        ));
    }
    Ok(figures.line(&format!("dwell watch, {processes} processes that sleep"), 19, interval_s))
}

#[derive(Default)]
struct Figures {
    cpu_pct: Vec<f64>,
    peak_mib: Vec<f64>,
    samples: Vec<f64>,
}

impl Figures {
    fn note(
        &mut self,
        report: &mut Report,
        round: u32,
        program: &str,
        interval_s: f64,
        summary: &Value,
    ) -> anyhow::Result<()> {
        let mode = format!("{program} every {interval_s} s");
        let cpu_pct = number(summary, "/own/cpu_pct")?;
        let peak_mib = number(summary, "/own/peak_rss_bytes")? / f64::from(1 << 20);
        let samples = number(summary, "/samples")?;
        report.raw("watch", round, &mode, "cpu_pct", cpu_pct)?;
        report.raw("watch", round, &mode, "peak_mib", peak_mib)?;
        report.raw("watch", round, &mode, "samples", samples)?;
        self.cpu_pct.push(cpu_pct);
        self.peak_mib.push(peak_mib);
        self.samples.push(samples);
        Ok(())
    }

    fn line(&self, program: &str, columns: u32, interval_s: f64) -> String {
        let (cpu_pct, peak_mib, samples) = (median(&self.cpu_pct), median(&self.peak_mib), median(&self.samples));
        format!("| {interval_s} s | {program} | {columns} | {cpu_pct:.3} % | {peak_mib:.1} MiB | {samples} |\n")
    }
}

/// The process that is watched; it ends with this value.
struct Watched {
    process: Child,
}

impl Watched {
    fn start() -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("finding this program")?;
        let process = Command::new(own)
            .env(IS_WATCHED, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the process that is watched")?;
        Self::when_ready(process)
    }

    /// A shell with this many children, which end when nobody holds its input any more.
    fn start_many(processes: u32) -> anyhow::Result<Self> {
        let script = format!(
            "i=0; while [ $i -lt {processes} ]; do sleep 86400 & i=$((i + 1)); done; echo ready; read line; kill $(jobs -p)"
        );
        let process = Command::new("bash").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self::when_ready(process.context("starting the tree of processes that is watched")?)
    }

    fn when_ready(mut process: Child) -> anyhow::Result<Self> {
        let mut ready = [0; 6];
        let mut output = process.stdout.take().context("its output is a pipe")?;
        output.read_exact(&mut ready).context("waiting for the process that is watched")?;
        Ok(Self { process })
    }

    fn pid(&self) -> String {
        self.process.id().to_string()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

fn watch(watched: &Watched, interval_s: f64, seconds: u32, folder: &Path) -> anyhow::Result<Value> {
    let mut command = Command::new(dwell()?);
    command.args(["watch", "--json", "--force", "--pid", &watched.pid()]);
    command.args(["--interval", &interval_s.to_string(), "--duration", &seconds.to_string()]);
    answer(command.arg("-o").arg(folder.join("dwell.csv")))
}

fn watch_with_psutil(
    python: &Path,
    watched: &Watched,
    interval_s: f64,
    seconds: u32,
    folder: &Path,
) -> anyhow::Result<Value> {
    let mut command = Command::new(python);
    command.args(["-c", PSUTIL_LOOP, &watched.pid(), &interval_s.to_string(), &seconds.to_string()]);
    answer(command.arg(folder.join("psutil.csv")))
}

fn answer(command: &mut Command) -> anyhow::Result<Value> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("reading what it measured")
}

/// A Python that has psutil: one of those that the tests use.
fn python() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let candidates = cache
        .into_iter()
        .flat_map(|cache| ["venv-peer", "venv-torch"].map(|name| cache.join("dwell").join(name).join("bin/python")));
    let has_psutil = |python: &PathBuf| {
        let tried = Command::new(python).args(["-c", "import psutil"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    candidates.chain([PathBuf::from("python3")]).find(has_psutil).context("no Python has psutil; `make setup` gets one")
}
