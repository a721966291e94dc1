//! Gathers, row by row, what the formulas of mrm-trace need.
//!
//! Memory follows the distinct addresses and regions; only the distinct distances and intervals, whose exact
//! quantiles these formulas ask for, may be as many as there are rows.
//!
//! Sampled addresses come at random, so a table of all of them would miss the cache with every row. Rows are
//! therefore dealt out to shards by page and wait there; a shard that is full is worked off, and fits the cache.

mod addresses;
mod regions;
mod row;
mod shards;

use self::regions::Regions;
use self::row::{Kind, Pass, Row};
use self::shards::AddressShards;
use crate::exact::ExactCounts;
use crate::reader::AddressAccess;
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

/// Follows a trace by the definitions of mrm-trace.
#[derive(Default)]
pub(crate) struct MrmTraceGatherer {
    /// A region has one type here, that of its first row, so the type is no part of the key.
    region_index: RegionIndex,
    /// In the order of their places.
    region_ids: Vec<u64>,
    regions: Regions,
    kind_index: RegionIndex,
    /// In the order of their places.
    kinds: Vec<Kind>,
    /// Scratch: the places of the kinds of rows.
    row_kinds: Vec<u32>,
    addresses: AddressShards,
}

impl MrmTraceGatherer {
    /// Takes rows. If `is_in_order` is false, they have to be given to [`Self::follow`] afterwards, by time.
    pub(crate) fn push(&mut self, accesses: impl Iterator<Item = AddressAccess> + Clone, is_in_order: bool) {
        self.take(accesses, if is_in_order { Pass::CountAndFollow } else { Pass::Count });
    }

    /// Takes rows that were pushed out of order, now by time.
    pub(crate) fn follow(&mut self, accesses: impl Iterator<Item = AddressAccess> + Clone) {
        self.take(accesses, Pass::Follow);
    }

    fn take(&mut self, accesses: impl Iterator<Item = AddressAccess> + Clone, pass: Pass) {
        let mut kinds = std::mem::take(&mut self.row_kinds);
        for access in accesses.clone() {
            let kind = self.kind_place(&access);
            self.regions.push(&Row::new(&access, self.kinds[kind]), pass);
            kinds.push(kind as u32);
        }
        // In a loop of its own: the lines that are being filled in all shards want the first cache for themselves.
        self.addresses.begin(pass, &self.kinds);
        for (access, kind) in accesses.zip(kinds.drain(..)) {
            self.addresses.push(&access, kind, &self.kinds);
        }
        self.row_kinds = kinds;
    }

    fn kind_place(&mut self, access: &AddressAccess) -> usize {
        match self.kind_index.slot(access.region_id, access.region_type) {
            Slot::Known(place) => place,
            Slot::New(place) => {
                let region = self.region_place(access.region_id) as u32;
                self.kinds.push(Kind { region, region_type: access.region_type });
                place
            }
        }
    }

    fn region_place(&mut self, region_id: u64) -> usize {
        match self.region_index.slot(region_id, 0) {
            Slot::Known(place) => place,
            Slot::New(place) => {
                self.region_ids.push(region_id);
                place
            }
        }
    }

    /// The regions by id, and the intervals of every type.
    pub(crate) fn finish(mut self, names: &RegionTypeNames) -> (Vec<RegionHistory>, Vec<ExactCounts>) {
        let (counts, intervals_ns) = self.addresses.finish(&self.kinds, self.region_ids.len());
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
        (by_id.into_iter().map(facts).collect(), intervals_ns)
    }
}
