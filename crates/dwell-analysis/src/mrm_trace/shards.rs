//! Deals rows out to shards of addresses.

use dwell_events::PAGE_SHIFT;

use super::addresses::{AddressCounts, AddressShard, count_addresses};
use super::row::{Kind, Pass, WaitingRow};
use crate::exact::ExactCounts;
use crate::reader::AddressAccess;

/// A power of two; each has a cache line that is being filled, so not many more.
const SHARDS: usize = 64;

/// Rows that wait in a shard: so many that the shard, once in the cache, serves several rows for each of its addresses. In
/// all shards they take 8 MiB.
const WAITING_ROWS: usize = 1 << 13;

/// How far a row may be earlier than the first one that waits; half of what a waiting row can hold.
const EARLIER_NS: u64 = 1 << 31;

/// All addresses, and the rows that wait to be worked off.
pub(super) struct AddressShards {
    /// Rows of each shard. Apart from the shards, because every row needs one: together they stay in the first cache.
    waiting: Vec<Vec<WaitingRow>>,
    shards: Vec<AddressShard>,
    pass: Pass,
    /// Time from which waiting rows count theirs.
    base_ns: u64,
    /// Intervals above 0, by type.
    intervals_ns: Vec<ExactCounts>,
}

impl Default for AddressShards {
    fn default() -> Self {
        let waiting = (0..SHARDS).map(|_| Vec::new()).collect();
        let shards = (0..SHARDS).map(|_| AddressShard::default()).collect();
        Self { waiting, shards, pass: Pass::default(), base_ns: 0, intervals_ns: Vec::new() }
    }
}

impl AddressShards {
    /// Says what is to be done with the rows that follow. `kinds` are those of the rows that wait, here and below.
    pub(super) fn begin(&mut self, pass: Pass, kinds: &[Kind]) {
        if self.pass != pass {
            self.drain(kinds);
            self.pass = pass;
        }
    }

    #[inline]
    pub(super) fn push(&mut self, access: &AddressAccess, kind: u32, kinds: &[Kind]) {
        let since_base_ns = self.since_base_ns(access.timestamp_ns, kinds);
        let place = shard_of(access.address);
        if self.waiting[place].len() == self.waiting[place].capacity() {
            self.make_room(place, kinds);
        }
        self.waiting[place].push(WaitingRow::new(access, since_base_ns, kind));
    }

    #[cold]
    fn make_room(&mut self, place: usize, kinds: &[Kind]) {
        self.drain_shard(place, kinds);
        // At once: growing step by step would touch twice the memory.
        self.waiting[place].reserve_exact(WAITING_ROWS);
        self.shards[place].make_room();
    }

    #[inline]
    fn since_base_ns(&mut self, timestamp_ns: u64, kinds: &[Kind]) -> u32 {
        if !self.pass.follows() {
            return 0;
        }
        match timestamp_ns.checked_sub(self.base_ns).map(u32::try_from) {
            Some(Ok(since_base_ns)) => since_base_ns,
            _ => self.move_base(timestamp_ns, kinds),
        }
    }

    #[cold]
    fn move_base(&mut self, timestamp_ns: u64, kinds: &[Kind]) -> u32 {
        self.drain(kinds);
        self.base_ns = timestamp_ns.saturating_sub(EARLIER_NS);
        (timestamp_ns - self.base_ns) as u32
    }

    fn drain(&mut self, kinds: &[Kind]) {
        (0..SHARDS).for_each(|place| self.drain_shard(place, kinds));
    }

    fn drain_shard(&mut self, place: usize, kinds: &[Kind]) {
        let shard = &mut self.shards[place];
        for waiting in self.waiting[place].drain(..) {
            shard.push(&waiting.row(self.base_ns, kinds), self.pass, &mut self.intervals_ns);
        }
    }

    /// Memory that it holds beside itself.
    pub(super) fn held_bytes(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(|rows| rows.capacity() * size_of::<WaitingRow>()).sum();
        let shards: usize = self.shards.iter().map(AddressShard::held_bytes).sum();
        waiting + shards + self.intervals_ns.iter().map(ExactCounts::held_bytes).sum::<usize>()
    }

    /// The counts of each of so many regions, and the intervals of every type.
    pub(super) fn finish(&mut self, kinds: &[Kind], regions: usize) -> (Vec<AddressCounts>, Vec<ExactCounts>) {
        self.drain(kinds);
        let counts = count_addresses(&self.shards, regions);
        (counts, std::mem::take(&mut self.intervals_ns))
    }
}

/// By page, so that the pages of a region can be counted shard by shard.
fn shard_of(address: u64) -> usize {
    // 2^64 divided by the golden ratio, odd; the upper bits of the product depend on all bits of the page.
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    const SHIFT: u32 = u64::BITS - SHARDS.trailing_zeros();
    ((address >> PAGE_SHIFT).wrapping_mul(MULTIPLIER) >> SHIFT) as usize
}
