//! Memory of the observer: it must not grow with the length of the run.

use std::process::Command;

use anyhow::{Context, bail};

use crate::report::Report;
use crate::trial::{dwell, number, run};

/// Highest memory that the observer may take, recording and building tables.
const LIMIT_MIB: f64 = 256.0;

/// Runs a short and a long generation and compares the observer's highest resident memory.
pub(crate) fn measure(long_run_tokens: u32, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("making a folder for the model")?;
    let model = folder.path().join("small.gguf");
    let made = Command::new(dwell()?)
        .args(["model", "make", "--layers", "8", "--embedding", "128", "--feed-forward", "256"])
        .arg(&model)
        .output()
        .context("making a model")?;
    if !made.status.success() {
        bail!("making a model failed: {}", String::from_utf8_lossy(&made.stderr));
    }
    let mut text =
        "## Highest memory of the observer\n\n| decoded tokens | accesses | memory |\n| --- | --- | --- |\n".to_owned();
    for tokens in [long_run_tokens / 16, long_run_tokens] {
        let arguments: Vec<String> = [
            "--model",
            &model.to_string_lossy(),
            "--ignore-end",
            "--context-shift",
            "--context-length",
            "2048",
            "--max-tokens",
            &tokens.to_string(),
        ]
        .map(str::to_owned)
        .to_vec();
        let summary = run(&arguments)?;
        let peak_mib = number(&summary, "/observer_peak_rss_bytes")? / f64::from(1 << 20);
        let accesses = number(&summary, "/accesses")?;
        report.raw("memory", 0, &tokens.to_string(), "observer_peak_mib", peak_mib)?;
        text.push_str(&format!("| {tokens} | {accesses} | {peak_mib:.1} MiB |\n"));
        if peak_mib > LIMIT_MIB {
            report.missed_bar(format!("observer memory {peak_mib:.1} MiB, at most {LIMIT_MIB} MiB are allowed"));
        }
    }
    report.section(&text);
    Ok(())
}
