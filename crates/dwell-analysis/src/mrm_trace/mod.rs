//! Gathers, row by row, what the formulas of mrm-trace need.
//!
//! Memory follows the distinct addresses and regions; only the distinct distances and intervals, whose exact
//! quantiles these formulas ask for, may be as many as there are rows.
//!
//! Sampled addresses come at random, so a table of all of them would miss the cache with every row. Rows are
//! therefore dealt out to shards by page and wait there; a shard that is full is worked off, and fits the cache.

mod addresses;
mod concluded;
mod regions;
mod row;
mod shards;

use self::regions::Regions;
use self::row::{Kind, Pass, Row};
use self::shards::AddressShards;
use crate::part::Part;
use crate::reader::AddressAccess;
use crate::region_index::{RegionIndex, Slot};
use crate::region_type::RegionTypeNames;

use self::concluded::RegionRows;
pub(crate) use self::concluded::{ConcludedAddresses, RegionHistory};

/// Follows a trace by the definitions of mrm-trace.
pub(crate) struct MrmTraceGatherer {
    /// What is followed.
    part: Part,
    /// A region has one type here, that of its first row, so the type is no part of the key.
    region_index: RegionIndex,
    /// In the order of their places.
    region_ids: Vec<u64>,
    /// Where they are among those whose rows are counted, in the same order; none if another part counts them.
    counted_places: Vec<Option<u32>>,
    /// Those whose rows are counted.
    regions: Regions,
    /// Their ids, in the order of their places there.
    counted_ids: Vec<u64>,
    kind_index: RegionIndex,
    /// In the order of their places.
    kinds: Vec<Kind>,
    /// Scratch: the places of the kinds of rows.
    row_kinds: Vec<u32>,
    addresses: AddressShards,
}

impl MrmTraceGatherer {
    /// A gatherer of nothing yet.
    pub(crate) fn new(part: Part) -> Self {
        Self {
            part,
            region_index: RegionIndex::default(),
            region_ids: Vec::new(),
            counted_places: Vec::new(),
            regions: Regions::default(),
            counted_ids: Vec::new(),
            kind_index: RegionIndex::default(),
            kinds: Vec::new(),
            row_kinds: Vec::new(),
            addresses: AddressShards::default(),
        }
    }

    /// Regions that it knows.
    pub(crate) fn regions(&self) -> usize {
        self.region_ids.len()
    }

    /// Memory that it holds, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let ids = (2 * self.region_ids.capacity() + self.counted_ids.capacity()) * size_of::<u64>();
        let kinds = self.kinds.capacity() * size_of::<Kind>();
        let indices = self.region_index.held_bytes() + self.kind_index.held_bytes();
        ids + kinds + indices + self.regions.held_bytes() + self.addresses.held_bytes()
    }

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
            if let Some(place) = self.kinds[kind].counted {
                self.regions.push(place as usize, &Row::new(&access, self.kinds[kind]), pass);
            }
            kinds.push(kind as u32);
        }
        // In a loop of its own: the lines that are being filled in all shards want the first cache for themselves.
        self.addresses.begin(pass, &self.kinds);
        for (access, kind) in accesses.zip(kinds.drain(..)) {
            if self.part.has_address(access.address) {
                self.addresses.push(&access, kind, &self.kinds);
            }
        }
        self.row_kinds = kinds;
    }

    fn kind_place(&mut self, access: &AddressAccess) -> usize {
        match self.kind_index.slot(access.region_id, access.region_type) {
            Slot::Known(place) => place,
            Slot::New(place) => {
                let kind = self.new_kind(access);
                self.kinds.push(kind);
                place
            }
        }
    }

    #[cold]
    fn new_kind(&mut self, access: &AddressAccess) -> Kind {
        let region = self.region_place(access.region_id);
        Kind { region: region as u32, region_type: access.region_type, counted: self.counted_places[region] }
    }

    fn region_place(&mut self, region_id: u64) -> usize {
        match self.region_index.slot(region_id, 0) {
            Slot::Known(place) => place,
            Slot::New(place) => {
                self.region_ids.push(region_id);
                let is_counted = self.part.has_region(region_id);
                self.counted_places.push(is_counted.then_some(self.counted_ids.len() as u32));
                self.counted_ids.extend(is_counted.then_some(region_id));
                place
            }
        }
    }

    /// What the part adds to the report.
    pub(crate) fn conclude(mut self, names: &RegionTypeNames) -> ConcludedAddresses {
        let (counts, intervals_ns) = self.addresses.finish(&self.kinds, self.region_ids.len());
        let counted = self.region_ids.iter().copied().zip(counts);
        let mut addresses: Vec<_> = counted.filter(|(_, counts)| *counts != Default::default()).collect();
        addresses.sort_unstable_by_key(|(region_id, _)| *region_id);
        let ids = std::mem::take(&mut self.counted_ids);
        let mut regions: Vec<RegionRows> =
            ids.into_iter().enumerate().map(|(place, id)| self.rows_of(place, id)).collect();
        regions.sort_unstable_by_key(|region| region.region_id);
        ConcludedAddresses { type_names: names.all().to_vec(), regions, addresses, intervals_ns }
    }

    fn rows_of(&mut self, place: usize, region_id: u64) -> RegionRows {
        let (region, mut strides_bytes) = self.regions.take(place);
        RegionRows {
            region_id,
            region_type: region.region_type,
            earliest_type: region.earliest_type,
            first_access_ns: region.first_access_ns,
            first_store_ns: (region.stores > 0).then_some(region.first_store_ns),
            last_load_ns: (region.loads > 0).then_some(region.last_load_ns),
            loads: region.loads,
            stores: region.stores,
            same_page_rows: region.same_page_rows,
            strides: strides_bytes.count(),
            stride_mean_bytes: strides_bytes.mean().unwrap_or(0.0),
            stride_median_bytes: strides_bytes.median().unwrap_or(0.0),
        }
    }
}
