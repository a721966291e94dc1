//! `dwell analyse` of sampled traces: how its cost grows with rows and addresses, and mrm-trace on the same file.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::report::{Report, median};
use crate::sampled_trace;
use crate::trial::{AnalysisCost, DEFINITIONS, analyse, dwell};

const LEAST_ROWS: u64 = 1_000_000;
/// Addresses of the traces whose rows grow, and of the one that mrm-trace reads.
const USUAL_ADDRESSES: u64 = 200_000;
/// Addresses of the other traces, which have the fewest rows.
const OTHER_ADDRESSES: [u64; 2] = [20_000, 800_000];

/// Bars: CPU time of mrm-trace by that of dwell, by each definitions; exponent of growth with the rows; memory.
const LEAST_TIMES_FASTER: [f64; DEFINITIONS.len()] = [1000.0, 300.0];
const MOST_EXPONENT: f64 = 1.1;
const MOST_BYTES: f64 = 1e9;

/// A trace, and what analysing it took.
struct Trace {
    run: PathBuf,
    rows: u64,
    addresses: u64,
    /// By definitions.
    costs: [Cost; DEFINITIONS.len()],
}

/// What analysing a trace took, over all rounds.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Mean: the kernel tells sums more finely than single rounds.
    cpu_s: f64,
    wall_s: f64,
    peak_bytes: f64,
}

/// Analyses traces of up to so many rows.
pub(crate) fn measure(most_rows: u64, rounds: u32, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("making a folder for traces")?;
    let mut traces = write_traces(folder.path(), most_rows)?;
    for trace in &mut traces {
        for (place, definitions) in DEFINITIONS.into_iter().enumerate() {
            trace.costs[place] = measure_one(trace, definitions, rounds, report)?;
        }
    }
    let growing: Vec<&Trace> = traces.iter().filter(|trace| trace.addresses == USUAL_ADDRESSES).collect();
    let peer_s = growing.first().map(|trace| peer_cpu_s(&trace.run)).transpose()?.flatten();
    report.section(&table(&traces, rounds));
    for (place, definitions) in DEFINITIONS.into_iter().enumerate() {
        report_growth(definitions, place, &growing, report);
        if let Some((trace, peer_s)) = growing.first().copied().zip(peer_s) {
            report_ratio(definitions, place, peer_s / trace.costs[place].cpu_s, report);
        }
    }
    match peer_s {
        Some(peer_s) => report.raw("analysis", 0, "mrm-trace compute_all", "cpu_s", peer_s)?,
        None => eprintln!("not compared: mrm-trace is not in the cache (`make setup` puts it there)"),
    }
    Ok(())
}

/// Each in a folder of its own.
fn write_traces(folder: &Path, most_rows: u64) -> anyhow::Result<Vec<Trace>> {
    let longer = std::iter::successors(Some(LEAST_ROWS), |rows| rows.checked_mul(10));
    let growing = longer.take_while(|&rows| rows <= most_rows).map(|rows| (rows, USUAL_ADDRESSES));
    let others = OTHER_ADDRESSES.map(|addresses| (LEAST_ROWS, addresses));
    let write = |(rows, addresses): (u64, u64)| {
        let run = sampled_trace::write(&folder.join(format!("{rows}-{addresses}")), rows, addresses)?;
        eprintln!("wrote {rows} rows with {addresses} addresses");
        Ok(Trace { run, rows, addresses, costs: Default::default() })
    };
    growing.chain(others).map(write).collect()
}

fn measure_one(trace: &Trace, definitions: &str, rounds: u32, report: &mut Report) -> anyhow::Result<Cost> {
    let dwell = dwell()?;
    let mode = format!("{} rows {} addresses {definitions}", trace.rows, trace.addresses);
    let mut costs: Vec<AnalysisCost> = Vec::new();
    for round in 0..rounds {
        let cost = analyse(&dwell, &trace.run, definitions)?;
        for (quantity, value) in [("cpu_s", cost.cpu_s), ("wall_s", cost.wall_s), ("peak_bytes", cost.peak_bytes)] {
            report.raw("analysis", round, &mode, quantity, value)?;
        }
        costs.push(cost);
    }
    eprintln!("analysed {mode}");
    Ok(Cost {
        cpu_s: costs.iter().map(|cost| cost.cpu_s).sum::<f64>() / f64::from(rounds),
        wall_s: median(&costs.iter().map(|cost| cost.wall_s).collect::<Vec<_>>()),
        peak_bytes: costs.iter().map(|cost| cost.peak_bytes).fold(0.0, f64::max),
    })
}

/// CPU time of mrm-trace's `compute_all`; none if mrm-trace is not installed.
fn peer_cpu_s(run: &Path) -> anyhow::Result<Option<f64>> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let python = cache.map(|cache| cache.join("dwell/venv-peer/bin/python")).filter(|python| python.exists());
    let Some(python) = python else { return Ok(None) };
    eprintln!("waits for mrm-trace, which takes minutes");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peer/mrm_trace_cost.py");
    let output = Command::new(python).arg(script).arg(run.join("trace.parquet")).output();
    let output = output.context("starting mrm-trace")?;
    if !output.status.success() {
        bail!("mrm-trace failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.trim().parse().map(Some).context("reading the CPU time of mrm-trace")
}

fn table(traces: &[Trace], rounds: u32) -> String {
    let mut text = format!(
        "## analysis\n\n`dwell analyse` of sampled traces, {rounds} rounds: mean CPU time, median wall time, highest memory.\n\n\
         | rows | addresses | definitions | CPU s | wall s | M rows per wall s | peak MB |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for trace in traces {
        for (definitions, cost) in DEFINITIONS.iter().zip(&trace.costs) {
            text += &format!(
                "| {} | {} | {definitions} | {:.3} | {:.3} | {:.1} | {:.0} |\n",
                trace.rows,
                trace.addresses,
                cost.cpu_s,
                cost.wall_s,
                trace.rows as f64 / cost.wall_s / 1e6,
                cost.peak_bytes / 1e6,
            );
        }
    }
    text
}

/// How CPU time grows with the rows, and the memory of the longest trace.
fn report_growth(definitions: &str, place: usize, growing: &[&Trace], report: &mut Report) {
    let (Some(first), Some(last)) = (growing.first(), growing.last()) else { return };
    let peak_bytes = last.costs[place].peak_bytes;
    if peak_bytes > MOST_BYTES {
        report.missed_bar(format!("{definitions}: {} rows take {:.0} MB", last.rows, peak_bytes / 1e6));
    }
    if last.rows == first.rows {
        return;
    }
    let growth = last.costs[place].cpu_s / first.costs[place].cpu_s;
    let exponent = growth.ln() / (last.rows as f64 / first.rows as f64).ln();
    report.section(&format!("{definitions}: CPU time grows with the rows to the power of {exponent:.2}."));
    if exponent > MOST_EXPONENT {
        report.missed_bar(format!("{definitions}: CPU time grows with the rows to the power of {exponent:.2}"));
    }
}

fn report_ratio(definitions: &str, place: usize, times_faster: f64, report: &mut Report) {
    report.section(&format!(
        "{definitions}: {LEAST_ROWS} rows with {USUAL_ADDRESSES} addresses take mrm-trace's compute_all {times_faster:.0} times \
         the CPU time of the whole command."
    ));
    if times_faster < LEAST_TIMES_FASTER[place] {
        report.missed_bar(format!("{definitions}: {times_faster:.0} times faster than mrm-trace"));
    }
}
