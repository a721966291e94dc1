//! Lives of bytes that samples come to.
//!
//! Samples come to single values at random addresses, so one map of all lives would miss the cache with every row. Rows are
//! therefore dealt out to shards by address and wait there; a shard that is full is worked off, and fits the cache.

use dwell_events::PAGE_SHIFT;

use crate::lives::{ByteRange, LifeMap, LifeSink, Visit};
use crate::step_windows::{KnownStep, StepWindows};

/// A power of two; each has a cache line that is being filled, so not many more.
const SHARDS: usize = 256;

/// Rows that wait in a shard: so many that the shard, once in the cache, serves several rows for each of its addresses. In
/// all shards they take 16 MiB.
const WAITING_ROWS: usize = 1 << 11;

/// Bytes of a row that is dealt out, at most.
const MOST_ROW_BYTES: u64 = 4096;

/// A row that waits for its turn, in 32 bytes.
pub(crate) struct WaitingRow {
    address: u64,
    now_ns: u64,
    pub(crate) region: u32,
    /// One more than the place of the step; 0 if the row is in none.
    after_step: u32,
    /// Steps of the process that had begun.
    pub(crate) begun: u32,
    bytes: u16,
    pub(crate) is_store: bool,
}

impl WaitingRow {
    #[inline]
    pub(crate) fn new(range: ByteRange, visit: Visit, (step, begun): (Option<KnownStep>, u32), is_store: bool) -> Self {
        Self {
            address: range.0,
            now_ns: visit.now_ns,
            region: visit.region,
            after_step: step.map_or(0, |step| step.place as u32 + 1),
            begun,
            bytes: (range.1 - range.0) as u16,
            is_store,
        }
    }

    pub(crate) fn visit(&self, step: Option<KnownStep>) -> Visit {
        let window = step.map_or(0, |step| step.number);
        Visit { now_ns: self.now_ns, region: self.region, window, is_concluded: false }
    }

    pub(crate) fn step(&self, steps: &StepWindows) -> Option<KnownStep> {
        self.after_step.checked_sub(1).map(|place| steps.at(place as usize))
    }

    fn range(&self) -> ByteRange {
        (self.address, self.address + u64::from(self.bytes))
    }

    /// Does to the lives what the row did to the bytes.
    #[inline]
    pub(crate) fn follow(&self, visit: Visit, lives: &mut LifeMap, sink: &mut impl LifeSink) {
        match self.is_store {
            true => lives.store(self.range(), visit, sink),
            false => lives.load(self.range(), visit, sink),
        }
    }
}

/// Lives of bytes by address, and the rows that wait to be worked off.
pub(crate) struct LifeShards {
    /// Rows of each shard. Apart from the lives, because every row needs one: together they stay in the first cache.
    waiting: Vec<Vec<WaitingRow>>,
    lives: Vec<LifeMap>,
}

impl Default for LifeShards {
    fn default() -> Self {
        let waiting = (0..SHARDS).map(|_| Vec::new()).collect();
        Self { waiting, lives: (0..SHARDS).map(|_| LifeMap::default()).collect() }
    }
}

impl LifeShards {
    /// The parts of a range that lie in one page each, and so in one shard, of which the second is mostly empty; none if the range is too long.
    #[inline]
    pub(crate) fn parts((start, end): ByteRange) -> Option<[ByteRange; 2]> {
        let page_end = (start >> PAGE_SHIFT).saturating_add(1) << PAGE_SHIFT;
        // The last page of the 64-bit space has no end that can be named; no memory is there.
        let cut = if page_end > start { end.min(page_end) } else { end };
        (end - start <= MOST_ROW_BYTES).then_some([(start, cut), (cut, end)])
    }

    /// Takes a row of one part. Gives the shard if it has to be worked off before the next row comes.
    #[inline]
    pub(crate) fn push(&mut self, row: WaitingRow) -> Option<usize> {
        let place = shard_of(row.address);
        let waiting = &mut self.waiting[place];
        if waiting.capacity() == 0 {
            // At once: growing step by step would touch twice the memory.
            waiting.reserve_exact(WAITING_ROWS);
        }
        waiting.push(row);
        (waiting.len() == WAITING_ROWS).then_some(place)
    }

    /// Gives the rows that wait in a shard, with the lives of their bytes.
    pub(crate) fn work_off(&mut self, place: usize, mut follow: impl FnMut(&WaitingRow, &mut LifeMap)) {
        let lives = &mut self.lives[place];
        self.waiting[place].drain(..).for_each(|row| follow(&row, lives));
    }

    /// The shards, by place.
    pub(crate) fn places() -> impl Iterator<Item = usize> {
        0..SHARDS
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        let waiting = self.waiting.iter().map(|rows| rows.capacity() * size_of::<WaitingRow>()).sum::<usize>();
        waiting + self.lives.iter().map(LifeMap::held_bytes).sum::<usize>()
    }

    /// The lives of all shards, after all rows were worked off.
    pub(crate) fn into_lives(self) -> Vec<LifeMap> {
        self.lives
    }
}

fn shard_of(address: u64) -> usize {
    // 2^64 divided by the golden ratio, odd; the upper bits of the product depend on all bits of the page.
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    const SHIFT: u32 = u64::BITS - SHARDS.trailing_zeros();
    ((address >> PAGE_SHIFT).wrapping_mul(MULTIPLIER) >> SHIFT) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_lies_in_two_shards_only_where_it_crosses_from_one_page_to_the_next() {
        let page = 1 << PAGE_SHIFT;
        assert_eq!(LifeShards::parts((page - 8, page)), Some([(page - 8, page), (page, page)]));
        assert_eq!(LifeShards::parts((page - 8, page + 8)), Some([(page - 8, page), (page, page + 8)]));
        assert_eq!(LifeShards::parts((page, page + MOST_ROW_BYTES + 1)), None);
        assert_eq!(LifeShards::parts((u64::MAX - 8, u64::MAX)), Some([(u64::MAX - 8, u64::MAX), (u64::MAX, u64::MAX)]));
    }
}
