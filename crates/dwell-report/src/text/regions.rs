//! What the memory of a run does, by region type, for people: what moves, how long data is needed, what could hold it.

use dwell_analysis::label_of;

use super::format::percent;
use super::wrap::wrapped;
use super::{Fit, bytes, count, or_dash, ratio, seconds, table_within};
use crate::{RegionSummary, RegionsSummary};

/// Widest lines where nobody says how wide the terminal is.
pub const DEFAULT_WIDTH_CHARS: usize = 80;

/// What labels say, of which not every word does.
pub(super) const LABELS_EXPLAINED: &str = "stays: store to overwriting or eviction, in this run; \
     open: lives that had not ended; unread: never loaded; once: stored once; >: at least, as far as the run shows";

/// Two tables, each as wide as fits: what moves, and how long data is needed.
pub fn region_tables(summary: &RegionsSummary, width_chars: usize) -> String {
    let mut text = fitting(traffic_columns(summary), &summary.regions, width_chars);
    text.push('\n');
    text.push_str(&fitting(life_columns(summary), &summary.regions, width_chars));
    for note in notes(summary) {
        wrapped(&note, width_chars).iter().for_each(|line| text.push_str(&format!("{line}\n")));
    }
    text
}

/// One column of a table.
struct Shown<'a> {
    name: &'static str,
    cell: Box<dyn Fn(&RegionSummary) -> String + 'a>,
    /// It is left out where the table would be too wide.
    is_extra: bool,
}

fn shown<'a>(name: &'static str, cell: impl Fn(&RegionSummary) -> String + 'a) -> Shown<'a> {
    Shown { name, cell: Box::new(cell), is_extra: false }
}

fn extra<'a>(name: &'static str, cell: impl Fn(&RegionSummary) -> String + 'a) -> Shown<'a> {
    Shown { is_extra: true, ..shown(name, cell) }
}

/// The table with as many of the extra columns as fit, the first of them first. Columns that say nothing are left out.
fn fitting(columns: Vec<Shown<'_>>, regions: &[RegionSummary], width_chars: usize) -> String {
    let says_something =
        |column: &Shown<'_>| regions.iter().any(|region| !["", "–"].contains(&&*(column.cell)(region)));
    let columns: Vec<Shown<'_>> = columns.into_iter().filter(says_something).collect();
    let header = columns.iter().map(|column| column.name.to_owned()).collect();
    let line = |region| columns.iter().map(|column| (column.cell)(region)).collect();
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(regions.iter().map(line)).collect();
    let extras = columns.iter().rev().filter(|column| column.is_extra);
    table_within(&lines, width_chars, &extras.map(|column| Fit::LeaveOut(column.name)).collect::<Vec<_>>())
}

/// What is loaded and stored: by token and second while decoding, where that is known.
fn traffic_columns(summary: &RegionsSummary) -> Vec<Shown<'_>> {
    let mut columns = vec![
        shown("region", |region: &RegionSummary| region.region_type.clone()),
        shown(label_of("distinct_bytes"), |region| bytes(region.size_bytes)),
    ];
    let read_total = |region: &RegionSummary| or_dash(region.bytes_read, bytes);
    let written_total = |region: &RegionSummary| or_dash(region.bytes_written, bytes);
    match summary.decoding {
        Some(decoding) => {
            let by_token =
                move |total: Option<u64>| or_dash(total, |total| bytes((total as f64 / decoding.tokens) as u64));
            let by_second = move |total: Option<u64>| {
                or_dash(total, |total| format!("{}/s", bytes((total as f64 / decoding.seconds) as u64)))
            };
            columns.push(shown("read/token", move |region| by_token(region.decode_bytes_read)));
            columns.push(shown("written/token", move |region| by_token(region.decode_bytes_written)));
            columns.push(shown("read", move |region| by_second(region.decode_bytes_read)));
            columns.push(shown("written", move |region| by_second(region.decode_bytes_written)));
            columns.push(extra(label_of("read_write_ratio"), |region| or_dash(region.read_write_ratio, ratio)));
            columns.push(extra(label_of("bytes_read"), read_total));
            columns.push(extra(label_of("bytes_written"), written_total));
        }
        None => {
            columns.push(shown(label_of("bytes_read"), read_total));
            columns.push(shown(label_of("bytes_written"), written_total));
            columns.push(shown(label_of("read_write_ratio"), |region| or_dash(region.read_write_ratio, ratio)));
        }
    }
    columns
}

/// How long data is needed and stays, and what could hold it.
fn life_columns(summary: &RegionsSummary) -> Vec<Shown<'_>> {
    let mut columns = vec![shown("region", |region: &RegionSummary| region.region_type.clone())];
    columns.push(shown(label_of("needed_p99_s"), move |region| needed(summary, region)));
    let p99_steps = |region: &RegionSummary| steps(region.retention_p99_steps, region.retention_p99_low_steps);
    columns.push(shown(label_of("retention_p99_steps"), p99_steps));
    if summary.has_steps() {
        let in_this_run =
            move |region: &RegionSummary| time(summary, region.retention_p99_s, region.retention_p99_low_s);
        columns.push(extra(label_of("retention_p99_s"), in_this_run));
    }
    let stays = move |region: &RegionSummary| time(summary, region.residency_p50_s, region.residency_p50_low_s);
    columns.push(shown(label_of("residency_p50_s"), stays));
    columns.push(shown(label_of("censored_share"), |region| or_dash(region.censored_share, percent)));
    columns.push(shown(label_of("never_read_share"), |region| or_dash(region.never_read_share, percent)));
    let once = |region: &RegionSummary| or_dash(region.write_once_ratio, |share| format!("{share:.3}"));
    columns.push(shown(label_of("write_once_ratio_mean"), once));
    columns.push(shown(label_of("suitability"), |region| region.suitability.to_owned()));
    columns.push(extra("because", |region| region.not_rated_reason.unwrap_or("").replace('_', " ")));
    columns
}

/// How long data is needed at the speed that classes hold at; in this run if it has no steps.
fn needed(summary: &RegionsSummary, region: &RegionSummary) -> String {
    match (summary.rated_at_tokens_per_s, region.needed_p99_s) {
        (Some(tokens_per_s), Some(0.0)) => format!("< {}", seconds(1.0 / tokens_per_s)),
        (Some(_), value) => time(summary, value, region.needed_p99_low_s),
        (None, _) => time(summary, region.retention_p99_s, region.retention_p99_low_s),
    }
}

/// A number of steps, or a bound of it.
fn steps(value: Option<f64>, low: Option<f64>) -> String {
    let text = |steps: f64| count(steps as u64);
    match (value, low) {
        (Some(0.0), _) => "< 1".to_owned(),
        (Some(value), _) => text(value),
        // That it is at least nothing says nothing.
        (None, low) => or_dash(low.filter(|low| *low > 0.0), |low| format!("> {}", text(low))),
    }
}

/// A time, or a bound of it: what the trace is too short or too coarse for.
fn time(summary: &RegionsSummary, value: Option<f64>, low: Option<f64>) -> String {
    match (value, low) {
        (Some(0.0), _) if summary.time_resolution_s > 0.0 => format!("< {}", seconds(summary.time_resolution_s)),
        (Some(value), _) => seconds(value),
        // That it is at least nothing says nothing.
        (None, low) => or_dash(low.filter(|low| *low > 0.0), |low| format!("> {}", seconds(low))),
    }
}

/// What the columns mean, and how sure they are.
fn notes(summary: &RegionsSummary) -> Vec<String> {
    let observed = format!("observed over {}, definitions of {}", observed(summary), summary.definitions);
    if !summary.is_by_lives() {
        return vec![observed];
    }
    let mut notes = vec![format!("{observed}; each access counts its bytes once")];
    let at_speed = summary.rated_at_tokens_per_s.map_or_else(String::new, |tokens_per_s| {
        format!(", at {} tokens/s (--at-tokens-per-sec)", crate::numbers::three_digits(tokens_per_s))
    });
    notes.push(format!("needed: store to last load before the next store{at_speed}; {LABELS_EXPLAINED}"));
    let thresholds = &summary.thresholds;
    let (high, medium) = (seconds(thresholds.high_retention_s), seconds(thresholds.medium_retention_s));
    notes.push(format!(
        "suitability for managed-retention memory (MRM): high if {:.0} % of what is stored stays {high} and p99 is needed {high}, \
         medium if {:.0} % stays {medium} and p50 is needed {medium}",
        thresholds.high_write_once * 100.0,
        thresholds.medium_write_once * 100.0
    ));
    let undecided: Vec<&str> = summary
        .regions
        .iter()
        .filter(|region| region.is_window_limited)
        .map(|region| region.region_type.as_str())
        .collect();
    if !undecided.is_empty() {
        notes.push(format!(
            "not rated, because the run ended first: {}; {} would decide",
            undecided.join(", "),
            summary.decided_by()
        ));
    }
    notes
}

fn observed(summary: &RegionsSummary) -> String {
    let window = seconds(summary.window_s);
    if summary.has_steps() { format!("{window}, {} steps", count(summary.steps)) } else { window }
}
