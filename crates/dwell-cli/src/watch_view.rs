//! A watch while it goes on: one line that changes on a terminal, a line per second where there is none.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use dwell_report::text::{bytes, counted, growth_text, or_dash, seconds};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{is_quiet, say};
use crate::watch_record::WatchRecord;

/// Time between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
/// Time that the growth is taken over.
const GROWTH_SECS: f64 = 10.0;
/// Time that the curve shows, and its least and greatest width.
const CURVE_SECS: f64 = 30.0;
const CURVE_CHARS: std::ops::RangeInclusive<usize> = 8..=60;
/// Width that is taken where the terminal does not say its own.
const DEFAULT_WIDTH: usize = 80;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Shows a watch.
pub(crate) struct WatchView {
    is_shown: bool,
    bar: Option<ProgressBar>,
    line_due_at: Instant,
}

impl WatchView {
    pub(crate) fn new(is_shown: bool) -> Self {
        let is_shown = is_shown && !is_quiet();
        let bar = (is_shown && std::io::stderr().is_terminal()).then(line_bar);
        Self { is_shown, bar, line_due_at: Instant::now() }
    }

    /// Shows how far it is.
    pub(crate) fn show(&mut self, record: &WatchRecord) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(message(record));
                bar.tick();
            }
            None if self.is_shown && Instant::now() >= self.line_due_at => {
                self.line_due_at = Instant::now() + LINE_INTERVAL;
                say(format_args!("{:>8}  {}\n", seconds(record.last_s), line(record)));
            }
            None => {}
        }
    }

    /// Ends what is still shown.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// The present state, and a curve before it where the terminal has room for one.
fn message(record: &WatchRecord) -> String {
    let line = line(record);
    let width =
        terminal_size::terminal_size_of(std::io::stderr()).map_or(DEFAULT_WIDTH, |(columns, _)| columns.0.into());
    let room = width.saturating_sub(line.chars().count() + 2).min(*CURVE_CHARS.end());
    match room >= *CURVE_CHARS.start() {
        true => format!("{} {line}", curve(&record.trails[0].last_values(CURVE_SECS, room))),
        false => line,
    }
}

fn line_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style)
}

/// The present state in one line.
fn line(record: &WatchRecord) -> String {
    let [rss, pss, ..] = &record.trails;
    let cpu_pct = record.last_total.as_ref().and_then(|row| row.cpu_pct);
    [
        format!("rss {}", or_dash(rss.last_bytes, bytes)),
        format!("pss {}", or_dash(pss.last_bytes, bytes)),
        format!("rss peak {}", or_dash(rss.peak_bytes, bytes)),
        or_dash(rss.growth_over_last(GROWTH_SECS), growth_text),
        counted(record.living, "process"),
        format!("cpu {}", or_dash(cpu_pct, |cpu_pct| format!("{cpu_pct:.0} %"))),
    ]
    .join("  ")
}

/// Values as bars between the least and the greatest.
fn curve(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let range = values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    let level = |value: &f64| match range > 0.0 {
        true => LEVELS[((value - least) / range * (LEVELS.len() - 1) as f64).round() as usize],
        false => LEVELS[0],
    };
    values.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_goes_from_the_least_to_the_greatest() {
        assert_eq!(curve(&[10.0, 17.0, 13.0]), "▁█▄");
        assert_eq!((curve(&[5.0, 5.0]), curve(&[])), ("▁▁".to_owned(), String::new()));
    }
}
