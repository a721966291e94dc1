//! What samples cost a page that runs a model in the browser, by the script of the page's tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::report::Report;
use crate::trial::dwell;

/// The script, and packages that it needs, relative to this crate.
const SCRIPT: &str = "../../web/test/cost.mjs";
const PACKAGES: [&str; 2] = ["../../web/node_modules/@wllama/wllama", "../../viewer/node_modules/playwright-core"];
const TOKENS: u32 = 32;
/// The least speed with samples, as a share of that without.
const LEAST_SPEED: f64 = 0.97;

/// What the script prints.
#[derive(Debug, Deserialize)]
struct Found {
    measured: Vec<Pair>,
    process_ns_off: f64,
    page_ns_more: f64,
    samples_per_token: f64,
    sample_ns: f64,
    alone_ratio: f64,
    cpu_ratio: Ratio,
    speed_ratio: Ratio,
}

/// Two runs, one after the other.
#[derive(Debug, Deserialize)]
struct Pair {
    off: Costs,
    on: Costs,
}

#[derive(Debug, Deserialize)]
struct Costs {
    /// CPU time of the page's own thread for each token.
    page_ns: f64,
    /// That of its whole process.
    process_ns: f64,
    /// Samples for each token.
    samples: f64,
    tokens_per_s: f64,
}

/// A median with its 95 % interval.
#[derive(Debug, Deserialize)]
struct Ratio {
    median: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    fn text(&self) -> String {
        format!("{:.4} ({:.4} to {:.4})", self.median, self.low, self.high)
    }
}

/// Has one page write the same text with samples and without, in turns. Nothing where Node or packages are missing.
pub(crate) fn measure(pairs: u32, report: &mut Report) -> anyhow::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    if let Some(missing) = PACKAGES.iter().find(|package| !here.join(package).is_dir()) {
        report.section(&format!("## Samples in a page\n\nNot measured without {missing}.\n"));
        return Ok(());
    }
    let mut script = Command::new("node");
    script.arg(here.join(SCRIPT)).arg(model()?).args([TOKENS.to_string(), pairs.to_string()]).arg("--json");
    let output = script.output().context("starting node")?;
    if !output.status.success() {
        bail!("running a model in Chromium failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let found: Found = serde_json::from_slice(&output.stdout).context("reading what the page measured")?;
    for (round, pair) in (0..).zip(&found.measured) {
        for (mode, costs) in [("off", &pair.off), ("every 100 ms", &pair.on)] {
            report.raw("page", round, mode, "process_cpu_ns_per_token", costs.process_ns)?;
            report.raw("page", round, mode, "page_thread_cpu_ns_per_token", costs.page_ns)?;
            report.raw("page", round, mode, "samples_per_token", costs.samples)?;
            report.raw("page", round, mode, "tokens_per_s", costs.tokens_per_s)?;
        }
    }
    report.section(&summary(&found));
    let speed = 1.0 / found.cpu_ratio.median;
    if speed < LEAST_SPEED {
        report
            .missed_bar(format!("a page that samples has {speed:.4} of its speed, at least {LEAST_SPEED} are needed"));
    }
    Ok(())
}

fn summary(found: &Found) -> String {
    let pairs = found.measured.len();
    let token_ms = found.process_ns_off / 1e6;
    let more_ms = found.page_ns_more / 1e6;
    let (samples, sample_ms) = (found.samples_per_token, found.sample_ns / 1e6);
    format!(
        "## Samples in a page\n\nwllama with SmolLM2-135M on one thread, {TOKENS} tokens, samples every 100 ms and at each token, \
         {pairs} pairs of runs with and without, in turns. Medians; 95 % intervals of them.\n\n| quantity | value |\n| --- | --- |\n\
         | CPU ms of a token in the page's process, without samples | {token_ms:.3} |\n\
         | CPU ms of a token more in the page's own thread, with samples | {more_ms:.3} |\n\
         | samples for each token; CPU ms of one | {samples:.2}; {sample_ms:.3} |\n\
         | CPU time of a token, with / without | {} |\n\
         | the same with the samples of a machine that does nothing else | {:.4} |\n\
         | tokens/s, with / without | {} |\n",
        found.cpu_ratio.text(),
        found.alone_ratio,
        found.speed_ratio.text(),
    )
}

/// The default model in dwell's cache.
fn model() -> anyhow::Result<PathBuf> {
    let output = Command::new(dwell()?).args(["--quiet", "model", "pull"]).output().context("starting dwell")?;
    if !output.status.success() {
        bail!("dwell model pull failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}
