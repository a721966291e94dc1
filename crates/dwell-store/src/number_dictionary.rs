//! Few distinct numbers of many rows.
//!
//! Places in the dictionary have 8 or 16 bits, more than they need: the compression that follows then has a fraction of the
//! bytes to look at, and still finds what repeats, which packing into odd widths would hide from it.

use crate::hybrid;

/// Distinct numbers of a dictionary at most: their table stays in a core's own cache.
const DISTINCT_MAX: usize = 1 << 14;
/// While there are fewer rows for each distinct number than this, a dictionary would not make the column smaller.
const ROWS_PER_DISTINCT: usize = 4;
/// Distinct numbers that are not held against a column.
const DISTINCT_AT_FIRST: usize = 1 << 10;

/// Numbers by place, and the place of each row's.
pub(crate) struct Dictionary {
    numbers: Vec<u64>,
    /// Open addressing; 0 for an empty slot, else the place plus 1.
    slots: Vec<u32>,
    rows: Vec<u32>,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self { numbers: Vec::new(), slots: vec![0; 2 * DISTINCT_MAX], rows: Vec::new() }
    }
}

impl Dictionary {
    /// Takes so many rows with the same number. None may have come before.
    pub(crate) fn repeat(&mut self, number: u64, rows: usize) {
        if rows > 0 {
            let place = self.place_of(number).unwrap_or(0);
            self.rows.resize(rows, place);
        }
    }

    /// Forgets all rows and numbers, and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.slots.fill(0);
        self.rows.clear();
    }

    /// Takes numbers until there are too many distinct ones; how many it took.
    pub(crate) fn push_all<N: Copy>(&mut self, numbers: &[N], bits_of: impl Fn(N) -> u64) -> usize {
        self.rows.reserve(numbers.len());
        let mut last: Option<(u64, u32)> = None;
        for (taken, number) in numbers.iter().enumerate() {
            let number = bits_of(*number);
            let place = match last {
                Some((known, place)) if known == number => place,
                _ => match self.place_of(number) {
                    Some(place) => place,
                    None => return taken,
                },
            };
            self.rows.push(place);
            last = Some((number, place));
        }
        numbers.len()
    }

    /// Place of a number; none if the column has too many.
    #[inline]
    fn place_of(&mut self, number: u64) -> Option<u32> {
        // The golden ratio spreads numbers that differ in few bits.
        let mut slot = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49) as usize % self.slots.len();
        loop {
            match self.slots[slot] {
                0 => return self.add(number, slot),
                place if self.numbers[place as usize - 1] == number => return Some(place - 1),
                _ => slot = (slot + 1) % self.slots.len(),
            }
        }
    }

    #[cold]
    fn add(&mut self, number: u64, slot: usize) -> Option<u32> {
        let distinct = self.numbers.len() + 1;
        if distinct > DISTINCT_MAX || distinct > DISTINCT_AT_FIRST.max(self.rows.len() / ROWS_PER_DISTINCT) {
            return None;
        }
        self.numbers.push(number);
        self.slots[slot] = distinct as u32;
        Some(distinct as u32 - 1)
    }

    /// Distinct numbers, by place.
    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// The place of each row.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The number of each row.
    pub(crate) fn each(&self) -> impl Iterator<Item = u64> {
        self.rows.iter().map(|place| self.numbers[*place as usize])
    }

    /// Bits of a place, in whole bytes.
    pub(crate) fn bits(&self) -> u32 {
        hybrid::bits_of(self.numbers.len()).next_multiple_of(8)
    }

    /// Bytes of numbers and places in the file, before compression.
    pub(crate) fn encoded_bytes(&self) -> usize {
        8 * self.numbers.len() + self.rows.len() * self.bits() as usize / 8
    }
}
