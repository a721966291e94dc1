//! Results on the terminal and in a folder: raw numbers, a summary, the machine.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::machine;

/// The results of one bench.
pub(crate) struct Report {
    dir: PathBuf,
    raw: File,
    summary: String,
}

impl Report {
    /// Begins a folder for today and this machine.
    pub(crate) fn begin(runs: &Path) -> anyhow::Result<Self> {
        let dir = runs.join(format!("{}-{}", today(), machine::short_name()));
        fs::create_dir_all(&dir).with_context(|| format!("making {dir:?}"))?;
        fs::write(dir.join("host.txt"), machine::describe()).context("writing host.txt")?;
        let mut raw = File::create(dir.join("raw.csv")).context("making raw.csv")?;
        writeln!(raw, "bench,round,mode,quantity,value").context("writing raw.csv")?;
        Ok(Self { dir, raw, summary: String::new() })
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

    /// Writes the summary.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        fs::write(self.dir.join("summary.md"), &self.summary).context("writing summary.md")?;
        println!("kept in {}", self.dir.display());
        Ok(())
    }
}

fn today() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    output.map_or_else(|_| "undated".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The middle value; of two, their mean.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[length / 2],
        length => (sorted[length / 2 - 1] + sorted[length / 2]) / 2.0,
    }
}
