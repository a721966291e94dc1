//! `dwell analyse` of sampled and exact traces: how its cost grows with rows and addresses, and mrm-trace on the same file.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::report::{Report, median};
use crate::trial::{Cost, DEFINITIONS, analyse, dwell};
use crate::{long_trace, peer, sampled_trace};

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
    /// Distinct addresses; none for a trace with every access, such as a decoding model leaves.
    addresses: Option<u64>,
    /// By definitions.
    costs: [Cost; DEFINITIONS.len()],
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
    let growing: Vec<&Trace> = traces.iter().filter(|trace| trace.addresses == Some(USUAL_ADDRESSES)).collect();
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

impl Trace {
    fn content(&self) -> String {
        self.addresses.map_or_else(|| "exact".to_owned(), |addresses| addresses.to_string())
    }
}

/// Each in a folder of its own.
fn write_traces(folder: &Path, most_rows: u64) -> anyhow::Result<Vec<Trace>> {
    let longer = std::iter::successors(Some(LEAST_ROWS), |rows| rows.checked_mul(10));
    let growing = longer.take_while(|&rows| rows <= most_rows).map(|rows| (rows, USUAL_ADDRESSES));
    let others = OTHER_ADDRESSES.map(|addresses| (LEAST_ROWS, addresses));
    let write = |(rows, addresses): (u64, u64)| {
        let run = sampled_trace::write(&folder.join(format!("{rows}-{addresses}")), rows, addresses)?;
        eprintln!("wrote {rows} rows with {addresses} addresses");
        Ok(Trace { run, rows, addresses: Some(addresses), costs: Default::default() })
    };
    let sampled = growing.chain(others).map(write);
    let exact = std::iter::once_with(|| {
        let run = long_trace::write(&folder.join("exact"), most_rows)?.path().to_owned();
        eprintln!("wrote {most_rows} rows with every access");
        Ok(Trace { run, rows: most_rows, addresses: None, costs: Default::default() })
    });
    sampled.chain(exact).collect()
}

fn measure_one(trace: &Trace, definitions: &str, rounds: u32, report: &mut Report) -> anyhow::Result<Cost> {
    let dwell = dwell()?;
    let mode = format!("{} rows {} addresses {definitions}", trace.rows, trace.content());
    let mut costs: Vec<Cost> = Vec::new();
    for round in 0..rounds {
        let cost = analyse(&dwell, &trace.run, definitions)?;
        for (quantity, value) in [("cpu_s", cost.cpu_s), ("wall_s", cost.wall_s), ("peak_bytes", cost.peak_bytes)] {
            report.raw("analysis", round, &mode, quantity, value)?;
        }
        costs.push(cost);
    }
    eprintln!("analysed {mode}");
    Ok(Cost {
        // The mean: the kernel tells sums more finely than single rounds.
        cpu_s: costs.iter().map(|cost| cost.cpu_s).sum::<f64>() / f64::from(rounds),
        wall_s: median(&costs.iter().map(|cost| cost.wall_s).collect::<Vec<_>>()),
        peak_bytes: costs.iter().map(|cost| cost.peak_bytes).fold(0.0, f64::max),
    })
}

/// CPU time of mrm-trace's `compute_all`; none if mrm-trace is not installed.
fn peer_cpu_s(run: &Path) -> anyhow::Result<Option<f64>> {
    let printed = peer::run("mrm_trace_cost.py", &[&run.join("trace.parquet")])?;
    let seconds = |printed: String| printed.trim().parse().context("reading the CPU time of mrm-trace");
    printed.map(seconds).transpose()
}

fn table(traces: &[Trace], rounds: u32) -> String {
    let mut text = format!(
        "## analysis\n\n`dwell analyse`, {rounds} rounds: mean CPU time, median wall time, highest memory. The exact trace has every access of a \
         decoding model, the others are sampled.\n\n\
         | rows | addresses | definitions | CPU s | wall s | M rows per wall s | peak MB |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for trace in traces {
        for (definitions, cost) in DEFINITIONS.iter().zip(&trace.costs) {
            text += &format!(
                "| {} | {} | {definitions} | {:.3} | {:.3} | {:.1} | {:.0} |\n",
                trace.rows,
                trace.content(),
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
