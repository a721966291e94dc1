//! What the memory of a run does, by region type, for people: what moves, how long data is needed, what could hold it.

use dwell_analysis::label_of;

use super::format::{percent, percent_between};
use super::wrap::wrapped;
use super::{Fit, bytes, count, or_dash, ratio, seconds, table_within};
use crate::numbers::three_digits;
use crate::{RegionSummary, RegionsSummary};

/// Widest lines where nobody says how wide the terminal is.
pub const DEFAULT_WIDTH_CHARS: usize = 80;

/// Two tables, each as wide as fits: what moves, and how long data is needed.
pub fn region_tables(summary: &RegionsSummary, width_chars: usize) -> String {
    let mut text = fitting(traffic_columns(summary), &summary.regions, width_chars);
    text.push('\n');
    let columns = if summary.is_by_lives() { life_columns(summary) } else { history_columns(summary) };
    let lives = fitting(columns, &summary.regions, width_chars);
    text.push_str(&lives);
    for note in notes(summary, lives.lines().next().unwrap_or_default()) {
        wrapped(&note, width_chars).iter().for_each(|line| text.push_str(&format!("{line}\n")));
    }
    text
}

/// One column of a table.
struct Shown<'a> {
    name: &'static str,
    cell: Box<dyn Fn(&RegionSummary) -> String + 'a>,
    /// Where the table would be too wide, the columns with the highest rank are left out first; those of rank 0 stay.
    rank: u8,
}

fn shown<'a>(name: &'static str, cell: impl Fn(&RegionSummary) -> String + 'a) -> Shown<'a> {
    Shown { name, cell: Box::new(cell), rank: 0 }
}

fn extra<'a>(rank: u8, name: &'static str, cell: impl Fn(&RegionSummary) -> String + 'a) -> Shown<'a> {
    Shown { rank, ..shown(name, cell) }
}

/// The table with as many of the extra columns as fit, those of low rank first. Columns that say nothing are left out.
fn fitting(columns: Vec<Shown<'_>>, regions: &[RegionSummary], width_chars: usize) -> String {
    let says_something =
        |column: &Shown<'_>| regions.iter().any(|region| !["", "–"].contains(&&*(column.cell)(region)));
    let columns: Vec<Shown<'_>> = columns.into_iter().filter(says_something).collect();
    let header = columns.iter().map(|column| column.name.to_owned()).collect();
    let line = |region| columns.iter().map(|column| (column.cell)(region)).collect();
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(regions.iter().map(line)).collect();
    let mut extras: Vec<&Shown<'_>> = columns.iter().filter(|column| column.rank > 0).collect();
    extras.sort_by_key(|column| std::cmp::Reverse(column.rank));
    table_within(&lines, width_chars, &extras.iter().map(|column| Fit::LeaveOut(column.name)).collect::<Vec<_>>())
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
            columns.push(extra(1, label_of("read_write_ratio"), |region| or_dash(region.read_write_ratio, ratio)));
            columns.push(extra(2, label_of("bytes_read"), read_total));
            columns.push(extra(3, label_of("bytes_written"), written_total));
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
    let needed_p50 = move |region: &RegionSummary| at_speed(summary, region.needed_p50_s, region.needed_p50_low_s);
    let needed_p99 = move |region: &RegionSummary| match summary.has_steps() {
        true => at_speed(summary, region.needed_p99_s, region.needed_p99_low_s),
        false => time(summary, region.retention_p99_s, region.retention_p99_low_s),
    };
    columns.push(extra(2, label_of("needed_p50_s"), needed_p50));
    columns.push(shown(label_of("needed_p99_s"), needed_p99));
    let p99_steps = |region: &RegionSummary| steps(region.retention_p99_steps, region.retention_p99_low_steps);
    columns.push(shown(label_of("retention_p99_steps"), p99_steps));
    if summary.has_steps() {
        let in_this_run =
            move |region: &RegionSummary| time(summary, region.retention_p99_s, region.retention_p99_low_s);
        columns.push(extra(3, label_of("retention_p99_s"), in_this_run));
    }
    let stays = move |region: &RegionSummary| match summary.has_steps() {
        true => at_speed(summary, region.stays_p50_s, region.stays_p50_low_s),
        false => time(summary, region.residency_p50_s, region.residency_p50_low_s),
    };
    columns.push(shown(label_of("stays_p50_s"), stays));
    columns.push(shown(label_of("censored_share"), |region| or_dash(region.censored_share, percent)));
    columns.push(extra(1, label_of("never_read_share"), |region| or_dash(region.never_read_share, percent)));
    let kept = |region: &RegionSummary| or_dash(region.kept_low_share.zip(region.kept_high_share), percent_between);
    columns.push(shown(label_of("kept_low_share"), kept));
    columns.push(shown(label_of("suitability"), |region| region.suitability.to_owned()));
    columns.push(extra(4, "because", |region| region.not_rated_reason.unwrap_or("").replace('_', " ")));
    columns
}

/// The same by the definitions of mrm-trace: one time for each region, from its first store to its last load.
fn history_columns(summary: &RegionsSummary) -> Vec<Shown<'_>> {
    let once = |region: &RegionSummary| or_dash(region.write_once_ratio, |share| format!("{share:.3}"));
    vec![
        shown("region", |region: &RegionSummary| region.region_type.clone()),
        shown("retention p50", move |region| time(summary, region.retention_p50_s, region.retention_p50_low_s)),
        shown("retention p99", move |region| time(summary, region.retention_p99_s, region.retention_p99_low_s)),
        shown(label_of("write_once_ratio_mean"), once),
        shown(label_of("suitability"), |region| region.suitability.to_owned()),
    ]
}

/// A time at the speed that classes hold at, which consists of whole steps; in this run if it has no steps.
fn at_speed(summary: &RegionsSummary, value: Option<f64>, low: Option<f64>) -> String {
    match (summary.rated_at_tokens_per_s, value) {
        (Some(tokens_per_s), Some(0.0)) => format!("< {}", seconds(1.0 / tokens_per_s)),
        _ => time(summary, value, low),
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
    match (value, low, summary.time_resolution_s.filter(|resolution_s| *resolution_s > 0.0)) {
        (Some(0.0), _, Some(resolution_s)) => format!("< {}", seconds(resolution_s)),
        (Some(value), _, _) => seconds(value),
        // That it is at least nothing says nothing.
        (None, low, _) => or_dash(low.filter(|low| *low > 0.0), |low| format!("> {}", seconds(low))),
    }
}

/// What the columns of the second table mean, and how sure they are.
fn notes(summary: &RegionsSummary, header: &str) -> Vec<String> {
    let observed = format!("observed over {}, definitions of {}", observed(summary), summary.definitions);
    if let Some(counts) = &summary.window_counts {
        let why = format!("timestamps count {}: nothing is given in seconds, and no memory is rated", counts.unit);
        return vec![observed, why];
    }
    if !summary.is_by_lives() {
        return vec![observed, history_explained(summary)];
    }
    let mut notes = vec![format!("{observed}; each access counts its bytes once")];
    notes.push(columns_explained(summary, header));
    notes.push(class_explained(summary));
    let names = |is_meant: &dyn Fn(&RegionSummary) -> bool| {
        let meant = summary.regions.iter().filter(|region| is_meant(region));
        meant.map(|region| region.region_type.as_str()).collect::<Vec<_>>().join(", ")
    };
    let unbounded = names(&|region| region.needed_p99_s.is_none() && region.needed_p99_low_s == Some(0.0));
    if !unbounded.is_empty() {
        notes.push(format!("–: more than 1 % of the lives were open, so p99 has no bound: {unbounded}"));
    }
    let undecided = names(&|region| region.is_window_limited);
    if !undecided.is_empty() {
        notes.push(format!("not rated, because the run ended first: {undecided}; {}", summary.how_to_decide()));
    }
    notes
}

fn columns_explained(summary: &RegionsSummary, header: &str) -> String {
    let unread = if header.contains("unread") { "unread: never loaded; " } else { "" };
    format!(
        "{}: needed: store to last load before the next store; stays: store to overwriting or eviction; \
         kept: share of what is stored that stays {}; open: lives that had not ended; {unread}>: at least, as far as the run shows",
        match summary.rated_at_tokens_per_s {
            Some(tokens_per_s) => format!("times at {} tokens/s (--at-tokens-per-sec)", three_digits(tokens_per_s)),
            None => "times of this run".to_owned(),
        },
        seconds(summary.thresholds.high_retention_s),
    )
}

/// The rule of the classes, by the columns of the table.
fn class_explained(summary: &RegionsSummary) -> String {
    let thresholds = &summary.thresholds;
    let (high, medium) = (seconds(thresholds.high_retention_s), seconds(thresholds.medium_retention_s));
    let medium_stays = match thresholds.medium_write_once {
        0.5 => format!("stays p50 ≥ {medium}"),
        share => format!("{:.0} % stays {medium}", share * 100.0),
    };
    format!(
        "suitability for managed-retention memory (MRM): high if kept ≥ {:.0} % and needed p99 ≥ {high}, \
         medium if {medium_stays} and needed p50 ≥ {medium}",
        thresholds.high_write_once * 100.0,
    )
}

/// What the columns mean by the definitions of mrm-trace.
fn history_explained(summary: &RegionsSummary) -> String {
    let thresholds = &summary.thresholds;
    format!(
        "retention: first store to last load of a region, in this run, over regions; once: share of a region's addresses that \
         were stored once, mean over regions; suitability: high if once ≥ {} and retention p99 ≥ {}, medium if once ≥ {} and \
         retention p50 ≥ {}",
        thresholds.high_write_once,
        seconds(thresholds.high_retention_s),
        thresholds.medium_write_once,
        seconds(thresholds.medium_retention_s),
    )
}

/// Over what accesses were seen: a time, or as many as timestamps count.
pub(super) fn window(summary: &RegionsSummary) -> String {
    match &summary.window_counts {
        Some(counts) => format!("{} {}", count(counts.number), counts.unit),
        None => seconds(summary.window_s.unwrap_or(0.0)),
    }
}

fn observed(summary: &RegionsSummary) -> String {
    let window = window(summary);
    if summary.has_steps() { format!("{window}, {} steps", count(summary.steps)) } else { window }
}
