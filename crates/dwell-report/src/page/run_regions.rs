//! What each kind of memory does, in numbers and in a sentence.

use dwell_analysis::SuitabilityThresholds;
use serde::Serialize;

use super::run::{RunFiles, thresholds_of};
use super::run_class::{Deciding, class_title, deciding_number, what_would_decide};
use crate::numbers::{bytes, ratio, seconds};
use crate::run_results::MetricsLine;
use crate::text::{capitalised, counted};

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
    /// What the sentence says after the class.
    #[serde(skip)]
    facts: String,
    /// The number that gave the class, with what the next better class needs.
    #[serde(skip)]
    deciding: Option<Deciding>,
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
    let deciding = deciding_number(line, thresholds);
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
        sentence: sentence(&facts, &why(&suitability, &suitability_title, deciding.as_ref()), open.as_ref()),
        facts,
        deciding,
        open,
        region_type: line.region_type.clone(),
        required_retention: needed_time(line, "p99"),
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

/// The class with the number that gave it; in words alone if no such number is known.
fn why(class: &str, class_title: &str, deciding: Option<&Deciding>) -> String {
    match deciding {
        Some(deciding) => format!("{}: {}", class.trim_end_matches("_mrm"), deciding.sentence()),
        None => class_title.to_owned(),
    }
}

/// Why it has its class, and what a memory that holds it has to do.
fn sentence(facts: &str, why: &str, open: Option<&Open>) -> String {
    let why = match open {
        Some(Open::Ended(decides)) if !decides.is_empty() => format!("{why}; {decides}"),
        _ => why.to_owned(),
    };
    let facts = if facts.is_empty() { String::new() } else { format!(" {facts}.") };
    format!("{}.{facts}", capitalised(&why))
}

/// What its data does.
fn facts(line: &MetricsLine) -> String {
    let mut parts = needed(line);
    if let Some(reads) = line.number("read_write_ratio").filter(|reads| *reads > 0.0) {
        parts.push(format!("{} bytes are read for each that is written", ratio(reads)));
    }
    if let Some(unread) = line.number("never_read_bytes").filter(|unread| *unread > 0.0) {
        parts.push(format!("{} was never read", bytes(unread as u64)));
    }
    capitalised(&parts.join("; "))
}

/// How long the data is needed: all but a hundredth of it, and half of it where that differs.
fn needed(line: &MetricsLine) -> Vec<String> {
    let (most, half) = (needed_time(line, "p99"), needed_time(line, "p50"));
    let all_but = match most.split_once(' ') {
        Some((">", time)) => format!(
            "to keep all but 1 % of it, memory must hold it for longer than {time}, as far as {} shows",
            run_of_steps(line)
        ),
        Some(("<", _)) => return vec![format!("all but 1 % of it is needed for {}", in_words(&most))],
        Some(_) => format!("all but 1 % of it is needed for at most {most}"),
        None => return Vec::new(),
    };
    let half = (half != NOTHING).then(|| format!("half of it is needed for {}", in_words(&half)));
    [all_but].into_iter().chain(half).collect()
}

/// A lower bound is as long as the run: a longer run may find a longer time.
fn run_of_steps(line: &MetricsLine) -> String {
    match line.number("steps").filter(|steps| *steps > 0.0) {
        Some(steps) => format!("this run of {}", counted(steps as u64, "step")),
        None => "this run".to_owned(),
    }
}

/// How long data is needed at the speed that classes hold at; in this run if it has no steps.
fn needed_time(line: &MetricsLine, quantile: &str) -> String {
    let column = |of: &str, bound: &str| format!("{of}_{quantile}{bound}_s");
    let (needed, needed_low) = (column("needed", ""), column("needed", "_low"));
    match (line.number("suitability_tokens_per_s"), line.number(&needed), line.number(&needed_low)) {
        (Some(tokens_per_s), Some(0.0), _) => format!("< {}", seconds(1.0 / tokens_per_s)),
        (Some(_), None, None) | (None, ..) => time(line, &column("retention", ""), &column("retention", "_low")),
        _ => time(line, &needed, &needed_low),
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

    /// Its title, size, and the number that gave it its class or why it has none.
    fn in_few_words(&self) -> String {
        let why = match (&self.open, self.suitability_title.split_once(": ")) {
            (Some(Open::Recording), _) => None,
            (Some(Open::Ended(decides)), Some((_, reason))) if !decides.is_empty() => {
                Some(format!("{reason}; {decides}"))
            }
            (_, Some((_, reason))) => Some(reason.to_owned()),
            (_, None) => self.deciding.as_ref().map(Deciding::within),
        };
        let size = self.size_bytes.map(|size| bytes(size as u64));
        let known: Vec<String> = size.into_iter().chain(why).collect();
        if known.is_empty() { self.title.to_owned() } else { format!("{} ({})", self.title, known.join(", ")) }
    }
}

/// A time or a bound of it, after "needed for".
fn in_words(time: &str) -> String {
    match time.split_once(' ') {
        Some(("<", time)) => format!("less than {time}"),
        Some((">", time)) => format!("longer than {time}"),
        _ => time.to_owned(),
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

    const BOUND: &str = "To keep all but 1 % of it, memory must hold it for longer than 3.20 s, \
                         as far as this run of 64 steps shows; half of it is needed for longer than 3.20 s.";

    #[test]
    fn a_class_that_the_run_was_too_short_for_says_what_would_decide() {
        let row = row(&weights());
        let why = "the run ended before its data did; a run of 201 steps or more (--max-tokens 201) would decide; at least medium";
        assert_eq!(answer(std::slice::from_ref(&row), None), format!("Not rated: Weights (1.00 KiB, {why})."));
        assert_eq!(row.sentence, format!("Not rated: {why}. {BOUND}"));
        let mut short = weights();
        short.values.insert("needed_p50_low_s".to_owned(), Value::Number(0.5));
        assert!(!super::tests::row(&short).sentence.contains("medium"));
    }

    #[test]
    fn a_bound_of_the_last_hundredth_is_not_said_of_all_the_data() {
        let mut line = weights();
        line.values.insert("needed_p50_s".to_owned(), Value::Number(1.7));
        let row = row(&line);
        assert_eq!(row.required_retention, "> 3.20 s");
        let found = "To keep all but 1 % of it, memory must hold it for longer than 3.20 s, as far as this run of 64 steps \
                     shows; half of it is needed for 1.70 s.";
        assert!(row.sentence.ends_with(found), "{}", row.sentence);
    }

    #[test]
    fn a_row_and_the_answer_state_the_number_that_gave_the_class() {
        let numbers = [
            ("suitability_tokens_per_s", 20.0),
            ("steps", 260.0),
            ("distinct_bytes", 1024.0),
            ("write_once_ratio_mean", 0.287),
            ("kept_low_share", 0.31),
            ("kept_high_share", 0.31),
            ("needed_p50_s", 6.7),
            ("needed_p99_low_s", 13.0),
        ];
        let row = row(&line("kv_cache", &[("suitability", "medium_mrm")], &numbers));
        let why = "31 % of what is stored stays 10 s (high needs 80 %)";
        assert!(row.sentence.starts_with(&format!("Medium: {why}. To keep all but 1 % of it")), "{}", row.sentence);
        assert!(!row.sentence.contains("28.7"), "the write-once ratio decides no class: {}", row.sentence);
        assert_eq!(
            answer(&[row], None),
            "Partly suited to managed-retention memory: KV cache (1.00 KiB, 31 % of what is stored stays 10 s, high needs 80 %)."
        );
    }

    #[test]
    fn while_a_run_is_recorded_it_is_too_early_to_tell() {
        let row = row(&weights()).while_recording();
        assert_eq!(row.suitability_title, TOO_EARLY);
        assert_eq!(row.sentence, format!("Too early to tell: the run is still being recorded. {BOUND}"));
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
