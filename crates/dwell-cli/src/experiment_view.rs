//! An experiment on the terminal: one bar for all runs, with the time left; a line per run where there is none.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use dwell_experiment::{Estimate, ExperimentListener, RunEnd, RunPlace};
use dwell_report::text::{counted, seconds, visible_in_line, wrapped};
use dwell_report::{Exclusion, ExclusionReason};
use indicatif::{ProgressBar, ProgressStyle};

use crate::messages::print_hints;
use crate::output::{is_quiet, progress_width, say};

/// Shows an experiment while it goes on.
pub(crate) struct ExperimentView {
    is_quiet: bool,
    bar: Option<ProgressBar>,
    pace: Pace,
    run_began_at: Instant,
    /// Reasons for which runs were said not to count: each is said once.
    said_reasons: BTreeSet<ExclusionReason>,
}

/// How fast runs are done, against their estimates.
#[derive(Default)]
struct Pace {
    estimated_s: Vec<f64>,
    /// Of runs that were done now, not before.
    done_estimated_s: f64,
    done_s: f64,
}

impl Pace {
    fn note(&mut self, index: usize, spent: Duration) {
        self.done_estimated_s += self.estimated_s.get(index).copied().unwrap_or(0.0);
        self.done_s += spent.as_secs_f64();
    }

    /// Time that the runs from here on take: as estimated, corrected by how long those before took.
    fn left_s(&self, next_index: usize) -> f64 {
        let estimated: f64 = self.estimated_s.iter().skip(next_index).sum();
        if self.done_estimated_s > 0.0 { estimated * self.done_s / self.done_estimated_s } else { estimated }
    }
}

impl ExperimentView {
    /// `is_silent` leaves out everything, for programs that read the result.
    pub(crate) fn new(is_silent: bool) -> Self {
        Self {
            is_quiet: is_silent || is_quiet(),
            bar: None,
            pace: Pace::default(),
            run_began_at: Instant::now(),
            said_reasons: BTreeSet::new(),
        }
    }

    /// Ends what is still shown.
    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// A line that stays, above the bar if there is one.
    fn line(&self, text: &str) {
        let text = progress_width().map_or_else(|| text.to_owned(), |width_chars| indented(text, width_chars));
        match &self.bar {
            Some(bar) => bar.suspend(|| say(format_args!("{text}\n"))),
            None => say(format_args!("{text}\n")),
        }
    }
}

/// The text in lines that fit, cut between words.
fn indented(text: &str, width_chars: usize) -> String {
    const INDENT: &str = "  ";
    match text.chars().count() <= width_chars {
        true => text.to_owned(),
        false => wrapped(text, width_chars.saturating_sub(INDENT.len()).max(1)).join(&format!("\n{INDENT}")),
    }
}

fn overall_bar(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{pos:>6}/{len} [{bar:20}] {wide_msg}");
    let bar = ProgressBar::new(runs as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

impl ExperimentListener for ExperimentView {
    fn experiment_begins(&mut self, id: &str, estimate: &Estimate) {
        self.pace.estimated_s = estimate.run_s.clone();
        if self.is_quiet {
            return;
        }
        let runs = counted(estimate.run_s.len() as u64, "run");
        self.line(&format!("experiment {id}, {runs}, about {}", seconds(estimate.total_s())));
        if std::io::stderr().is_terminal() {
            self.bar = Some(overall_bar(estimate.run_s.len()));
        }
    }

    fn run_begins(&mut self, place: RunPlace<'_>) {
        self.run_began_at = Instant::now();
        if let Some(bar) = &self.bar {
            bar.set_position(place.index as u64);
            let left = seconds(self.pace.left_s(place.index));
            let message = format!("{left} left  {} {}", place.model_id, place.run.name());
            bar.set_message(visible_in_line(&message).into_owned());
        }
    }

    fn run_ends(&mut self, place: RunPlace<'_>, end: &RunEnd) {
        let spent = self.run_began_at.elapsed();
        if !matches!(end, RunEnd::AlreadyFinished { .. }) {
            self.pace.note(place.index, spent);
        }
        if self.is_quiet {
            return;
        }
        let said = match end {
            RunEnd::AlreadyFinished { .. } => "done before".to_owned(),
            RunEnd::Complete { validity } => format!("complete, {}, {}", validity.name(), seconds(spent.as_secs_f64())),
            RunEnd::Partial => format!("partial, {}", seconds(spent.as_secs_f64())),
            RunEnd::Failed { message, .. } => format!("failed: {message}"),
        };
        let (number, planned) = (place.index + 1, place.planned);
        self.line(&format!("[{number}/{planned}] {} {}  {said}", place.model_id, place.run.name()));
        if let RunEnd::Failed { hints, .. } = end {
            print_hints(hints);
        }
    }

    fn run_is_excluded(&mut self, place: RunPlace<'_>, exclusion: &Exclusion) {
        if self.is_quiet || !self.said_reasons.insert(exclusion.reason) {
            return;
        }
        self.line(&exclusion_text(place.planned, exclusion));
    }
}

/// What is said of the first run that is excluded for a reason, while there is time to do something about it.
fn exclusion_text(planned: usize, Exclusion { reason, detail, .. }: &Exclusion) -> String {
    let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
    let others = if planned > 1 { "; others with this reason are counted at the end" } else { "" };
    format!("warning: this run does not count: {}{detail}{others}", reason.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_cut_between_words() {
        let text = "[1/12] tiny ctx256_batch1_out220_q8_0_fa-on_t2_rep1  complete, contaminated, 1.23 s";
        assert_eq!(indented(text, 100), text);
        let narrow = indented(text, 72);
        assert!(narrow.lines().all(|line| line.chars().count() <= 72), "{narrow}");
        assert_eq!(narrow.lines().last(), Some("  contaminated, 1.23 s"), "{narrow}");
    }

    #[test]
    fn the_time_left_follows_how_long_runs_really_take() {
        let mut pace = Pace { estimated_s: vec![1.0, 1.0, 2.0], ..Pace::default() };
        assert_eq!(pace.left_s(0), 4.0);
        pace.note(0, Duration::from_secs(3));
        assert_eq!(pace.left_s(1), 9.0);
        assert_eq!(pace.left_s(3), 0.0);
    }
}
