//! A capture on the terminal while it goes on.

use std::time::{Duration, Instant};

use dwell_capture::{CaptureCounts, CaptureEvent};
use dwell_record::{CaptureListener, RecordListener};
use dwell_report::text::{bytes, count, counted};

use crate::output::{is_quiet, say};
use crate::terminal::Terminal;

/// Before this a rate is chance.
const LEAST_RATED: Duration = Duration::from_millis(200);

/// Shows the generated text, and how much was captured.
pub(crate) struct CaptureView {
    terminal: Terminal,
    is_quiet: bool,
    begun_at: Instant,
}

impl CaptureView {
    /// `is_silent` leaves out everything, for programs that read the result.
    pub(crate) fn new(is_silent: bool, model_name: &str, tokens_max: u64) -> Self {
        let terminal = Terminal::new(is_silent, model_name, tokens_max);
        Self { terminal, is_quiet: is_silent || is_quiet(), begun_at: Instant::now() }
    }

    /// Ends what is still shown.
    pub(crate) fn finish(&mut self) {
        self.terminal.finish();
    }

    fn begun(&mut self, tensors: usize, unstorable: &[String], resumed_packets: u64) {
        self.begun_at = Instant::now();
        if self.is_quiet {
            return;
        }
        self.terminal.end_loading();
        say(format_args!("capturing {}\n", counted(tensors as u64, "tensor")));
        if let Some(first) = unstorable.first() {
            let number = counted(unstorable.len() as u64, "tensor");
            say(format_args!("note: {number} cannot be stored element by element, such as {first}\n"));
        }
        if resumed_packets > 0 {
            say(format_args!("resuming after {}; recomputing them first\n", counted(resumed_packets, "packet")));
        }
    }

    fn label(&self, counts: &CaptureCounts) -> String {
        let elapsed = self.begun_at.elapsed();
        let mut label = format!("{}, {}", counted(counts.packets, "packet"), bytes(counts.raw_bytes));
        if elapsed >= LEAST_RATED {
            let rate = counts.raw_bytes as f64 / elapsed.as_secs_f64();
            label.push_str(&format!(", {}/s", bytes(rate as u64)));
        }
        if counts.dropped_packets > 0 {
            label.push_str(&format!(", {} dropped", count(counts.dropped_packets)));
        }
        label
    }
}

impl CaptureListener for CaptureView {
    fn event(&mut self, event: &CaptureEvent) {
        match event {
            CaptureEvent::Engine { event } => self.terminal.engine_event(event),
            CaptureEvent::Begun { tensors, unstorable, resumed_packets, .. } => {
                self.begun(tensors.len(), unstorable, *resumed_packets);
            }
            CaptureEvent::Progress { counts } => self.terminal.label(self.label(counts)),
            CaptureEvent::Graph { .. } | CaptureEvent::Ended { .. } => {}
        }
    }

    fn interrupted(&mut self) {
        if !self.is_quiet {
            self.finish();
            say(format_args!("interrupted: closing the stream; press Ctrl-C again to exit at once\n"));
        }
    }
}
