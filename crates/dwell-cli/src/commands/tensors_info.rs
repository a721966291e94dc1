//! `dwell tensors info`: what a stream is.

use std::collections::BTreeMap;
use std::process::ExitCode;

use dwell_report::text::{bytes, count, or_dash, ratio};
use dwell_tensors::{FileEnd, StreamStats, TensorFile, stats};
use serde::Serialize;

use super::tensors;
use crate::args::TensorsFileArgs;
use crate::output::print_result;

#[derive(Serialize)]
struct Info<'a> {
    file: String,
    file_bytes: u64,
    is_finished: bool,
    /// Why it has no end.
    reason: Option<&'a str>,
    batches: u64,
    packets: u64,
    names: u64,
    tokens: u64,
    first_step: Option<u64>,
    last_step: Option<u64>,
    dropped_packets: u64,
    raw_bytes: u64,
    stored_bytes: u64,
    ratio: Option<f64>,
    dtypes: Vec<&'a str>,
    codecs: Vec<&'a str>,
    metadata: &'a BTreeMap<String, String>,
}

pub(crate) fn run(args: &TensorsFileArgs) -> anyhow::Result<ExitCode> {
    let file = tensors::open(&args.file)?;
    let figures = stats(&file);
    let info = info_of(&file, &figures);
    if args.json {
        super::print_json(&info)?;
    } else {
        print_result(&info_text(&info))?;
    }
    Ok(tensors::exit_code(&[&file]))
}

fn info_of<'a>(file: &'a TensorFile, figures: &'a StreamStats) -> Info<'a> {
    let total = &figures.total;
    Info {
        file: file.path().display().to_string(),
        file_bytes: file.file_bytes(),
        is_finished: file.is_finished(),
        reason: match file.end() {
            FileEnd::Finished => None,
            FileEnd::Unfinished { reason, .. } => Some(reason),
        },
        batches: file.batches().len() as u64,
        packets: total.packets,
        names: file.names().len() as u64,
        tokens: file.tokens().len() as u64,
        first_step: total.min_step,
        last_step: total.max_step,
        dropped_packets: total.dropped_packets,
        raw_bytes: total.raw_bytes,
        stored_bytes: total.stored_bytes,
        ratio: total.ratio(),
        dtypes: total.dtypes.iter().map(String::as_str).collect(),
        codecs: total.codecs.iter().map(String::as_str).collect(),
        metadata: file.metadata(),
    }
}

fn info_text(info: &Info<'_>) -> String {
    let line = |what: &str, value: String| format!("{what:<10} {value}\n");
    let steps = info.first_step.zip(info.last_step);
    let mut text = [
        line("file", info.file.clone()),
        line("size", format!("{} in {} batches", bytes(info.file_bytes), count(info.batches))),
        line("end", info.reason.map_or_else(|| "finished".to_owned(), |reason| format!("none: {reason}"))),
        line("tensors", format!("{} of {} names", count(info.packets), count(info.names))),
        line("dropped", count(info.dropped_packets)),
        line("steps", or_dash(steps, |(first, last)| format!("{first} to {last}"))),
        line("tokens", count(info.tokens)),
        line("types", info.dtypes.join(", ")),
        line("codecs", info.codecs.join(", ")),
        line(
            "elements",
            format!("{} in {}, {}×", bytes(info.raw_bytes), bytes(info.stored_bytes), or_dash(info.ratio, ratio)),
        ),
    ]
    .concat();
    let width = info.metadata.keys().map(String::len).max().unwrap_or(0);
    text.push_str("about\n");
    for (key, value) in info.metadata {
        // Prompts have line breaks.
        text.push_str(&format!("  {key:<width$}  {}\n", value.lines().collect::<Vec<_>>().join(" / ")));
    }
    text
}
