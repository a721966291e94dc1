//! `dwell import` of recordings that other programs made, and mrm-trace on the same text.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use dwell_build::import::{ALL, ImportRequest, Importer};
use dwell_store::RunDir;

use crate::peer;
use crate::recordings::{ScriptFields, write_lackey, write_perf_data, write_perf_script};
use crate::report::{Report, median};
use crate::trial::{Cost, dwell, measured, process_s};

const SAMPLES: u64 = 1_000_000;
const LACKEY_LINES: u64 = 8_000_000;

/// Bars: CPU time of mrm-trace by that of dwell, from the text to the labelled table; lines or samples per CPU second.
const LEAST_TIMES_FASTER: f64 = 100.0;
const LEAST_SAMPLES_PER_S: f64 = 5e6;
const LEAST_LINES_PER_S: f64 = 10e6;

/// A recording, and what importing it took.
struct Recording {
    name: &'static str,
    format: &'static str,
    file: PathBuf,
    /// Samples or lines.
    items: u64,
    /// CPU time from the file to the labelled tables.
    tables_s: f64,
    /// What the whole command took, with metrics and report.
    command: Cost,
    /// CPU time of mrm-trace from the file to a labelled table, if it reads the format and is installed.
    peer_s: Option<f64>,
}

/// Imports recordings of a million samples, and of eight million lines of lackey.
pub(crate) fn measure(rounds: u32, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("making a folder for recordings")?;
    let mut recordings = write_recordings(folder.path())?;
    for recording in &mut recordings {
        measure_one(recording, rounds, folder.path(), report)?;
    }
    report.section(&table(&recordings, rounds));
    recordings.iter().for_each(|recording| check(recording, report));
    if recordings.iter().all(|recording| recording.peer_s.is_none()) {
        eprintln!("not compared: mrm-trace is not in the cache (`make setup` puts it there)");
    }
    Ok(())
}

fn write_recordings(folder: &Path) -> anyhow::Result<Vec<Recording>> {
    let recording = |name: &'static str, format: &'static str, items: u64| Recording {
        name,
        format,
        file: folder.join(name.replace(' ', "-")),
        items,
        tables_s: 0.0,
        command: Cost::default(),
        peer_s: None,
    };
    let of_peer = recording("perf script", "perf-script", SAMPLES);
    write_perf_script(&of_peer.file, SAMPLES, ScriptFields::OfPeer)?;
    let with_functions = recording("perf script with functions", "perf-script", SAMPLES);
    write_perf_script(&with_functions.file, SAMPLES, ScriptFields::WithFunctions)?;
    let perf_data = recording("perf data", "perf-data", SAMPLES);
    write_perf_data(&perf_data.file, SAMPLES)?;
    let lackey = recording("lackey", "lackey", LACKEY_LINES);
    write_lackey(&lackey.file, LACKEY_LINES)?;
    eprintln!("wrote the recordings");
    Ok(vec![of_peer, with_functions, perf_data, lackey])
}

fn measure_one(recording: &mut Recording, rounds: u32, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let (mut tables_s, mut commands) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let seconds = import_tables(recording, folder)?;
        let cost = import_by_command(recording)?;
        for (quantity, value) in
            [("tables_cpu_s", seconds), ("cpu_s", cost.cpu_s), ("wall_s", cost.wall_s), ("peak_bytes", cost.peak_bytes)]
        {
            report.raw("import", round, recording.name, quantity, value)?;
        }
        tables_s.push(seconds);
        commands.push(cost);
    }
    recording.tables_s = median(&tables_s);
    recording.command = Cost {
        cpu_s: median(&commands.iter().map(|cost| cost.cpu_s).collect::<Vec<_>>()),
        wall_s: median(&commands.iter().map(|cost| cost.wall_s).collect::<Vec<_>>()),
        peak_bytes: commands.iter().map(|cost| cost.peak_bytes).fold(0.0, f64::max),
    };
    if recording.format == "perf-script" {
        recording.peer_s = peer_cpu_s(&recording.file)?;
    }
    if let Some(peer_s) = recording.peer_s {
        report.raw("import", 0, &format!("mrm-trace {}", recording.name), "cpu_s", peer_s)?;
    }
    eprintln!("imported {}", recording.name);
    Ok(())
}

/// CPU time from the recording to its labelled tables, in this process.
fn import_tables(recording: &Recording, folder: &Path) -> anyhow::Result<f64> {
    let results = tempfile::tempdir_in(folder).context("making a folder for the results")?;
    let importer = importer(recording.format)?;
    let request = ImportRequest {
        files: vec![recording.file.clone()],
        results: results.path().to_owned(),
        model_id: "model".to_owned(),
        run_id: None,
        options: [("cpu-mhz", "3000".to_owned())].into(),
        command_line: Vec::new(),
    };
    let run = RunDir::create(results.path(), "model", "run")?;
    let begin_s = process_s();
    let imported = importer.import(&request, &run);
    let spent_s = process_s() - begin_s;
    imported.map(|_| spent_s).map_err(|error| anyhow::anyhow!("importing {}: {error}", recording.name))
}

fn importer(format: &str) -> anyhow::Result<&'static dyn Importer> {
    let found = ALL.iter().find(|importer| importer.name() == format);
    found.copied().with_context(|| format!("dwell imports no {format}"))
}

/// `dwell import` as users run it.
fn import_by_command(recording: &Recording) -> anyhow::Result<Cost> {
    let results = tempfile::tempdir().context("making a folder for the results")?;
    let mut command = Command::new(dwell()?);
    command.args(["import", recording.format, "--json", "--output"]).arg(results.path()).arg(&recording.file);
    measured(&mut command)
}

/// CPU time of mrm-trace's parser, labeller and writer; none if mrm-trace is not installed.
fn peer_cpu_s(text: &Path) -> anyhow::Result<Option<f64>> {
    let table = text.with_extension("peer.parquet");
    let Some(printed) = peer::run("mrm_trace_import_cost.py", &[text, &table])? else { return Ok(None) };
    let mut figures = printed.split_whitespace();
    let seconds = figures.next().and_then(|figure| figure.parse().ok()).context("reading the CPU time of mrm-trace")?;
    let rows: u64 = figures.next().and_then(|figure| figure.parse().ok()).context("reading the rows of mrm-trace")?;
    if rows != SAMPLES {
        bail!("mrm-trace read {rows} samples of {SAMPLES}");
    }
    Ok(Some(seconds))
}

fn table(recordings: &[Recording], rounds: u32) -> String {
    let mut text = format!(
        "## import\n\n{SAMPLES} samples, {LACKEY_LINES} lines of lackey; {rounds} rounds, medians, highest memory. Tables: from \
         the file to labelled Parquet. Command: the whole of `dwell import`, with metrics.\n\n\
         | recording | MB | tables CPU s | M samples or lines per CPU s | command CPU s | command wall s | peak MB | mrm-trace CPU s | times |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for recording in recordings {
        let bytes = std::fs::metadata(&recording.file).map_or(0, |file| file.len());
        let peer = recording.peer_s.map_or_else(String::new, |peer_s| format!("{peer_s:.2}"));
        let times = recording.peer_s.map_or_else(String::new, |peer_s| format!("{:.0}", peer_s / recording.tables_s));
        text += &format!(
            "| {} | {:.0} | {:.3} | {:.2} | {:.3} | {:.3} | {:.0} | {peer} | {times} |\n",
            recording.name,
            bytes as f64 / 1e6,
            recording.tables_s,
            recording.items as f64 / recording.tables_s / 1e6,
            recording.command.cpu_s,
            recording.command.wall_s,
            recording.command.peak_bytes / 1e6,
        );
    }
    text
}

/// Holds the figures of a recording against their bars.
fn check(recording: &Recording, report: &mut Report) {
    let per_s = recording.items as f64 / recording.tables_s;
    let least = match recording.format {
        "perf-data" => LEAST_SAMPLES_PER_S,
        "lackey" => LEAST_LINES_PER_S,
        _ => 0.0,
    };
    if per_s < least {
        report.missed_bar(format!(
            "{}: {:.2} M per CPU s, and {:.0} M are wanted",
            recording.name,
            per_s / 1e6,
            least / 1e6
        ));
    }
    if let Some(times) =
        recording.peer_s.map(|peer_s| peer_s / recording.tables_s).filter(|it| *it < LEAST_TIMES_FASTER)
    {
        report.missed_bar(format!("{}: {times:.0} times faster than mrm-trace", recording.name));
    }
}
