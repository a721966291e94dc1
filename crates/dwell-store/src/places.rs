//! Places in a dictionary, one for each row that has a value.

use crate::hybrid;

/// Values that are compared at once.
const CHUNK: usize = 64;

/// Whether all of these are the first one. Chunks are compared without branches, which takes a fraction of the time.
#[inline]
pub(crate) fn all_same<T: Copy + PartialEq>(values: &[T]) -> bool {
    let Some(&first) = values.first() else { return true };
    let mut chunks = values.chunks(CHUNK);
    chunks.all(|chunk| chunk.iter().fold(true, |is_same, value| is_same & (*value == first)))
}

/// Places of rows. While all are the same, they are only counted.
#[derive(Default)]
pub(crate) struct Places {
    /// Rows of the same place, as long as there are no others.
    same: Option<(u32, usize)>,
    /// The place of each row, from the first row whose place differs.
    each: Vec<u32>,
}

impl Places {
    /// Adds rows of the same place.
    pub(crate) fn push_same(&mut self, place: u32, rows: usize) {
        match self.same {
            None if self.each.is_empty() => self.same = Some((place, rows)),
            Some((known, so_far)) if known == place => self.same = Some((place, so_far + rows)),
            _ => {
                let each = self.each();
                each.resize(each.len() + rows, place);
            }
        }
    }

    /// The place of each row, from now on one by one.
    pub(crate) fn each(&mut self) -> &mut Vec<u32> {
        if let Some((place, rows)) = self.same.take() {
            self.each.resize(rows, place);
        }
        &mut self.each
    }

    /// Forgets all rows, and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.same = None;
        self.each.clear();
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.same.map_or(self.each.len(), |(_, rows)| rows)
    }

    /// Appends so many places from one on, each of so many bits.
    pub(crate) fn encode(&self, begin: usize, count: usize, bits: u32, out: &mut Vec<u8>) {
        match self.same {
            Some((place, _)) if count > 0 => hybrid::repeat(place, count, bits, out),
            Some(_) => {}
            None => hybrid::encode(&self.each[begin..begin + count], bits, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_are_all_the_same_are_counted_until_another_comes() {
        let mut places = Places::default();
        [(3, 10), (3, 90), (4, 1), (3, 9)].into_iter().for_each(|(place, rows)| places.push_same(place, rows));
        let expected: Vec<u32> = [vec![3; 100], vec![4], vec![3; 9]].concat();
        assert_eq!((places.len(), &*places.each()), (110, &expected));
    }

    #[test]
    fn one_other_value_anywhere_is_found() {
        for at in [1, 63, 64, 200] {
            let mut values = [7u64; 201];
            assert!(all_same(&values));
            values[at] = 8;
            assert!(!all_same(&values));
        }
    }
}
