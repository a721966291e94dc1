//! Texts by number.

use std::sync::Arc;

use arrow_array::StringArray;
use rustc_hash::FxHashMap;

/// Distinct texts, numbered as they come.
#[derive(Default)]
pub struct Words {
    texts: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, u32>,
    /// All of them as the dictionary of a column, as of the last time that it was asked for.
    dictionary: Option<Arc<StringArray>>,
}

impl Words {
    /// Texts that are kept well: names of functions, libraries and tensors of one program are fewer.
    pub const USUAL_MAX: usize = 1 << 16;

    /// How many there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// A text by its number, which must be one of this object's.
    #[inline]
    pub fn text(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }

    /// Number of a text. If the guess is right, which it often is where rows repeat, nothing is looked up.
    #[inline]
    pub fn number_of(&mut self, text: &str, guess: u32) -> u32 {
        match self.texts.get(guess as usize) {
            Some(guessed) if is_same(guessed, text) => guess,
            _ => self.look_up(text),
        }
    }

    fn look_up(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// All texts by number; the same array as before if no text came since.
    pub fn dictionary(&mut self) -> Arc<StringArray> {
        match &self.dictionary {
            Some(known) if arrow_array::Array::len(known.as_ref()) == self.texts.len() => known.clone(),
            _ => self.dictionary.insert(Arc::new(StringArray::from_iter_values(&self.texts))).clone(),
        }
    }
}

/// Whether two texts are the same. Empty ones are not compared byte by byte: they lie nowhere, and glibc's `memcmp` for
/// AVX-512 loads from there with every byte masked out, which costs a processor about 80 ns.
#[inline]
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number_whatever_is_guessed() {
        let mut words = Words::default();
        let numbers = [("a", 0), ("b", 0), ("a", 1), ("", 7), ("b", 1), ("", 2)];
        assert_eq!(numbers.map(|(text, guess)| words.number_of(text, guess)), [0, 1, 0, 2, 1, 2]);
        assert_eq!([0, 1, 2].map(|number| words.text(number)), ["a", "b", ""]);
    }

    #[test]
    fn the_dictionary_stays_the_same_until_a_text_comes() {
        let mut words = Words::default();
        words.number_of("a", 0);
        let first = words.dictionary();
        assert!(Arc::ptr_eq(&first, &words.dictionary()));
        words.number_of("b", 0);
        assert_eq!(words.dictionary().iter().flatten().collect::<Vec<_>>(), ["a", "b"]);
    }
}
