//! Gathers, row by row, what the formulas of mrm-trace need.
//!
//! Memory follows the distinct addresses and regions; only the distinct distances and intervals, whose exact
//! quantiles these formulas ask for, may be as many as there are rows.
//!
//! Sampled addresses come at random, so a table of all of them would miss the cache with every row. Rows are
//! therefore dealt out to shards by page and worked off shard by shard; a shard fits the cache.

mod addresses;
mod regions;
mod row;

use dwell_events::PAGE_SHIFT;

use self::addresses::{AddressCounts, AddressShard};
use self::regions::Regions;
use self::row::{Pass, Row};
use crate::exact::ExactCounts;
use crate::reader::Access;
use crate::region_index::{RegionIndex, Slot};
use crate::region_type::{RegionTypeName, RegionTypeNames};

/// What is known of a region when all rows are seen.
#[derive(Debug)]
pub(crate) struct RegionHistory {
    pub(crate) region_id: u64,
    /// Type of the first row as the rows came.
    pub(crate) region_type: RegionTypeName,
    /// Type of the first row by time.
    pub(crate) earliest_type: RegionTypeName,
    pub(crate) first_access_ns: u64,
    pub(crate) first_store_ns: Option<u64>,
    pub(crate) last_load_ns: Option<u64>,
    pub(crate) loads: u64,
    pub(crate) stores: u64,
    pub(crate) stored_addresses: u64,
    pub(crate) stored_once_addresses: u64,
    pub(crate) pages: u64,
    pub(crate) same_page_rows: u64,
    pub(crate) strides_bytes: ExactCounts,
}

/// Shards of addresses. A power of two; each has a cache line that is being filled, so not many more.
const SHARDS: usize = 64;

/// Rows that wait before all shards are worked off: so many that a shard, once in the cache, serves several rows for
/// each of its addresses. They take 12 MiB.
const WAITING_ROWS: usize = 1 << 19;

/// Follows a trace by the definitions of mrm-trace.
pub(crate) struct MrmTraceGatherer {
    index: RegionIndex,
    /// In the order of their places.
    region_ids: Vec<u64>,
    regions: Regions,
    address_shards: Vec<AddressShard>,
    waiting_rows: usize,
    pass: Pass,
    /// Intervals above 0, by type.
    intervals_ns: Vec<ExactCounts>,
}

impl Default for MrmTraceGatherer {
    fn default() -> Self {
        Self {
            index: RegionIndex::default(),
            region_ids: Vec::new(),
            regions: Regions::default(),
            address_shards: (0..SHARDS).map(|_| AddressShard::default()).collect(),
            waiting_rows: 0,
            pass: Pass::default(),
            intervals_ns: Vec::new(),
        }
    }
}

impl MrmTraceGatherer {
    /// Reads what the next rows will need, and gives something that depends on it: these reads do not wait for each
    /// other.
    pub(crate) fn read_ahead(&self, accesses: &[Access]) -> u64 {
        let places = accesses.iter().filter_map(|access| self.index.listed(access.region_id, 0));
        places.fold(0, |sum, place| sum ^ self.regions.last_address(place))
    }

    /// Takes a row. If `is_in_order` is false, the rows have to be given to [`Self::follow`] afterwards, by time.
    pub(crate) fn push(&mut self, access: &Access, is_in_order: bool) {
        self.deal(access, if is_in_order { Pass::CountAndFollow } else { Pass::Count });
    }

    /// Takes a row that was pushed out of order, now that it is its turn.
    pub(crate) fn follow(&mut self, access: &Access) {
        self.deal(access, Pass::Follow);
    }

    fn deal(&mut self, access: &Access, pass: Pass) {
        if self.waiting_rows == WAITING_ROWS || self.pass != pass {
            self.drain();
            self.pass = pass;
        }
        self.waiting_rows += 1;
        let place = self.region_place(access);
        let row = Row::new(access, place as u32);
        self.regions.push(&row, pass);
        self.address_shards[address_shard(access.address)].waiting.push(row);
    }

    fn region_place(&mut self, access: &Access) -> usize {
        // A region has one type here, that of its first row, so the type is no part of the key.
        match self.index.slot(access.region_id, 0) {
            Slot::Known(place) => place,
            Slot::New(place) => {
                self.region_ids.push(access.region_id);
                place
            }
        }
    }

    fn drain(&mut self) {
        self.waiting_rows = 0;
        self.address_shards.iter_mut().for_each(|shard| shard.drain(self.pass, &mut self.intervals_ns));
    }

    /// The regions by id, and the intervals of every type.
    pub(crate) fn finish(mut self, names: &RegionTypeNames) -> (Vec<RegionHistory>, Vec<ExactCounts>) {
        self.drain();
        let mut counts = vec![AddressCounts::default(); self.region_ids.len()];
        self.address_shards.iter().for_each(|shard| shard.count(&mut counts));
        let mut by_id: Vec<usize> = (0..counts.len()).collect();
        by_id.sort_unstable_by_key(|&place| self.region_ids[place]);
        let facts = |place: usize| {
            let (region, strides_bytes) = self.regions.take(place);
            RegionHistory {
                region_id: self.region_ids[place],
                region_type: names.name(region.region_type),
                earliest_type: names.name(region.earliest_type),
                first_access_ns: region.first_access_ns,
                first_store_ns: (region.stores > 0).then_some(region.first_store_ns),
                last_load_ns: (region.loads > 0).then_some(region.last_load_ns),
                loads: region.loads,
                stores: region.stores,
                stored_addresses: counts[place].stored,
                stored_once_addresses: counts[place].stored_once,
                pages: counts[place].pages,
                same_page_rows: region.same_page_rows,
                strides_bytes,
            }
        };
        (by_id.into_iter().map(facts).collect(), self.intervals_ns)
    }
}

/// By page, so that the pages of a region can be counted shard by shard.
fn address_shard(address: u64) -> usize {
    // 2^64 divided by the golden ratio, odd; the upper bits of the product depend on all bits of the page.
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    const SHIFT: u32 = u64::BITS - SHARDS.trailing_zeros();
    ((address >> PAGE_SHIFT).wrapping_mul(MULTIPLIER) >> SHIFT) as usize
}
