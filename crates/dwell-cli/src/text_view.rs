//! Generated text on a terminal, with a bar below it that counts the tokens.
//!
//! A bar redraws its own lines, so text cannot simply be printed beside it: whole lines go above the bar, and the line
//! that is still growing is the first line of the bar itself.

use std::fmt::Write;

use dwell_report::text::visible;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// Width that is taken where the terminal does not say its own.
const DEFAULT_WIDTH: usize = 80;

/// Text that grows, above a bar.
pub(crate) struct TextView {
    bar: ProgressBar,
    line: String,
    width: usize,
}

impl TextView {
    /// A view for at most this many tokens.
    pub(crate) fn new(tokens_max: u64) -> Self {
        let style = ProgressStyle::with_template("{msg}\n{prefix:>10} [{wide_bar}] {pos}/{len} tokens{rate}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("rate", write_rate);
        let bar = ProgressBar::new(tokens_max).with_style(style).with_prefix("generating");
        let width = terminal_size::terminal_size_of(std::io::stderr());
        let width = width.map_or(DEFAULT_WIDTH, |(columns, _)| columns.0.into());
        Self { bar, line: String::new(), width: width.saturating_sub(1).max(1) }
    }

    /// Adds the text of one token.
    pub(crate) fn push(&mut self, text: &str) {
        self.line.push_str(&visible(text));
        while let Some(line) = take_line(&mut self.line, self.width) {
            self.bar.println(line);
        }
        self.bar.set_message(self.line.clone());
        self.bar.inc(1);
    }

    /// Says in front of the bar how far something is.
    pub(crate) fn set_label(&self, label: String) {
        self.bar.set_prefix(label);
    }

    /// Leaves the text and takes the bar away.
    pub(crate) fn finish(self) {
        if !self.line.is_empty() {
            self.bar.println(&self.line);
        }
        self.bar.finish_and_clear();
    }
}

/// The rate, once there is one.
fn write_rate(state: &ProgressState, text: &mut dyn Write) {
    // A terminal takes any text.
    let _ = match state.per_sec() {
        rate if rate > 0.0 && state.pos() > 1 => write!(text, ", {rate:.1} tokens/s"),
        _ => Ok(()),
    };
}

/// Takes the first line off a text: up to a line break, or, if the text is too wide, up to the last blank that fits.
fn take_line(text: &mut String, width: usize) -> Option<String> {
    let line_break = text.find('\n');
    if let Some(at) = line_break.filter(|&at| text[..at].chars().count() <= width) {
        let rest = text.split_off(at + 1);
        let mut line = std::mem::replace(text, rest);
        line.pop();
        return Some(line);
    }
    let end = text.char_indices().nth(width).map(|(at, _)| at)?;
    let cut = text[..end].rfind(' ').map_or(end, |blank| blank + 1);
    let rest = text.split_off(cut);
    Some(std::mem::replace(text, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, width: usize) -> (Vec<String>, String) {
        let mut rest = text.to_owned();
        let lines = std::iter::from_fn(|| take_line(&mut rest, width)).collect();
        (lines, rest)
    }

    #[test]
    fn lines_end_at_breaks_and_at_the_last_blank_that_fits() {
        assert_eq!(lines("one two three", 8), (vec!["one two ".to_owned()], "three".to_owned()));
        assert_eq!(lines("one\ntwo", 8), (vec!["one".to_owned()], "two".to_owned()));
        assert_eq!(lines("überlänge", 4), (vec!["über".to_owned(), "läng".to_owned()], "e".to_owned()));
        assert_eq!(lines("", 8), (vec![], String::new()));
    }
}
