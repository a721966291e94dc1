//! A column of text in a row group: a dictionary of its words, and for each row the place of its word there.
//!
//! The parquet crate looks up the bytes of every value, although a batch has its words numbered already. Here a word is
//! looked up once for each batch that brings other words than the one before, and a row costs one load.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, StringArray};
use parquet::basic::{Compression as Codec, Encoding};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::ColumnDescPtr;
use rustc_hash::FxHashMap;

use crate::hybrid;
use crate::levels::Levels;
use crate::pages::{PageCodec, Pages};
use crate::places::{Places, all_same};

/// In the place of a number: the word was not met in this row group.
const UNMET: u32 = u32::MAX;

/// A column on its way. Its dictionary lasts for one row group.
pub(crate) struct TextColumn {
    description: ColumnDescPtr,
    codec: PageCodec,
    levels: Levels,
    words: Words,
    /// For each row that has a word, the place of it.
    rows: Places,
    /// The words of the last batch, and the place of each.
    batch_words: Option<ArrayRef>,
    places: Vec<u32>,
}

/// The dictionary of a row group.
#[derive(Default)]
struct Words {
    places: FxHashMap<Box<str>, u32>,
    /// As its page has them: each behind its length.
    plain: Vec<u8>,
}

impl Words {
    fn place_of(&mut self, word: &str) -> u32 {
        if let Some(&place) = self.places.get(word) {
            return place;
        }
        let place = self.places.len() as u32;
        self.plain.extend_from_slice(&(word.len() as u32).to_le_bytes());
        self.plain.extend_from_slice(word.as_bytes());
        self.places.insert(word.into(), place);
        place
    }

    fn clear(&mut self) {
        self.places.clear();
        self.plain.clear();
    }
}

impl TextColumn {
    /// A column of the file; none if its pages are compressed in a way that is not done here.
    pub(crate) fn new(description: ColumnDescPtr, codec: Codec) -> Option<Self> {
        Some(Self {
            description,
            codec: PageCodec::new(codec)?,
            levels: Levels::default(),
            words: Words::default(),
            rows: Places::default(),
            batch_words: None,
            places: Vec::new(),
        })
    }

    /// Adds the rows of a batch.
    pub(crate) fn write(&mut self, column: &DictionaryArray<Int32Type>) -> Result<()> {
        let words = column.values().as_string_opt::<i32>().ok_or_else(|| unfit("its dictionary is no text"))?;
        if words.null_count() > 0 {
            return Err(unfit("its dictionary has a word that is missing"));
        }
        self.heed_words(column.values());
        let keys = column.keys().values();
        self.levels.push(keys.len(), column.nulls());
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => self.push_all(keys, words),
            Some(nulls) => nulls.valid_slices().for_each(|(begin, end)| self.push_all(&keys[begin..end], words)),
        }
        Ok(())
    }

    /// Forgets the places of other words than these.
    fn heed_words(&mut self, words: &ArrayRef) {
        if self.batch_words.as_ref().is_some_and(|known| Arc::ptr_eq(known, words)) {
            return;
        }
        self.places.clear();
        self.places.resize(words.len(), UNMET);
        self.batch_words = Some(words.clone());
    }

    fn push_all(&mut self, keys: &[i32], words: &StringArray) {
        let Some(&first) = keys.first() else { return };
        if all_same(keys) {
            let place = self.place_of(first, words);
            return self.rows.push_same(place, keys.len());
        }
        let rows = self.rows.each();
        let begin = rows.len();
        rows.extend(keys.iter().map(|&key| self.places[key as usize]));
        if rows[begin..].contains(&UNMET) {
            self.meet_all(begin, keys, words);
        }
    }

    #[cold]
    fn meet_all(&mut self, begin: usize, keys: &[i32], words: &StringArray) {
        for (row, &key) in (begin..).zip(keys) {
            let place = self.place_of(key, words);
            self.rows.each()[row] = place;
        }
    }

    fn place_of(&mut self, key: i32, words: &StringArray) -> u32 {
        match self.places[key as usize] {
            UNMET => self.meet(key as usize, words),
            place => place,
        }
    }

    #[cold]
    fn meet(&mut self, key: usize, words: &StringArray) -> u32 {
        let place = self.words.place_of(words.value(key));
        self.places[key] = place;
        place
    }

    /// Bytes that the row group would have so far, before compression.
    pub(crate) fn encoded_bytes(&self) -> usize {
        self.words.plain.len() + self.rows.len() * hybrid::bits_of(self.words.places.len()) as usize / 8
    }

    /// Pages of the row group and what is to be said about them; the column is empty afterwards.
    pub(crate) fn close(&mut self) -> Result<(Vec<u8>, ColumnCloseResult)> {
        if self.description.max_def_level() == 0 && self.levels.missing() > 0 {
            return Err(unfit("a row has no text, and each needs one"));
        }
        let bits = hybrid::bits_of(self.words.places.len());
        let mut pages = Pages::new(&mut self.codec);
        pages.put_dictionary(&self.words.plain, self.words.places.len())?;
        let (mut plain, mut begin) = (Vec::new(), 0);
        for page in self.levels.take_pages() {
            plain.clear();
            if self.description.max_def_level() > 0 {
                page.encode(&mut plain);
            }
            plain.push(bits as u8);
            self.rows.encode(begin, page.present, bits, &mut plain);
            pages.put_data(&plain, page.rows, Encoding::RLE_DICTIONARY)?;
            begin += page.present;
        }
        // Every row group has the same few words, so their least and greatest would let no reader skip one.
        let closed = pages.close(&self.description, Encoding::RLE_DICTIONARY, None)?;
        self.rows.clear();
        self.words.clear();
        self.places.fill(UNMET);
        Ok(closed)
    }
}

fn unfit(reason: &str) -> ParquetError {
    ParquetError::General(reason.to_owned())
}
