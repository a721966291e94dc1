//! Which characters a vocabulary has tokens for.
//!
//! A SentencePiece vocabulary falls back to tokens for single bytes. Where one is missing, llama.cpp throws an
//! exception that ends the process, so such text is refused first.

use std::collections::HashSet;
use std::ffi::CStr;

use llama_cpp_sys_2 as sys;

use crate::EngineError;
use crate::model::Model;

/// What SentencePiece writes for a space.
const SPACE: char = '\u{2581}';

/// Characters and bytes that a vocabulary with gaps can express.
#[derive(Debug)]
pub(crate) struct Coverage {
    characters: HashSet<char>,
    has_byte: [bool; 256],
}

impl Coverage {
    /// The coverage of a model's vocabulary; `None` if every text can be cut into its tokens.
    pub(crate) fn of(model: &Model) -> Option<Coverage> {
        let vocabulary = model.vocabulary();
        // SAFETY: the vocabulary belongs to the loaded model.
        if unsafe { sys::llama_vocab_type(vocabulary) } != sys::LLAMA_VOCAB_TYPE_SPM {
            return None;
        }
        let mut coverage = Coverage { characters: HashSet::new(), has_byte: [false; 256] };
        for id in 0..model.vocabulary_size().cast_signed() {
            // SAFETY: the id is in the vocabulary; its text is NUL-terminated and lives as long as the model.
            coverage.add(unsafe { CStr::from_ptr(sys::llama_vocab_get_text(vocabulary, id)) }.to_bytes());
        }
        (!coverage.has_byte.iter().all(|&has| has)).then_some(coverage)
    }

    fn add(&mut self, token: &[u8]) {
        if let [b'<', b'0', b'x', digits @ .., b'>'] = token
            && let Some(byte) = std::str::from_utf8(digits).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok())
        {
            self.has_byte[usize::from(byte)] = true;
        }
        if let [byte] = token {
            self.has_byte[usize::from(*byte)] = true;
        }
        let mut characters = std::str::from_utf8(token).unwrap_or_default().chars();
        if let (Some(character), None) = (characters.next(), characters.next()) {
            self.characters.insert(character);
        }
    }

    /// Refuses text with a character that no tokens stand for.
    pub(crate) fn check(&self, text: &str) -> Result<(), EngineError> {
        // llama.cpp may put a space in front of the text.
        let uncovered = std::iter::once(' ').chain(text.chars()).find(|&character| !self.covers(character));
        uncovered.map_or(Ok(()), |character| Err(EngineError::NoTokenFor { character }))
    }

    fn covers(&self, character: char) -> bool {
        let written = if character == ' ' { SPACE } else { character };
        let mut bytes = [0; 4];
        self.characters.contains(&written)
            || written.encode_utf8(&mut bytes).bytes().all(|byte| self.has_byte[usize::from(byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coverage(tokens: &[&str]) -> Coverage {
        let mut coverage = Coverage { characters: HashSet::new(), has_byte: [false; 256] };
        for token in tokens {
            coverage.add(token.as_bytes());
        }
        coverage
    }

    #[test]
    fn characters_are_covered_by_themselves_or_by_their_bytes() {
        let coverage = coverage(&["▁", "a", "the", "é", "<0xE2>", "<0x82>", "<0xAC>"]);
        coverage.check("a aé€").unwrap();
        let error = coverage.check("at").unwrap_err();
        assert!(matches!(error, EngineError::NoTokenFor { character: 't' }), "{error}");
    }

    #[test]
    fn the_space_in_front_must_be_covered_too() {
        let error = coverage(&["a"]).check("a").unwrap_err();
        assert!(matches!(error, EngineError::NoTokenFor { character: ' ' }), "{error}");
    }
}
