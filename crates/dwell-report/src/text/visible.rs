//! Text that comes from outside: names of folders, models, tensors and processes, generated text, values of files. What a
//! terminal would obey is made visible instead.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with what a terminal would obey written as `\u{1b}`: control characters, and characters that turn the direction
/// of writing around. Line breaks and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| is_obeyed(letter) && !matches!(letter, '\n' | '\t'))
}

/// The same of text that is part of a line.
pub fn visible_in_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_obeyed)
}

fn is_obeyed(letter: char) -> bool {
    let turns =
        matches!(letter, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks_lines = matches!(letter, '\u{2028}' | '\u{2029}');
    letter.is_control() || turns || breaks_lines
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_escaped(letter) {
            // A String takes whatever is written to it.
            true => drop(write!(escaped, "\\u{{{:x}}}", u32::from(letter))),
            false => escaped.push(letter),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let title = "a\u{1b}]0;OWNED\u{7}\u{9b}2Jb\r";
        assert_eq!(visible(title), r"a\u{1b}]0;OWNED\u{7}\u{9b}2Jb\u{d}");
        assert_eq!(visible("\u{202e}gpj.exe\u{2066}\u{200f}"), r"\u{202e}gpj.exe\u{2066}\u{200f}");
        assert_eq!(visible("one\n\ttwo"), "one\n\ttwo");
        assert_eq!(visible_in_line("one\n\ttwo"), r"one\u{a}\u{9}two");
    }

    #[test]
    fn all_other_text_stays_as_it_is() {
        for text in ["", "überlänge – ▁█▄ 语言 עברית", "C:\\u{1b}"] {
            assert!(matches!(visible_in_line(text), Cow::Borrowed(same) if same == text));
        }
    }
}
