//! `dwell tensors stats`: figures for each name.

use std::process::ExitCode;

use dwell_report::text::{bytes, count, or_dash, ratio, table};
use dwell_tensors::{NameStats, StreamStats, stats};

use super::tensors;
use crate::args::TensorsFileArgs;
use crate::output::print_result;

pub(crate) fn run(args: &TensorsFileArgs) -> anyhow::Result<ExitCode> {
    let file = tensors::open(&args.file)?;
    let figures = stats(&file);
    if args.json {
        super::print_json(&figures)?;
    } else {
        print_result(&stats_text(&figures))?;
    }
    Ok(tensors::exit_code(&[&file]))
}

fn stats_text(figures: &StreamStats) -> String {
    let heading = ["name", "count", "dropped", "steps", "elements", "stored", "ratio", "max error", "mse", "codec"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    lines.extend(figures.names.iter().map(|stats| line(&stats.name, stats)));
    lines.push(line("total", &figures.total));
    table(&lines)
}

fn line(name: &str, stats: &NameStats) -> Vec<String> {
    let error = |value: Option<f64>| value.map_or_else(|| "exact".to_owned(), |value| format!("{value:.2e}"));
    vec![
        if name.is_empty() { "(no name)".to_owned() } else { name.to_owned() },
        count(stats.packets),
        count(stats.dropped_packets),
        or_dash(stats.min_step.zip(stats.max_step), |(first, last)| format!("{first}–{last}")),
        bytes(stats.raw_bytes),
        bytes(stats.stored_bytes),
        or_dash(stats.ratio(), ratio),
        error(stats.max_error),
        error(stats.mse),
        stats.codecs.iter().map(String::as_str).collect::<Vec<_>>().join(","),
    ]
}
