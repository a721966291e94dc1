//! Which part of what a program writes is the model's text.

/// What a program for texts writes after a text.
const END: &str = "\n\n";
/// What it writes before that if the model ended the text.
const END_OF_TEXT: &str = " [end of text]\n";
/// What a chat program writes before the message that it was given.
const ECHO: &str = "\n> ";
/// What it writes in place of the rest of a long message.
const ECHO_CUT: &str = " ... (truncated)\n";
/// What it writes after an answer: how fast it was, or a good-bye.
const CHAT_ENDS: [&str; 2] = ["\n[ Prompt: ", "\nExiting..."];

/// Takes the model's text out of what a program writes, and keeps back what may be the end.
pub(super) struct Frame {
    kind: Kind,
    held: String,
    is_over: bool,
    is_whole: bool,
}

enum Kind {
    /// The text alone, and its end.
    Text,
    /// A greeting, the message, the answer, and its end.
    Chat {
        /// The message, until it has come.
        echo: Option<String>,
    },
}

impl Frame {
    /// Of a program that writes the text alone.
    pub(super) fn of_text() -> Self {
        Self { kind: Kind::Text, held: String::new(), is_over: false, is_whole: false }
    }

    /// Of a chat program that was given this message.
    pub(super) fn of_chat(message: &str) -> Self {
        Self { kind: Kind::Chat { echo: Some(format!("{message}\n")) }, ..Self::of_text() }
    }

    /// Whether the end of the text has come.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Takes what came and gives what is the model's text for sure.
    pub(super) fn push(&mut self, text: &str) -> Option<String> {
        if self.is_over {
            return None;
        }
        let text = std::mem::take(&mut self.held) + text;
        let now = match &mut self.kind {
            Kind::Text => text.len() - text_end(&text),
            Kind::Chat { echo: Some(echo) } => {
                let Some(begin) = after_echo(&text, echo) else {
                    self.held = text;
                    return None;
                };
                self.kind = Kind::Chat { echo: None };
                return self.push(&text[begin..]);
            }
            Kind::Chat { echo: None } => match CHAT_ENDS.iter().filter_map(|end| text.find(end)).min() {
                Some(end) => {
                    self.is_over = true;
                    self.is_whole = true;
                    text[..end].trim_end_matches('\n').len()
                }
                None => text.trim_end_matches('\n').len(),
            },
        };
        text[now..].clone_into(&mut self.held);
        (now > 0).then(|| text[..now].to_owned())
    }

    /// The rest, without the end.
    pub(super) fn finish(&mut self) -> Option<String> {
        let held = std::mem::take(&mut self.held);
        if self.is_over || matches!(self.kind, Kind::Chat { echo: Some(_) }) {
            return None;
        }
        self.is_over = true;
        self.is_whole |= matches!(self.kind, Kind::Text) && held.ends_with(END);
        let rest = held.strip_suffix(END).unwrap_or(&held);
        let rest = rest.strip_suffix(END_OF_TEXT).unwrap_or(rest);
        (!rest.is_empty()).then(|| rest.to_owned())
    }
}

/// Bytes at the end that the program may have written after the last token.
fn text_end(text: &str) -> usize {
    let without = text.strip_suffix(END).unwrap_or(text);
    let without = without.strip_suffix(END_OF_TEXT).unwrap_or(without);
    text.len() - without.len()
}

/// Where the answer begins, once the message before it has come.
fn after_echo(text: &str, echo: &str) -> Option<usize> {
    let begin = text.find(ECHO)? + ECHO.len();
    let rest = &text[begin..];
    if rest.starts_with(echo) {
        return Some(begin + echo.len());
    }
    let shown = rest.find(ECHO_CUT)?;
    echo.starts_with(&rest[..shown]).then_some(begin + shown + ECHO_CUT.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(mut frame: Frame, writes: &[&str]) -> (Vec<String>, bool) {
        let mut all: Vec<String> = writes.iter().filter_map(|text| frame.push(text)).collect();
        all.extend(frame.finish());
        (all, frame.is_whole())
    }

    fn text(writes: &[&str]) -> (Vec<String>, bool) {
        taken(Frame::of_text(), writes)
    }

    fn pieces(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn the_end_of_the_program_is_no_text() {
        assert_eq!(text(&[" a", " b", "\n\n"]), (pieces(&[" a", " b"]), true));
        assert_eq!(text(&[" a", " [end of text]\n", "\n\n"]), (pieces(&[" a"]), true));
        assert_eq!(text(&[" a b\n\n"]), (pieces(&[" a b"]), true), "read at once");
    }

    #[test]
    fn a_text_that_was_cut_is_told_apart() {
        assert_eq!(text(&[" a", " b"]), (pieces(&[" a", " b"]), false));
        assert_eq!(text(&[]), (Vec::new(), false));
    }

    #[test]
    fn newlines_inside_a_text_stay() {
        assert_eq!(text(&[" a", "\n\n", " b", "\n\n"]), (pieces(&[" a", "\n\n b"]), true));
    }

    #[test]
    fn an_answer_is_what_comes_between_the_message_and_the_figures() {
        let greeting = "\n\nLoading model... \n\n▄▄ ▄▄\n\navailable commands:\n  /exit\n\n\n\n> Hi\nHello";
        let writes =
            [greeting, "!", "\n\n", "How", "\n", "\n[ Prompt: 76.5 t/s | Generation: 1.0 t/s ]\n\n\nExiting...\n"];
        assert_eq!(taken(Frame::of_chat("Hi"), &writes), (pieces(&["Hello", "!", "\n\nHow"]), true));
        let without_figures = ["…\n> Hi\n", "Yes", "\n\n\nExiting...\n"];
        assert_eq!(taken(Frame::of_chat("Hi"), &without_figures), (pieces(&["Yes"]), true));
        let cut = ["\n\n> Hi\nHel", "lo"];
        assert_eq!(taken(Frame::of_chat("Hi"), &cut), (pieces(&["Hel", "lo"]), false));
        assert_eq!(taken(Frame::of_chat("Hi"), &["\n\n> H"]), (Vec::new(), false), "ended in the message");
    }

    #[test]
    fn a_long_message_is_shown_in_part() {
        let message = "word ".repeat(300);
        let shown = format!("\n\n> {} ... (truncated)\nYes", &message[..500]);
        assert_eq!(taken(Frame::of_chat(&message), &[&shown, "\n\n[ Prompt: 1"]), (pieces(&["Yes"]), true));
    }
}
