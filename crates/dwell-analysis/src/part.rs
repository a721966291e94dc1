//! Which bytes and regions of a trace are followed where a trace is analysed in parts.
//!
//! Every part is given all rows, because steps, times and regions are numbered by them. A part follows only the bytes of its
//! own memory, counts only the rows of its own regions, and the first part alone follows what depends on the order of all
//! rows. What the parts conclude adds up to the report on the whole trace, bit for bit: `docs/analysis-in-parts.md`.

use dwell_events::PAGE_SHIFT;
use serde::{Deserialize, Serialize};

use crate::ranges::ByteRange;

/// Memory is dealt out to parts in blocks of so many bytes.
///
/// Chosen: tensors of some megabytes are cut into few pieces, and what is known of one block, byte by byte, fits any limit
/// of memory that is allowed. A multiple of a page, so that no page lies in two parts.
pub(crate) const BLOCK_SHIFT: u32 = 20;

/// Pages or blocks that one row is cut into at most. Chosen: rows of the largest tensors have a quarter of that, and more would
/// hold gigabytes for one impossible size.
const PIECES_MAX: u64 = 1 << 21;

/// How many hashes there are.
const HASHES: u64 = 1 << 32;

/// One of several parts of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    /// From 1.
    number: u32,
    of: u32,
}

impl Part {
    /// All of the trace.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// The most parts that a trace is analysed in.
    pub const MOST: u32 = 1 << 16;

    /// A part by its number, from 1, of so many; none if there is no such part.
    pub fn new(number: u32, of: u32) -> Option<Self> {
        (of <= Self::MOST && (1..=of).contains(&number)).then_some(Self { number, of })
    }

    /// Its number, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// How many parts there are.
    pub fn of(self) -> u32 {
        self.of
    }

    /// All parts of a trace that is analysed in so many.
    pub fn all(of: u32) -> impl Iterator<Item = Self> {
        (1..=of.min(Self::MOST)).map(move |number| Self { number, of })
    }

    /// The two parts that together follow what this one does; none if there would be too many.
    pub fn halves(self) -> Option<[Self; 2]> {
        let of = self.of.checked_mul(2).filter(|of| *of <= Self::MOST)?;
        Some([self.number * 2 - 1, self.number * 2].map(|number| Self { number, of }))
    }

    pub(crate) fn is_whole(self) -> bool {
        self.of == 1
    }

    /// Whether it follows what depends on the order of all rows.
    pub(crate) fn is_first(self) -> bool {
        self.number == 1
    }

    #[inline]
    pub(crate) fn has_address(self, address: u64) -> bool {
        self.is_whole() || self.has_hash(hash(address >> BLOCK_SHIFT))
    }

    #[inline]
    pub(crate) fn has_region(self, region_id: u64) -> bool {
        self.is_whole() || self.has_hash(hash(region_id))
    }

    /// Hashes of what belongs to the part, from the first up to but not including the last.
    pub(crate) fn hashes(self) -> (u64, u64) {
        let begin = |number: u32| (u64::from(number) * HASHES).div_ceil(u64::from(self.of));
        (begin(self.number - 1), begin(self.number))
    }

    #[inline]
    fn has_hash(self, hash: u32) -> bool {
        (u64::from(hash) * u64::from(self.of)) >> 32 == u64::from(self.number - 1)
    }
}

/// A share of the pages of a trace, in groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSample {
    /// Pages with a hash below this belong to it.
    below: u64,
    groups: u16,
}

impl PageSample {
    /// A share above 0 and up to 1.
    pub(crate) fn new(share: f64, groups: u16) -> Self {
        Self { below: ((share * HASHES as f64) as u64).clamp(1, HASHES), groups }
    }

    #[inline]
    fn group(self, address: u64) -> Option<u16> {
        let hash = u64::from(hash(address >> PAGE_SHIFT));
        (hash < self.below).then(|| (hash * u64::from(self.groups) / self.below) as u16)
    }
}

/// What of a trace is followed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Followed {
    Part(Part),
    Sample(PageSample),
}

impl Followed {
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Part(part) if part.is_whole())
    }

    /// Whether what depends on the order of all rows is followed.
    pub(crate) fn is_first(self) -> bool {
        matches!(self, Self::Sample(_)) || matches!(self, Self::Part(part) if part.is_first())
    }

    /// Whether the rows of a region are counted.
    #[inline]
    pub(crate) fn has_region(self, region_id: u64) -> bool {
        match self {
            Self::Part(part) => part.has_region(region_id),
            Self::Sample(_) => true,
        }
    }

    /// The group that the byte is followed in, of a part always the same; none if it is not followed.
    #[inline]
    pub(crate) fn group(self, address: u64) -> Option<u16> {
        match self {
            Self::Part(part) => part.has_address(address).then_some(0),
            Self::Sample(sample) => sample.group(address),
        }
    }

    /// The group in which rows are counted.
    pub(crate) fn group_of_rows(self) -> u16 {
        match self {
            Self::Part(_) => 0,
            Self::Sample(sample) => sample.groups,
        }
    }

    /// Bytes that a row may cover; none if all are followed whole.
    pub(crate) fn row_bytes_max(self) -> Option<u64> {
        (!self.is_whole()).then(|| PIECES_MAX << self.piece_shift())
    }

    fn piece_shift(self) -> u32 {
        if matches!(self, Self::Part(_)) { BLOCK_SHIFT } else { PAGE_SHIFT }
    }

    /// The pieces of a range that are followed, each in one group.
    pub(crate) fn pieces(self, (start, end): ByteRange) -> impl Iterator<Item = (u16, ByteRange)> {
        let mut from = start;
        std::iter::from_fn(move || {
            let (begin, group) = self.groups_from(from, end).find_map(|(begin, group)| Some((begin, group?)))?;
            let to = self.groups_from(begin, end).find(|(_, other)| *other != Some(group)).map_or(end, |(to, _)| to);
            from = to;
            Some((group, (begin, to)))
        })
    }

    /// Where blocks or pages of a range begin, the first with the range, and their groups.
    fn groups_from(self, start: u64, end: u64) -> impl Iterator<Item = (u64, Option<u16>)> {
        let shift = self.piece_shift();
        // Beyond the last block of the address space the next one would begin at 0.
        let next = move |from: &u64| Some(((from >> shift) + 1) << shift).filter(|next| next > from);
        let begins = std::iter::successors(Some(start), next).take_while(move |&begin| begin < end);
        begins.map(move |begin| (begin, self.group(begin)))
    }
}

/// The finalizer of SplitMix64: neighbours fall to parts as if by chance, on every machine alike.
#[inline]
fn hash(number: u64) -> u32 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 32) as u32
}

/// The sum of the squared sizes of what blocks cut a range into: bytes with one life count as one life in each block, so
/// that parts add up to the whole.
#[inline]
pub(crate) fn squared_bytes((start, end): ByteRange) -> u128 {
    let square = |bytes: u64| u128::from(bytes) * u128::from(bytes);
    let last = end.saturating_sub(1).max(start);
    let blocks = (last >> BLOCK_SHIFT) - (start >> BLOCK_SHIFT);
    if blocks == 0 {
        return square(end - start);
    }
    let block = 1 << BLOCK_SHIFT;
    let head = block - (start & (block - 1));
    let tail = (last & (block - 1)) + 1;
    square(head) + square(tail) + square(block) * u128::from(blocks - 1)
}

/// Whether parts, in any order, are all of a trace and none is there twice.
pub(crate) fn is_whole(parts: &[Part]) -> bool {
    let mut hashes: Vec<(u64, u64)> = parts.iter().map(|part| part.hashes()).collect();
    hashes.sort_unstable();
    let reached = hashes.iter().try_fold(0, |reached, &(begin, end)| (begin == reached).then_some(end));
    reached == Some(HASHES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BLOCK: u64 = 1 << BLOCK_SHIFT;

    fn part(number: u32, of: u32) -> Part {
        Part::new(number, of).unwrap()
    }

    fn pieces_of(part: Part, range: ByteRange) -> Vec<ByteRange> {
        Followed::Part(part).pieces(range).map(|(_, piece)| piece).collect()
    }

    #[test]
    fn a_sample_is_its_share_of_the_pages_in_groups_of_the_same_size() {
        let sample = PageSample::new(0.1, 4);
        let mut pages = [0u32; 4];
        (0..100_000u64)
            .filter_map(|page| sample.group(page << PAGE_SHIFT))
            .for_each(|group| pages[usize::from(group)] += 1);
        assert!(pages.iter().all(|&pages| (2_300..2_700).contains(&pages)), "{pages:?}");
        assert!((0..1_000u64).all(|page| PageSample::new(1.0, 4).group(page << PAGE_SHIFT).is_some()));
        let range = (100, 90_000 << PAGE_SHIFT);
        let pieces: Vec<_> = Followed::Sample(sample).pieces(range).collect();
        assert!(pieces.iter().all(|&(group, (start, end))| sample.group(start) == Some(group) && start < end));
        assert_eq!(pieces.iter().map(|(_, (start, end))| (end - start) >> PAGE_SHIFT).sum::<u64>(), {
            (1..90_000u64).filter(|page| sample.group(page << PAGE_SHIFT).is_some()).count() as u64
        });
    }

    #[test]
    fn parts_are_numbered_from_one() {
        assert_eq!([(0, 1), (2, 1), (1, 0), (1, Part::MOST + 1)].map(|(number, of)| Part::new(number, of)), [None; 4]);
        assert_eq!(Part::new(1, 1), Some(Part::WHOLE));
    }

    #[test]
    fn parts_are_a_whole_if_none_is_missing_or_doubled() {
        assert!(is_whole(&[Part::WHOLE]));
        assert!(is_whole(&[part(3, 3), part(1, 3), part(2, 3)]));
        assert!(is_whole(&[part(2, 2), part(2, 4), part(1, 4)]), "a part and the halves of the other");
        assert!(!is_whole(&[]));
        assert!(!is_whole(&[part(1, 2)]));
        assert!(!is_whole(&[part(1, 2), part(1, 2)]));
        assert!(!is_whole(&[part(1, 2), part(2, 2), part(2, 2)]));
        assert!(!is_whole(&[part(1, 3), part(2, 3), part(2, 2)]));
    }

    #[test]
    fn the_last_bytes_of_the_address_space_are_in_a_part() {
        let range = (u64::MAX - 10, u64::MAX);
        let pieces: Vec<ByteRange> = Part::all(3).flat_map(|part| pieces_of(part, range)).collect();
        assert_eq!(pieces, [range]);
        assert_eq!(squared_bytes(range), 100);
        assert_eq!(squared_bytes((5, 5)), 0);
    }

    proptest! {
        #[test]
        fn every_byte_is_in_one_part_and_squares_add_up(
            start in 0u64..4 * BLOCK,
            bytes in 0u64..6 * BLOCK,
            of in 1u32..9,
        ) {
            let range = (start, start + bytes);
            let mut pieces: Vec<ByteRange> = Part::all(of).flat_map(|part| pieces_of(part, range)).collect();
            pieces.sort_unstable();
            prop_assert_eq!(pieces.iter().map(|(start, end)| end - start).sum::<u64>(), bytes);
            prop_assert!(pieces.windows(2).all(|pair| pair[0].1 == pair[1].0));
            prop_assert_eq!(pieces.iter().map(|&piece| squared_bytes(piece)).sum::<u128>(), squared_bytes(range));
            for part in Part::all(of) {
                prop_assert!(pieces_of(part, range).iter().all(|&(start, end)| part.has_address(start) && part.has_address(end - 1)));
            }
        }

        #[test]
        fn halves_have_what_their_part_has(number in 1u32..9, address in any::<u64>()) {
            let part = part(number, 8);
            let halves = part.halves().unwrap();
            let having = halves.iter().filter(|half| half.has_address(address)).count();
            prop_assert_eq!(having, usize::from(part.has_address(address)));
            let (begin, end) = part.hashes();
            let is_within = (begin..end).contains(&u64::from(hash(address >> BLOCK_SHIFT)));
            prop_assert_eq!(is_within, part.has_address(address));
        }
    }
}
