//! Columns that cost little where most sources leave them empty.
//!
//! A missing value costs one addition: nulls are only counted until a value comes or the batch ends. The columns of
//! latency, cache level, NUMA node and processor are in every row of `trace`, and the sources that fill them are few.

use std::sync::Arc;

use arrow_array::builder::PrimitiveBuilder;
use arrow_array::types::{ArrowPrimitiveType, Int32Type};
use arrow_array::{DictionaryArray, PrimitiveArray, StringArray};

use super::words::Words;

/// Numbers, most of them missing.
pub(super) struct SparseNumbers<T: ArrowPrimitiveType> {
    builder: PrimitiveBuilder<T>,
    pending_nulls: usize,
}

impl<T: ArrowPrimitiveType> SparseNumbers<T> {
    pub(super) fn new() -> Self {
        Self { builder: PrimitiveBuilder::new(), pending_nulls: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, value: Option<T::Native>) {
        match value {
            None => self.pending_nulls += 1,
            Some(value) => {
                self.flush();
                self.builder.append_value(value);
            }
        }
    }

    pub(super) fn finish(&mut self) -> PrimitiveArray<T> {
        self.flush();
        self.builder.finish()
    }

    /// Appending no nulls would still make the builder mark each row as there or not.
    fn flush(&mut self) {
        if self.pending_nulls > 0 {
            self.builder.append_nulls(std::mem::take(&mut self.pending_nulls));
        }
    }
}

/// Words that often repeat the row before: such a row costs a comparison.
pub(super) struct RepeatedText {
    words: Words,
    last: u32,
    places: SparseNumbers<Int32Type>,
}

impl RepeatedText {
    pub(super) fn new() -> Self {
        Self { words: Words::default(), last: 0, places: SparseNumbers::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, value: Option<&str>) {
        let place = value.map(|word| {
            self.last = self.words.number_of(word, self.last);
            self.last as i32
        });
        self.places.push(place);
    }

    pub(super) fn finish(&mut self) -> DictionaryArray<Int32Type> {
        let column = DictionaryArray::new(self.places.finish(), self.words.dictionary());
        if self.words.len() > Words::USUAL_MAX {
            self.words = Words::default();
        }
        column
    }
}

/// Words of a short list that is known before: a row is the word's place in the list.
pub(super) struct ListedText {
    words: Arc<StringArray>,
    places: SparseNumbers<Int32Type>,
}

impl ListedText {
    pub(super) fn new(words: impl Iterator<Item = &'static str>) -> Self {
        Self { words: Arc::new(StringArray::from_iter_values(words)), places: SparseNumbers::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, place: Option<usize>) {
        self.places.push(place.map(|place| place as i32));
    }

    pub(super) fn finish(&mut self) -> DictionaryArray<Int32Type> {
        DictionaryArray::new(self.places.finish(), self.words.clone())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;

    use super::*;

    #[test]
    fn a_batch_without_missing_numbers_has_none_marked() {
        let mut column = SparseNumbers::<arrow_array::types::UInt32Type>::new();
        [1, 2, 3].into_iter().for_each(|number| column.push(Some(number)));
        assert!(column.finish().nulls().is_none());
        [Some(1), None, Some(3), None].into_iter().for_each(|number| column.push(number));
        assert_eq!(column.finish().into_iter().collect::<Vec<_>>(), [Some(1), None, Some(3), None]);
    }
}
