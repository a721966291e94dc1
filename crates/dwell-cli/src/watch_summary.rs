//! What a watch found, for people and for programs.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use dwell_process::{GpuSupport, gpu_support, own_peak_rss_bytes};
use dwell_report::text::{bytes, count, or_dash, seconds, table};
use serde::Serialize;

use crate::watch_record::{COLUMNS, WatchRecord};
use crate::watch_target::{Target, counted_processes};

/// The closing summary of `dwell watch`.
#[derive(Serialize)]
pub(crate) struct WatchSummary {
    label: String,
    root_pids: Vec<u32>,
    duration_s: f64,
    samples: u64,
    missed_samples: u64,
    /// Of all processes together.
    memory: Vec<Figures>,
    rss_growth: Option<Growth>,
    processes: Vec<ProcessFigures>,
    /// Processes beyond those that are listed.
    further_processes: u64,
    command: Option<CommandEnd>,
    own: OwnCost,
    /// Why columns are missing that could be there.
    notes: Vec<String>,
    output: Option<PathBuf>,
}

#[derive(Serialize)]
struct Figures {
    column: &'static str,
    peak_bytes: Option<u64>,
    /// Median of the second half of the time.
    steady_bytes: Option<u64>,
    last_bytes: Option<u64>,
}

/// Over the second half of the time.
#[derive(Serialize)]
struct Growth {
    bytes_per_s: f64,
    low_bytes_per_s: f64,
    high_bytes_per_s: f64,
}

#[derive(Serialize)]
struct ProcessFigures {
    pid: u32,
    name: Option<String>,
    peak_rss_bytes: u64,
}

#[derive(Serialize)]
struct CommandEnd {
    exit_code: Option<i32>,
    signal: Option<i32>,
}

#[derive(Serialize)]
struct OwnCost {
    cpu_pct: f64,
    peak_rss_bytes: Option<u64>,
}

impl WatchSummary {
    pub(crate) fn new(
        record: &WatchRecord,
        target: &Target,
        command: Option<ExitStatus>,
        output: Option<&Path>,
    ) -> Self {
        let figures = COLUMNS.iter().zip(&record.trails).map(|(column, trail)| Figures {
            column: column.name,
            peak_bytes: trail.peak_bytes,
            steady_bytes: trail.steady_bytes(),
            last_bytes: trail.last_bytes,
        });
        let growth = record.trails[0].growth().map(|line| Growth {
            bytes_per_s: line.slope,
            low_bytes_per_s: line.low,
            high_bytes_per_s: line.high,
        });
        let processes = record.processes.iter().map(|process| ProcessFigures {
            pid: process.pid,
            name: process.name.clone(),
            peak_rss_bytes: process.peak_rss_bytes,
        });
        Self {
            label: target.label().to_owned(),
            root_pids: target.roots().iter().map(|root| root.pid).collect(),
            duration_s: record.last_s,
            samples: record.samples,
            missed_samples: record.sampling.missed,
            memory: figures.collect(),
            rss_growth: growth,
            processes: processes.collect(),
            further_processes: record.further_processes,
            command: target.is_command().then(|| CommandEnd {
                exit_code: command.and_then(|status| status.code()),
                signal: command.and_then(|status| status.signal()),
            }),
            own: OwnCost { cpu_pct: record.own_cpu_pct(), peak_rss_bytes: own_peak_rss_bytes() },
            notes: notes(record),
            output: output.map(Path::to_owned),
        }
    }

    /// Whether there are samples, and a program that was started here did its work.
    pub(crate) fn is_whole(&self) -> bool {
        !self.processes.is_empty() && self.command.as_ref().is_none_or(|command| command.exit_code == Some(0))
    }

    /// The summary as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| text.push_str(&format!("{name:<8} {value}\n"));
        if self.processes.is_empty() {
            line("watched", format!("{}, which ended before the first sample", self.label));
        } else {
            line("watched", self.watched_line());
        }
        if let Some(growth) = &self.rss_growth {
            let rate = |rate: f64| growth_text(rate);
            let (low, high) = (rate(growth.low_bytes_per_s), rate(growth.high_bytes_per_s));
            line("growth", format!("{} in the second half ({low} to {high})", rate(growth.bytes_per_s)));
        }
        if let Some(command) = &self.command {
            line("command", command.text());
        }
        let own_peak = or_dash(self.own.peak_rss_bytes, bytes);
        line("dwell", format!("{:.2} % of one core, {own_peak} of memory at most", self.own.cpu_pct));
        self.notes.iter().for_each(|note| line("note", note.clone()));
        if !self.processes.is_empty() {
            text.push('\n');
            text.push_str(&self.memory_table());
        }
        if let Some(output) = &self.output {
            text.push_str(&format!("\n{}\n", output.display()));
        }
        text
    }

    fn watched_line(&self) -> String {
        let processes = counted_processes(self.processes.len() as u64 + self.further_processes);
        let (samples, missed) = (count(self.samples), count(self.missed_samples));
        format!("{}, {processes}, {}, {samples} samples, {missed} missed", self.label, seconds(self.duration_s))
    }

    fn memory_table(&self) -> String {
        let head = ["memory", "peak", "steady", "last"].map(str::to_owned).to_vec();
        let figures = self.memory.iter().filter(|figures| figures.peak_bytes.is_some()).map(|figures| {
            let figure = |value: Option<u64>| or_dash(value, bytes);
            let values = [figures.peak_bytes, figures.steady_bytes, figures.last_bytes].map(figure);
            std::iter::once(figures.column.to_owned()).chain(values).collect()
        });
        table(&std::iter::once(head).chain(figures).collect::<Vec<_>>())
    }
}

impl CommandEnd {
    fn text(&self) -> String {
        match (self.exit_code, self.signal) {
            (Some(code), _) => format!("exited with status {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "goes on: it was not waited for".to_owned(),
        }
    }
}

/// Growth with its sign.
pub(crate) fn growth_text(bytes_per_s: f64) -> String {
    let sign = if bytes_per_s < 0.0 { "-" } else { "+" };
    format!("{sign}{}/s", bytes(bytes_per_s.abs() as u64))
}

fn notes(record: &WatchRecord) -> Vec<String> {
    let mut notes = Vec::new();
    let pss =
        COLUMNS.iter().zip(&record.trails).find(|(column, _)| column.name == "pss").map(|(_, trail)| trail.values);
    match pss.unwrap_or(0) {
        0 if record.samples > 0 => {
            let reason = "the kernel shows them to the user of the process, and to a root that may trace it";
            notes.push(format!("pss, uss, read and write are missing: {reason}"));
        }
        values if values < record.samples => {
            let (values, samples) = (count(values), count(record.samples));
            notes.push(format!("pss and uss are of {values} of {samples} samples: reading them is slow"));
        }
        _ => {}
    }
    if let GpuSupport::Unusable(reason) = gpu_support() {
        notes.push(format!("gpu is missing: the NVIDIA driver said: {reason}"));
    }
    notes
}
