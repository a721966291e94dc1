//! Text out of pieces that may end in the middle of a character.

/// Puts the pieces of tokens together and hands out whole characters only.
#[derive(Debug, Default)]
pub(crate) struct Utf8Assembler {
    /// Beginning of a character whose end has not come yet; at most three bytes.
    held: Vec<u8>,
}

impl Utf8Assembler {
    /// Adds a piece and takes out what is whole; what can never become a character is replaced by U+FFFD.
    pub(crate) fn push(&mut self, piece: &[u8]) -> String {
        self.held.extend_from_slice(piece);
        let mut text = String::new();
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(whole) => {
                    text.push_str(whole);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (whole, broken) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(whole));
                    rest = broken;
                    let Some(invalid_bytes) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[invalid_bytes..];
                }
            }
        }
        self.held = rest.to_vec();
        text
    }

    /// What is still held back, with U+FFFD for the unfinished character.
    pub(crate) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_back_until_a_character_is_whole() {
        let mut assembler = Utf8Assembler::default();
        assert_eq!(assembler.push(b"a\xE2"), "a");
        assert_eq!(assembler.push(b"\x82"), "");
        assert_eq!(assembler.push(b"\xACb"), "€b");
        assert_eq!(assembler.finish(), "");
    }

    #[test]
    fn replaces_what_cannot_become_a_character() {
        let mut assembler = Utf8Assembler::default();
        assert_eq!(assembler.push(b"\xFFok\xE2"), "\u{FFFD}ok");
        assert_eq!(assembler.push(b"x"), "\u{FFFD}x");
    }

    #[test]
    fn finishes_with_a_replacement() {
        let mut assembler = Utf8Assembler::default();
        assert_eq!(assembler.push(b"\xF0\x9F"), "");
        assert_eq!(assembler.finish(), "\u{FFFD}");
        assert_eq!(assembler.push(b"next"), "next");
    }
}
