//! Results on the terminal and in a folder: raw numbers, a summary, the machine.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::machine;

/// The results of one bench.
pub(crate) struct Report {
    dir: PathBuf,
    raw: File,
    summary: String,
    missed_bars: Vec<String>,
}

impl Report {
    /// Begins a folder for today and this machine.
    pub(crate) fn begin(runs: &Path, suffix: &str) -> anyhow::Result<Self> {
        let dir = runs.join(format!("{}-{}{suffix}", today(), machine::short_name()));
        fs::create_dir_all(&dir).with_context(|| format!("making {dir:?}"))?;
        fs::write(dir.join("host.txt"), machine::describe()).context("writing host.txt")?;
        let mut raw = File::create(dir.join("raw.csv")).context("making raw.csv")?;
        writeln!(raw, "bench,round,mode,quantity,value").context("writing raw.csv")?;
        Ok(Self { dir, raw, summary: String::new(), missed_bars: Vec::new() })
    }

    /// Keeps one measurement.
    pub(crate) fn raw(
        &mut self,
        bench: &str,
        round: u32,
        mode: &str,
        quantity: &str,
        value: f64,
    ) -> anyhow::Result<()> {
        writeln!(self.raw, "{bench},{round},{mode},{quantity},{value}").context("writing raw.csv")
    }

    /// Adds a part to the summary and shows it.
    pub(crate) fn section(&mut self, text: &str) {
        println!("{text}");
        self.summary.push_str(text);
        self.summary.push('\n');
    }

    /// Notes a figure that is worse than it may be.
    pub(crate) fn missed_bar(&mut self, what: String) {
        self.missed_bars.push(what);
    }

    /// Writes the summary. Fails if a bar was missed; the results are kept all the same.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        for missed in &self.missed_bars {
            self.summary.push_str(&format!("missed: {missed}\n"));
        }
        fs::write(self.dir.join("summary.md"), &self.summary).context("writing summary.md")?;
        println!("kept in {}", self.dir.display());
        if !self.missed_bars.is_empty() {
            bail!("missed: {}", self.missed_bars.join("; "));
        }
        Ok(())
    }
}

fn today() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    output.map_or_else(|_| "undated".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The middle value; of two, their mean; not a number without any.
pub(crate) fn median(values: &[f64]) -> f64 {
    dwell_analysis::statistics::median(&mut values.to_vec()).unwrap_or(f64::NAN)
}
