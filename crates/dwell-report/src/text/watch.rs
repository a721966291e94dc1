//! What a watch found, for people and for programs.

use std::path::PathBuf;

use dwell_events::Basis;
use serde::Serialize;

use super::{bytes, count, counted, or_dash, seconds, table};

/// The closing summary of `dwell watch`.
#[derive(Serialize)]
pub struct WatchSummary {
    /// What was watched, as the samples name it.
    pub label: String,
    /// Processes that were named or started.
    pub root_pids: Vec<u32>,
    /// From the first sample to the last.
    pub duration_s: f64,
    /// Samples taken.
    pub samples: u64,
    /// Samples that came too late to be taken.
    pub missed_samples: u64,
    /// Of all processes together.
    pub memory: Vec<WatchedMemory>,
    /// Growth of resident memory.
    pub rss_growth: Option<WatchedGrowth>,
    /// Processes that were sampled.
    pub processes: Vec<WatchedProcess>,
    /// Processes beyond those that are listed.
    pub further_processes: u64,
    /// How the command ended, if one was started.
    pub command: Option<CommandEnd>,
    /// What watching cost.
    pub own: WatchCost,
    /// Why columns are missing that could be there.
    pub notes: Vec<String>,
    /// File that has the samples.
    pub output: Option<PathBuf>,
}

/// One kind of memory of all processes together.
#[derive(Serialize)]
pub struct WatchedMemory {
    /// Which kind.
    pub column: &'static str,
    /// Highest of all samples: what was higher between two of them is not in it.
    pub peak_bytes: Option<u64>,
    /// How the highest was obtained.
    pub peak_basis: Basis,
    /// Median of the second half of the time.
    pub steady_bytes: Option<u64>,
    /// In the last sample.
    pub last_bytes: Option<u64>,
}

/// Growth over the second half of the time, with its interval.
#[derive(Serialize)]
pub struct WatchedGrowth {
    /// Slope.
    pub bytes_per_s: f64,
    /// Lower end.
    pub low_bytes_per_s: f64,
    /// Upper end.
    pub high_bytes_per_s: f64,
}

/// One process.
#[derive(Serialize)]
pub struct WatchedProcess {
    /// Its id.
    pub pid: u32,
    /// Its name, if it could be read.
    pub name: Option<String>,
    /// Highest resident memory of all samples.
    pub peak_rss_bytes: u64,
}

/// How a command ended.
#[derive(Serialize)]
pub struct CommandEnd {
    /// Its exit status.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// What watching cost.
#[derive(Serialize)]
pub struct WatchCost {
    /// Share of one core.
    pub cpu_pct: f64,
    /// Highest resident memory.
    pub peak_rss_bytes: Option<u64>,
}

impl WatchSummary {
    /// Whether there are samples, and a program that was started here did its work.
    pub fn is_whole(&self) -> bool {
        !self.processes.is_empty() && self.command.as_ref().is_none_or(|command| command.exit_code == Some(0))
    }

    /// The summary as text.
    pub fn text(&self) -> String {
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
        let processes = counted(self.processes.len() as u64 + self.further_processes, "process");
        let (samples, missed) = (counted(self.samples, "sample"), count(self.missed_samples));
        format!("{}, {processes}, {}, {samples}, {missed} missed", self.label, seconds(self.duration_s))
    }

    fn memory_table(&self) -> String {
        let head = ["memory", "peak sampled", "steady", "last"].map(str::to_owned).to_vec();
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
pub fn growth_text(bytes_per_s: f64) -> String {
    let sign = if bytes_per_s < 0.0 { "−" } else { "+" };
    format!("{sign}{}/s", bytes(bytes_per_s.abs() as u64))
}
