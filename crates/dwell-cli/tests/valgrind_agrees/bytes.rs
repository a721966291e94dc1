//! Sets of bytes, and what one computation touched.

use std::collections::HashMap;

const WORD_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4096;

/// A set of bytes, kept as a bitmap per page.
#[derive(Default, Clone)]
pub struct ByteSet {
    pages: HashMap<u64, Box<[u64; 64]>>,
}

/// The words of the bitmap that a range of bytes lies in: page, number of the word, the bits of the range.
fn words(begin: u64, end: u64) -> impl Iterator<Item = (u64, usize, u64)> {
    (begin / WORD_BYTES..end.div_ceil(WORD_BYTES)).map(move |word| {
        let first = begin.max(word * WORD_BYTES) - word * WORD_BYTES;
        let behind = end.min((word + 1) * WORD_BYTES) - word * WORD_BYTES;
        let bits = (u64::MAX >> (WORD_BYTES - (behind - first))) << first;
        (word * WORD_BYTES / PAGE_BYTES, (word % (PAGE_BYTES / WORD_BYTES)) as usize, bits)
    })
}

/// Bytes of some ranges that are in one set and not in another.
#[derive(Default)]
pub struct Difference {
    pub only_here: u64,
    pub first_only_here: Option<u64>,
    pub only_there: u64,
    pub first_only_there: Option<u64>,
    pub both: u64,
}

impl ByteSet {
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub fn insert(&mut self, address: u64, size_bytes: u64) {
        for (page, word, bits) in words(address, address + size_bytes) {
            self.pages.entry(page).or_insert_with(|| Box::new([0; 64]))[word] |= bits;
        }
    }

    pub fn extend(&mut self, other: &ByteSet) {
        for (&page, words) in &other.pages {
            let own = self.pages.entry(page).or_insert_with(|| Box::new([0; 64]));
            own.iter_mut().zip(words.iter()).for_each(|(own, other)| *own |= other);
        }
    }

    /// Leaves out what another set has not.
    pub fn keep(&mut self, other: Option<&ByteSet>) {
        self.pages.retain(|page, words| {
            let kept = other.and_then(|other| other.pages.get(page));
            kept.is_some_and(|kept| {
                words.iter_mut().zip(kept.iter()).for_each(|(own, kept)| *own &= kept);
                true
            })
        });
    }

    /// Leaves out what another set has.
    pub fn leave_out(&mut self, other: &ByteSet) {
        for (page, words) in &mut self.pages {
            let left_out = other.pages.get(page).into_iter().flat_map(|left_out| left_out.iter());
            words.iter_mut().zip(left_out).for_each(|(own, left_out)| *own &= !left_out);
        }
    }

    fn word(&self, page: u64, word: usize) -> u64 {
        self.pages.get(&page).map_or(0, |words| words[word])
    }

    pub fn compare(&self, other: &ByteSet, ranges: &[(u64, u64)]) -> Difference {
        let mut difference = Difference::default();
        for &(begin, end) in ranges {
            for (page, word, bits) in words(begin, end) {
                let (here, there) = (self.word(page, word) & bits, other.word(page, word) & bits);
                let address =
                    |bits: u64| page * PAGE_BYTES + word as u64 * WORD_BYTES + u64::from(bits.trailing_zeros());
                let (only_here, only_there) = (here & !there, there & !here);
                if only_here != 0 {
                    difference.first_only_here.get_or_insert(address(only_here));
                }
                if only_there != 0 {
                    difference.first_only_there.get_or_insert(address(only_there));
                }
                difference.only_here += u64::from(only_here.count_ones());
                difference.only_there += u64::from(only_there.count_ones());
                difference.both += u64::from((here & there).count_ones());
            }
        }
        difference
    }
}

/// What one computation touched.
#[derive(Default, Clone)]
pub struct Touched {
    pub loads: ByteSet,
    pub stores: ByteSet,
    /// Bytes that were loaded, however often the same.
    pub loaded: Traffic,
    /// Bytes that were stored.
    pub stored: Traffic,
}

/// Bytes that were moved, by cache line.
#[derive(Default, Clone)]
pub struct Traffic {
    bytes_by_line: HashMap<u64, u64>,
}

const LINE_BYTES: u64 = 64;

impl Touched {
    pub fn extend(&mut self, other: &Touched) {
        self.loads.extend(&other.loads);
        self.stores.extend(&other.stores);
        self.loaded.extend(&other.loaded);
        self.stored.extend(&other.stored);
    }

    /// Adds an access.
    pub fn add(&mut self, is_store: bool, address: u64, size_bytes: u64) {
        let (set, traffic) =
            if is_store { (&mut self.stores, &mut self.stored) } else { (&mut self.loads, &mut self.loaded) };
        set.insert(address, size_bytes);
        traffic.add(address, size_bytes);
    }
}

/// How much was moved.
#[derive(Default, Clone, Copy)]
pub struct Amount {
    pub bytes: u64,
    pub lines: u64,
}

impl Traffic {
    fn add(&mut self, address: u64, size_bytes: u64) {
        let end = address + size_bytes;
        for line in address / LINE_BYTES..end.div_ceil(LINE_BYTES) {
            let bytes = end.min((line + 1) * LINE_BYTES) - address.max(line * LINE_BYTES);
            *self.bytes_by_line.entry(line).or_default() += bytes;
        }
    }

    fn extend(&mut self, other: &Traffic) {
        for (&line, &bytes) in &other.bytes_by_line {
            *self.bytes_by_line.entry(line).or_default() += bytes;
        }
    }

    /// What was moved in lines that touch these ranges, which are in order.
    pub fn in_ranges(&self, ranges: &[(u64, u64)]) -> Amount {
        let is_inside = |line: u64| {
            let next = ranges.partition_point(|&(_, end)| end <= line * LINE_BYTES);
            ranges.get(next).is_some_and(|&(begin, _)| begin < (line + 1) * LINE_BYTES)
        };
        Self::sum(self.bytes_by_line.iter().filter(|&(&line, _)| is_inside(line)))
    }

    /// What was moved in lines that another traffic touches too.
    pub fn in_lines_of(&self, other: &Traffic) -> Amount {
        Self::sum(self.bytes_by_line.iter().filter(|(line, _)| other.bytes_by_line.contains_key(line)))
    }

    /// All that was moved.
    pub fn total(&self) -> Amount {
        Self::sum(self.bytes_by_line.iter())
    }

    fn sum<'a>(lines: impl Iterator<Item = (&'a u64, &'a u64)>) -> Amount {
        lines.fold(Amount::default(), |sum, (_, &bytes)| Amount { bytes: sum.bytes + bytes, lines: sum.lines + 1 })
    }
}
