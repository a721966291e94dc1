//! Progress on the terminal: bars where there is one, plain text where there is not.
//!
//! The generated text is streamed to standard error, so that standard output holds results alone.

use std::io::IsTerminal;

use dwell_build::BuildListener;
use dwell_events::engine::EngineEvent;
use dwell_record::RecordListener;
use dwell_report::text::{counted, model_title};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{is_quiet, say};
use crate::text_view::TextView;

/// Shows a run while it goes on.
pub(crate) struct Terminal {
    is_quiet: bool,
    model_name: String,
    tokens_max: u64,
    context_asked: Option<u32>,
    load_bar: Option<ProgressBar>,
    text_view: Option<TextView>,
    build_bar: Option<ProgressBar>,
    has_open_line: bool,
}

/// A bar that counts bytes.
pub(crate) fn byte_bar(what: &'static str, total_bytes: u64) -> ProgressBar {
    bar(what, total_bytes, "{msg:>10} [{wide_bar}] {bytes}/{total_bytes} {eta}")
}

/// A bar that counts things; how many there are is set later.
pub(crate) fn count_bar(what: &'static str) -> ProgressBar {
    bar(what, 0, "{msg:>10} [{wide_bar}] {pos}/{len} {eta}")
}

fn share_bar(what: &'static str) -> ProgressBar {
    bar(what, 1000, "{msg:>10} [{wide_bar}] {percent} %")
}

/// As wide as the terminal: a longer line would wrap, and what wraps is not taken away again.
fn bar(what: &'static str, length: u64, template: &str) -> ProgressBar {
    if is_quiet() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style).with_message(what)
}

impl Terminal {
    /// `is_silent` leaves out everything, for programs that read the result. `model_name` is how the model is called, and
    /// `tokens_max` how many tokens a sequence may get.
    pub(crate) fn new(is_silent: bool, model_name: &str, tokens_max: u64) -> Self {
        Self {
            is_quiet: is_silent || is_quiet(),
            model_name: model_name.to_owned(),
            tokens_max,
            context_asked: None,
            load_bar: None,
            text_view: None,
            build_bar: None,
            has_open_line: false,
        }
    }

    /// The same, which says if the model gets a longer context than this.
    pub(crate) fn asking_for_context(self, context_length: u32) -> Self {
        Self { context_asked: Some(context_length), ..self }
    }

    /// Says how far something is, where there is a bar to say it at.
    pub(crate) fn label(&self, label: String) {
        if let Some(view) = &self.text_view {
            view.set_label(label);
        }
    }

    /// Ends what is still shown.
    pub(crate) fn finish(&mut self) {
        self.load_bar.take().into_iter().chain(self.build_bar.take()).for_each(|bar| bar.finish_and_clear());
        self.end_text();
    }

    fn end_text(&mut self) {
        if let Some(view) = self.text_view.take() {
            view.finish();
        }
        if std::mem::take(&mut self.has_open_line) {
            say(format_args!("\n"));
        }
    }

    fn text(&mut self, sequence: i32, text: &str) {
        // Several sequences at once would be unreadable; the first one stands for all.
        if sequence != 0 {
            return;
        }
        if std::io::stderr().is_terminal() {
            self.text_view.get_or_insert_with(|| TextView::new(self.tokens_max)).push(text);
        } else if !text.is_empty() {
            say(format_args!("{text}"));
            self.has_open_line = true;
        }
    }

    fn loading(&mut self, fraction: f32) {
        if std::io::stderr().is_terminal() {
            let bar = self.load_bar.get_or_insert_with(|| share_bar("loading"));
            bar.set_position((fraction * 1000.0) as u64);
        }
    }

    /// Takes the bar of loading away; what is said while it is shown would leave it on the screen.
    pub(crate) fn end_loading(&mut self) {
        if let Some(bar) = self.load_bar.take() {
            bar.finish_and_clear();
        }
    }

    fn loaded(&mut self, description: &str) {
        self.end_loading();
        say(format_args!("{description}\n"));
    }
}

/// What to say of a context that is longer than was asked for; nothing if it is not.
fn context_note(asked: u32, found: u32) -> Option<String> {
    (found > asked).then(|| {
        format!(
            "a context of {asked} positions was asked for; llama.cpp rounds it up to a multiple of 256, here {found}"
        )
    })
}

impl RecordListener for Terminal {
    fn engine_event(&mut self, event: &EngineEvent) {
        if self.is_quiet {
            return;
        }
        match event {
            EngineEvent::LoadProgress { fraction } => self.loading(*fraction),
            EngineEvent::Loaded { model } => {
                // A server may not say them.
                let some = |count: u32, text: String| if count > 0 { text } else { String::new() };
                let context = some(model.context_length, format!(", context {}", model.context_length));
                let threads = some(model.threads, format!(", {}", counted(model.threads.into(), "thread")));
                self.loaded(&format!("{}{context}{threads}", model_title(&self.model_name, model)));
                if let Some(note) = self.context_asked.and_then(|asked| context_note(asked, model.context_length)) {
                    say(format_args!("note: {note}\n"));
                }
            }
            EngineEvent::Token { sequence, text, .. } => self.text(*sequence, text),
            EngineEvent::PhaseBegins { phase: dwell_events::Phase::Teardown } => self.end_text(),
            _ => {}
        }
    }

    fn interrupted(&mut self) {
        if !self.is_quiet {
            self.finish();
            say(format_args!("interrupted: building a partial run; press Ctrl-C again to exit at once\n"));
        }
    }
}

impl BuildListener for Terminal {
    fn building(&mut self, done: f64) {
        if !self.is_quiet && std::io::stderr().is_terminal() {
            let bar = self.build_bar.get_or_insert_with(|| share_bar("writing"));
            bar.set_position((done * 1000.0) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_that_is_longer_than_asked_for_is_noted() {
        let note = "a context of 8 positions was asked for; llama.cpp rounds it up to a multiple of 256, here 256";
        assert_eq!(context_note(8, 256).as_deref(), Some(note));
        assert_eq!((context_note(256, 256), context_note(4096, 2048)), (None, None));
    }
}
