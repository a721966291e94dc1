//! This build beside another one, such as the last release: speed and memory of runs, CPU time of the analysis.
//!
//! Both binaries do the same work in turns, so that whatever else the machine does meets both.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::report::{Report, median};
use crate::sampled_trace;
use crate::trial::{DEFINITIONS, analyse, child_cpu_s, dwell, number, run_with};

/// Words of the prompt; each is one token of the default model.
const PROMPT_WORDS: usize = 511;
const DECODED_TOKENS: u32 = 128;
/// Rows of the sampled trace, and distinct addresses in it.
const TRACE_ROWS: u64 = 1_000_000;
const TRACE_ADDRESSES: u64 = 200_000;
/// The share of the other build's speed below which this one is slower than noise explains.
const LEAST_SPEED_SHARE: f64 = 0.97;

/// What is measured of a run, by its place in the summary.
const OF_RUNS: [(&str, &str); 3] = [
    ("prompt tokens/s", "/generation/prompt_tokens_per_s"),
    ("decoded tokens/s", "/generation/decode_tokens_per_s"),
    ("observer peak bytes", "/observer_peak_rss_bytes"),
];
const RUN_CPU: &str = "CPU s of a run";

/// One build of dwell, and what was measured of it.
struct Build {
    name: &'static str,
    program: PathBuf,
    /// Values by quantity, in the order of [`quantities`].
    values: Vec<Vec<f64>>,
}

/// Runs both builds in turns and reports medians of the ratios within a round.
pub(crate) fn measure(against: &Path, rounds: u32, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("making a folder for a trace")?;
    let trace = sampled_trace::write(folder.path(), TRACE_ROWS, TRACE_ADDRESSES)?;
    let mut builds = [build("against", against.to_owned()), build("this", dwell()?)];
    for round in 0..rounds {
        for place in 0..builds.len() {
            let at = (place + round as usize) % builds.len();
            let build = &mut builds[at];
            let values = trial(&build.program, &trace)?;
            for ((quantity, value), kept) in quantities().iter().zip(values).zip(&mut build.values) {
                report.raw("versions", round, build.name, quantity, value)?;
                kept.push(value);
            }
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    let [against, this] = &builds;
    report.section(&table(rounds, against, this));
    for (place, quantity) in quantities().iter().enumerate().filter(|(_, quantity)| quantity.ends_with("tokens/s")) {
        let share = median(&ratios(against, this, place));
        if share < LEAST_SPEED_SHARE {
            report.missed_bar(format!("{quantity} at {:.1} % of the other build", share * 100.0));
        }
    }
    Ok(())
}

fn build(name: &'static str, program: PathBuf) -> Build {
    Build { name, program, values: vec![Vec::new(); quantities().len()] }
}

fn quantities() -> Vec<String> {
    let analyses = DEFINITIONS.iter().flat_map(|definitions| {
        [format!("CPU s of analyse, {definitions}"), format!("peak bytes of analyse, {definitions}")]
    });
    OF_RUNS.iter().map(|(name, _)| (*name).to_owned()).chain([RUN_CPU.to_owned()]).chain(analyses).collect()
}

/// One run and one analysis by each definitions.
fn trial(program: &Path, trace: &Path) -> anyhow::Result<Vec<f64>> {
    let before_s = child_cpu_s()?;
    let summary: Value = run_with(program, &arguments())?;
    let run_cpu_s = child_cpu_s()? - before_s;
    let mut values = OF_RUNS.iter().map(|(_, pointer)| number(&summary, pointer)).collect::<Result<Vec<_>, _>>()?;
    values.push(run_cpu_s);
    for definitions in DEFINITIONS {
        let cost = analyse(program, trace, definitions)?;
        values.extend([cost.cpu_s, cost.peak_bytes]);
    }
    Ok(values)
}

fn arguments() -> Vec<String> {
    let prompt = vec!["word"; PROMPT_WORDS].join(" ");
    let words = ["--chat-template", "off", "--ignore-end", "--context-length", "1024", "--prompt", &prompt];
    words.iter().map(|word| (*word).to_owned()).chain(["--max-tokens".to_owned(), DECODED_TOKENS.to_string()]).collect()
}

fn ratios(against: &Build, this: &Build, quantity: usize) -> Vec<f64> {
    this.values[quantity].iter().zip(&against.values[quantity]).map(|(this, against)| this / against).collect()
}

fn table(rounds: u32, against: &Build, this: &Build) -> String {
    let mut text = format!(
        "## This build against another\n\n\
         Runs: default model, prompt of {} tokens, {DECODED_TOKENS} decoded. Analysis: {TRACE_ROWS} sampled rows with \
         {TRACE_ADDRESSES} addresses. Medians of {rounds} rounds in turns.\n\n\
         | quantity | other | this | this / other |\n| --- | --- | --- | --- |\n",
        PROMPT_WORDS + 1,
    );
    for (place, quantity) in quantities().iter().enumerate() {
        let [other, own] = [against, this].map(|build| median(&build.values[place]));
        let ratio = median(&ratios(against, this, place));
        text.push_str(&format!("| {quantity} | {other:.2} | {own:.2} | {ratio:.3} |\n"));
    }
    text
}
