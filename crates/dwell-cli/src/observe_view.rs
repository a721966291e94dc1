//! An observation while it goes on: lines that are redrawn on a terminal, appended where there is none.

use std::io::IsTerminal;

use dwell_observe::Line;
use dwell_report::text::observation_text;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{is_quiet, progress_width, say};

/// Shows the last interval.
pub(crate) struct ObserveView {
    is_shown: bool,
    screen: Option<ProgressBar>,
}

impl ObserveView {
    pub(crate) fn new(is_shown: bool) -> Self {
        let is_shown = is_shown && !is_quiet();
        let screen = (is_shown && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::new_spinner().with_style(style)
        });
        Self { is_shown, screen }
    }

    pub(crate) fn show(&self, line: &Line) {
        let text = observation_text(line);
        match &self.screen {
            Some(screen) => {
                // What wraps is not taken away again.
                let width = progress_width().unwrap_or(usize::MAX).saturating_sub(1);
                let cut: Vec<String> = text.lines().map(|line| line.chars().take(width).collect()).collect();
                screen.set_message(cut.join("\n"));
                screen.tick();
            }
            None if self.is_shown => say(format_args!("{text}")),
            None => {}
        }
    }

    /// Leaves the last interval where it is.
    pub(crate) fn finish(self) {
        if let Some(screen) = self.screen {
            screen.abandon();
        }
    }
}
