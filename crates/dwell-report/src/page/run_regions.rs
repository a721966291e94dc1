//! What each kind of memory does, in numbers and in a sentence.

use serde::Serialize;

use super::run::RunFiles;
use crate::numbers::{bytes, ratio, seconds, three_digits};
use crate::run_results::MetricsLine;

/// What one kind of memory does.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RegionRow {
    pub(crate) region_type: String,
    title: &'static str,
    size_bytes: Option<f64>,
    read_bytes: f64,
    written_bytes: f64,
    read_bytes_per_token: Option<f64>,
    written_bytes_per_token: Option<f64>,
    residency: String,
    required_retention: String,
    pub(crate) retention_p50_s: Option<f64>,
    pub(crate) retention_p99_s: Option<f64>,
    pub(crate) retention_p50_low_s: Option<f64>,
    pub(crate) retention_p99_low_s: Option<f64>,
    write_once_ratio: Option<f64>,
    reads_per_write: Option<f64>,
    suitability: String,
    suitability_title: String,
    sentence: String,
}

/// One row per region type, in the order of `metrics.csv`.
pub(super) fn region_rows(files: &RunFiles<'_>) -> Vec<RegionRow> {
    let tokens = decoded_tokens(files);
    files.metrics.iter().map(|line| region_row(line, tokens)).collect()
}

/// Tokens that decode steps gave.
fn decoded_tokens(files: &RunFiles<'_>) -> Option<f64> {
    let generation = files.metadata.generation.as_ref()?;
    let tokens = generation.decode_tokens_per_s? * generation.decode_ns as f64 / 1e9;
    (tokens > 0.0).then_some(tokens)
}

fn region_row(line: &MetricsLine, tokens: Option<f64>) -> RegionRow {
    let per_token = |column| Some(line.number(column)? / tokens?);
    let suitability = line.name("suitability").unwrap_or("not_rated").to_owned();
    let suitability_title = class_title(&suitability, line.name("not_rated_reason"));
    RegionRow {
        title: title(&line.region_type),
        size_bytes: line.number("distinct_bytes"),
        read_bytes: line.number("bytes_read").unwrap_or(0.0),
        written_bytes: line.number("bytes_written").unwrap_or(0.0),
        read_bytes_per_token: per_token("decode_bytes_read"),
        written_bytes_per_token: per_token("decode_bytes_written"),
        residency: time(line, "residency_p50_s", "residency_p50_low_s"),
        retention_p50_s: line.number("retention_p50_s"),
        retention_p99_s: line.number("retention_p99_s"),
        retention_p50_low_s: line.number("retention_p50_low_s"),
        retention_p99_low_s: line.number("retention_p99_low_s"),
        write_once_ratio: line.number("write_once_ratio_mean"),
        reads_per_write: line.number("read_write_ratio"),
        sentence: sentence(line, &suitability_title),
        region_type: line.region_type.clone(),
        required_retention: needed_time(line),
        suitability,
        suitability_title,
    }
}

/// The name for people.
pub(crate) fn title(region_type: &str) -> &'static str {
    match region_type {
        "weight" => "Weights",
        "kv_cache" => "KV cache",
        "recurrent_state" => "Recurrent state",
        "activation" => "Activations",
        "work_buffer" => "Work buffers",
        "runtime" => "Runtime",
        _ => "Unknown",
    }
}

fn class_title(class: &str, reason: Option<&str>) -> String {
    match (class, reason) {
        ("high_mrm", _) => "suits managed-retention memory well".to_owned(),
        ("medium_mrm", _) => "suits managed-retention memory in part".to_owned(),
        ("low_mrm", _) => "does not suit managed-retention memory".to_owned(),
        ("not_estimable", _) => "cannot be rated from samples".to_owned(),
        (_, Some("window_too_short")) => "not rated: the run ended before its data did".to_owned(),
        (_, Some("unknown_memory")) => "not rated: nobody knows what it holds".to_owned(),
        (_, Some("never_read")) => "not rated: it was never read".to_owned(),
        (_, Some("incomplete_trace")) => "not rated: accesses are missing from the trace".to_owned(),
        (_, Some("contaminated_run")) => "not rated: the run was disturbed".to_owned(),
        _ => "not rated".to_owned(),
    }
}

/// A time, or a bound of it: what the trace is too short or too coarse for.
fn time(line: &MetricsLine, value: &str, low: &str) -> String {
    let resolution_s = line.number("time_resolution_s").unwrap_or(0.0);
    match (line.number(value), line.number(low)) {
        (Some(0.0), _) if resolution_s > 0.0 => format!("< {}", seconds(resolution_s)),
        (Some(value), _) => seconds(value),
        // That it is at least nothing says nothing.
        (None, Some(low)) if low > 0.0 => format!("> {}", seconds(low)),
        (None, _) => "–".to_owned(),
    }
}

/// What a memory that holds it has to do.
fn sentence(line: &MetricsLine, class: &str) -> String {
    let mut parts = Vec::new();
    if let Some(share) = line.number("write_once_ratio_mean") {
        parts.push(match share {
            share if share >= 0.9995 => "Each byte is written once".to_owned(),
            share if share < 0.0005 => "Every byte is written again and again".to_owned(),
            share => format!("{} % of the bytes are written once", three_digits(share * 100.0)),
        });
    }
    if let Some(reads) = line.number("read_write_ratio").filter(|reads| *reads > 0.0) {
        parts.push(format!("{} bytes are read for each that is written", ratio(reads)));
    }
    parts.extend(needed(line));
    if let Some(unread) = line.number("never_read_bytes").filter(|unread| *unread > 0.0) {
        parts.push(format!("{} was never read", bytes(unread as u64)));
    }
    let facts = if parts.is_empty() { String::new() } else { format!("{}. ", parts.join("; ")) };
    format!("{facts}{}.", capitalised(class))
}

fn needed(line: &MetricsLine) -> Option<String> {
    let time = needed_time(line);
    match time.split_once(' ') {
        Some(("<", time)) => Some(format!("all but 1 % of the data is needed for less than {time}")),
        Some((">", time)) => Some(format!("data is needed for longer than {time}")),
        Some(_) => Some(format!("all but 1 % of the data is needed for at most {time}")),
        None => None,
    }
}

/// How long data is needed at the speed that classes hold at; in this run if it has no steps.
fn needed_time(line: &MetricsLine) -> String {
    match (line.number("suitability_tokens_per_s"), line.number("needed_p99_s"), line.number("needed_p99_low_s")) {
        (Some(tokens_per_s), Some(0.0), _) => format!("< {}", seconds(1.0 / tokens_per_s)),
        (Some(_), None, None) | (None, ..) => time(line, "retention_p99_s", "retention_p99_low_s"),
        _ => time(line, "needed_p99_s", "needed_p99_low_s"),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What should hold the memory: one short paragraph.
pub(super) fn answer(regions: &[RegionRow], at_tokens_per_s: Option<f64>) -> String {
    if regions.is_empty() {
        return "No access was recorded, so nothing can be said about what should hold this memory.".to_owned();
    }
    let groups: [(&[&str], &str); 4] = [
        (&["high_mrm"], "Well suited to managed-retention memory"),
        (&["medium_mrm"], "Partly suited to managed-retention memory"),
        (&["low_mrm"], "Not suited to managed-retention memory"),
        (&["not_rated", "not_estimable"], "Not rated"),
    ];
    let mut sentences = Vec::new();
    for (classes, words) in groups {
        let of_class = regions.iter().filter(|region| classes.contains(&region.suitability.as_str()));
        let named: Vec<String> = of_class.map(RegionRow::in_few_words).collect();
        if !named.is_empty() {
            sentences.push(format!("{words}: {}.", named.join(", ")));
        }
    }
    if let Some(tokens_per_s) = at_tokens_per_s {
        sentences
            .push(format!("This holds at {tokens_per_s} tokens/s of one sequence, whatever the speed of this run."));
    }
    sentences.join(" ")
}

impl RegionRow {
    /// Its title, size, and how long it is needed or why it has no class.
    fn in_few_words(&self) -> String {
        let size = self.size_bytes.map_or_else(String::new, |size| format!("{}, ", bytes(size as u64)));
        let why = match self.suitability_title.split_once(": ") {
            Some((_, reason)) => reason.to_owned(),
            None => format!("needed for {}", self.required_retention),
        };
        format!("{} ({size}{why})", self.title)
    }
}
