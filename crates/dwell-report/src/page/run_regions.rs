//! What each kind of memory does, in numbers and in a sentence.

use dwell_analysis::SuitabilityThresholds;
use serde::Serialize;

use super::run::{RunFiles, thresholds_of};
use crate::numbers::{bytes, ratio, seconds, three_digits};
use crate::run_results::MetricsLine;
use crate::run_summary::decided_by;
use crate::text::capitalised;

/// What a table has in the place of a time that is not known.
const NOTHING: &str = "–";

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
    /// What the sentence says before it comes to the class.
    #[serde(skip)]
    facts: String,
    /// Why there is no class, as the run may decide if it goes on.
    #[serde(skip)]
    open: Option<Open>,
}

/// Why a region type has no class, where a longer run gives it one.
#[derive(Clone, Debug)]
enum Open {
    /// The run ended; what would have decided, and whether the class is medium at least.
    Ended(String),
    /// The run goes on.
    Recording,
}

const TOO_EARLY: &str = "too early to tell: the run is still being recorded";

/// One row per region type, in the order of `metrics.csv`.
pub(super) fn region_rows(files: &RunFiles<'_>) -> Vec<RegionRow> {
    let tokens = decoded_tokens(files);
    let thresholds = thresholds_of(files.metadata);
    files.metrics.iter().map(|line| region_row(line, tokens, &thresholds)).collect()
}

/// Tokens that decode steps gave.
fn decoded_tokens(files: &RunFiles<'_>) -> Option<f64> {
    let generation = files.metadata.generation.as_ref()?;
    let tokens = generation.decode_tokens_per_s? * generation.decode_ns as f64 / 1e9;
    (tokens > 0.0).then_some(tokens)
}

fn region_row(line: &MetricsLine, tokens: Option<f64>, thresholds: &SuitabilityThresholds) -> RegionRow {
    let per_token = |column| Some(line.number(column)? / tokens?);
    let suitability = line.name("suitability").unwrap_or("not_rated").to_owned();
    let reason = line.name("not_rated_reason");
    let suitability_title = class_title(&suitability, reason);
    let open = match reason {
        Some("window_too_short") => Some(Open::Ended(what_would_decide(line, thresholds))),
        // Something that was not read yet may be read.
        Some("never_read") => Some(Open::Ended(String::new())),
        _ => None,
    };
    let facts = facts(line);
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
        sentence: sentence(&facts, &suitability_title, open.as_ref()),
        facts,
        open,
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
        (None, _) => NOTHING.to_owned(),
    }
}

/// What would decide, and what is known of the class already.
fn what_would_decide(line: &MetricsLine, thresholds: &SuitabilityThresholds) -> String {
    let steps = line.number("steps").unwrap_or(0.0) as u64;
    let decided_by = decided_by(thresholds, line.number("suitability_tokens_per_s"), steps);
    let medium = if is_medium_at_least(line, thresholds) { "; at least medium" } else { "" };
    format!("{decided_by} would decide{medium}")
}

/// Whether the lower bounds give the medium class. The share that stays for its retention has no column of its own. It is at
/// least the share that stays for the longer retention of the high class, and at least the share that is needed so long:
/// half of what is read, by the median.
fn is_medium_at_least(line: &MetricsLine, thresholds: &SuitabilityThresholds) -> bool {
    let is_needed = line.number("needed_p50_low_s").is_some_and(|low| low >= thresholds.medium_retention_s);
    let needed_share = 0.5 * (1.0 - line.number("never_read_share").unwrap_or(1.0));
    let kept_share = match thresholds.high_retention_s >= thresholds.medium_retention_s {
        true => line.number("kept_low_share").unwrap_or(0.0),
        false => 0.0,
    };
    is_needed && needed_share.max(kept_share) >= thresholds.medium_write_once
}

/// What a memory that holds it has to do, and its class.
fn sentence(facts: &str, class: &str, open: Option<&Open>) -> String {
    let facts = if facts.is_empty() { String::new() } else { format!("{facts}. ") };
    let class = match open {
        Some(Open::Ended(decides)) if !decides.is_empty() => format!("{class}; {decides}"),
        _ => class.to_owned(),
    };
    format!("{facts}{}.", capitalised(&class))
}

/// What its data does.
fn facts(line: &MetricsLine) -> String {
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
    capitalised(&parts.join("; "))
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

/// What should hold the memory: one short paragraph.
pub(super) fn answer(regions: &[RegionRow], at_tokens_per_s: Option<f64>) -> String {
    if regions.is_empty() {
        return "No access was recorded, so nothing can be said about what should hold this memory.".to_owned();
    }
    let groups = [
        "Well suited to managed-retention memory",
        "Partly suited to managed-retention memory",
        "Not suited to managed-retention memory",
        "Not rated",
        "Too early to tell, because the run is still being recorded",
    ];
    let mut sentences = Vec::new();
    for (place, words) in groups.into_iter().enumerate() {
        let of_group = regions.iter().filter(|region| region.group() == place);
        let named: Vec<String> = of_group.map(RegionRow::in_few_words).collect();
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
    /// The same while the run goes on: it is too early to tell what the run has not decided.
    pub(super) fn while_recording(self) -> Self {
        if self.open.is_none() {
            return self;
        }
        let open = Some(Open::Recording);
        let sentence = sentence(&self.facts, TOO_EARLY, open.as_ref());
        Self { suitability_title: TOO_EARLY.to_owned(), sentence, open, ..self }
    }

    /// Which sentence of the answer names it.
    fn group(&self) -> usize {
        match (self.suitability.as_str(), &self.open) {
            ("high_mrm", _) => 0,
            ("medium_mrm", _) => 1,
            ("low_mrm", _) => 2,
            (_, Some(Open::Recording)) => 4,
            _ => 3,
        }
    }

    /// Its title, size, and how long it is needed or why it has no class.
    fn in_few_words(&self) -> String {
        let why = match (&self.open, self.suitability_title.split_once(": ")) {
            (Some(Open::Recording), _) => None,
            (Some(Open::Ended(decides)), Some((_, reason))) if !decides.is_empty() => {
                Some(format!("{reason}; {decides}"))
            }
            (_, Some((_, reason))) => Some(reason.to_owned()),
            (_, None) => Some(&self.required_retention).filter(|time| *time != NOTHING).map(|time| in_words(time)),
        };
        let size = self.size_bytes.map(|size| bytes(size as u64));
        let known: Vec<String> = size.into_iter().chain(why).collect();
        if known.is_empty() { self.title.to_owned() } else { format!("{} ({})", self.title, known.join(", ")) }
    }
}

/// How long data is needed, for a sentence.
fn in_words(time: &str) -> String {
    match time.split_once(' ') {
        Some(("<", time)) => format!("needed for less than {time}"),
        Some((">", time)) => format!("needed for longer than {time}"),
        _ => format!("needed for {time}"),
    }
}

#[cfg(test)]
mod tests {
    use dwell_analysis::Value;

    use super::*;

    fn line(region_type: &str, names: &[(&str, &str)], numbers: &[(&str, f64)]) -> MetricsLine {
        let names = names.iter().map(|(column, name)| ((*column).to_owned(), Value::Text((*name).to_owned())));
        let numbers = numbers.iter().map(|(column, number)| ((*column).to_owned(), Value::Number(*number)));
        MetricsLine { region_type: region_type.to_owned(), values: names.chain(numbers).collect() }
    }

    fn row(line: &MetricsLine) -> RegionRow {
        region_row(line, None, &SuitabilityThresholds::default())
    }

    /// Weights of a run of 64 steps, which ended first.
    fn weights() -> MetricsLine {
        line(
            "weight",
            &[("suitability", "not_rated"), ("not_rated_reason", "window_too_short")],
            &[
                ("suitability_tokens_per_s", 20.0),
                ("steps", 64.0),
                ("distinct_bytes", 1024.0),
                ("needed_p50_low_s", 3.2),
                ("needed_p99_low_s", 3.2),
                ("never_read_share", 0.0),
            ],
        )
    }

    #[test]
    fn a_class_that_the_run_was_too_short_for_says_what_would_decide() {
        let row = row(&weights());
        let why = "the run ended before its data did; 201 steps would decide; at least medium";
        assert_eq!(answer(std::slice::from_ref(&row), None), format!("Not rated: Weights (1.00 KiB, {why})."));
        assert_eq!(row.sentence, format!("Data is needed for longer than 3.20 s. Not rated: {why}."));
        let mut short = weights();
        short.values.insert("needed_p50_low_s".to_owned(), Value::Number(0.5));
        assert!(!super::tests::row(&short).sentence.contains("medium"));
    }

    #[test]
    fn while_a_run_is_recorded_it_is_too_early_to_tell() {
        let row = row(&weights()).while_recording();
        assert_eq!(row.suitability_title, TOO_EARLY);
        assert_eq!(
            row.sentence,
            "Data is needed for longer than 3.20 s. Too early to tell: the run is still being recorded."
        );
        assert_eq!(
            answer(&[row], None),
            "Too early to tell, because the run is still being recorded: Weights (1.00 KiB)."
        );
        let low = line("activation", &[("suitability", "low_mrm")], &[]);
        let decided = super::tests::row(&low).while_recording();
        assert_eq!(decided.suitability_title, "does not suit managed-retention memory");
    }

    #[test]
    fn what_is_not_known_is_left_out_of_sentences() {
        let numbers = [("distinct_bytes", 1024.0), ("suitability_tokens_per_s", 20.0), ("needed_p99_low_s", 0.0)];
        let row = row(&line("activation", &[("suitability", "low_mrm")], &numbers));
        assert_eq!(row.required_retention, "–", "a lower bound of 0 says nothing");
        assert_eq!(row.sentence, "Does not suit managed-retention memory.");
        assert_eq!(answer(&[row], None), "Not suited to managed-retention memory: Activations (1.00 KiB).");
    }
}
