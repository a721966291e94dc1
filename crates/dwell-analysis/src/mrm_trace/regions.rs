//! What rows say of their regions.

use dwell_events::{OpType, PAGE_SHIFT};

use super::row::{Pass, Row};
use crate::exact::ExactCounts;
use crate::region_type::TypeIndex;

/// What is gathered of a region while rows come. One cache line, because every row needs one.
pub(super) struct Region {
    pub(super) first_access_ns: u64,
    /// Means nothing without stores.
    pub(super) first_store_ns: u64,
    /// Means nothing without loads.
    pub(super) last_load_ns: u64,
    pub(super) loads: u64,
    pub(super) stores: u64,
    /// Address of the row followed last.
    before: u64,
    pub(super) same_page_rows: u64,
    pub(super) region_type: TypeIndex,
    pub(super) earliest_type: TypeIndex,
    is_followed: bool,
}

impl Region {
    fn new(row: &Row) -> Self {
        Self {
            first_access_ns: u64::MAX,
            first_store_ns: u64::MAX,
            last_load_ns: 0,
            loads: 0,
            stores: 0,
            before: 0,
            same_page_rows: 0,
            region_type: row.region_type,
            earliest_type: row.region_type,
            is_followed: false,
        }
    }

    /// What does not depend on the order of rows.
    fn count(&mut self, row: &Row) {
        let now_ns = row.timestamp_ns;
        self.first_access_ns = self.first_access_ns.min(now_ns);
        // Without a branch: which rows are stores cannot be foreseen.
        let is_store = row.op_type == OpType::Store;
        self.stores += u64::from(is_store);
        self.loads += u64::from(!is_store);
        self.first_store_ns = self.first_store_ns.min(if is_store { now_ns } else { u64::MAX });
        self.last_load_ns = self.last_load_ns.max(if is_store { 0 } else { now_ns });
    }

    /// What does: rows have to come by time. Returns the distance to the row before, if there is one.
    fn follow(&mut self, row: &Row) -> Option<u64> {
        let before = std::mem::replace(&mut self.before, row.address);
        if !std::mem::replace(&mut self.is_followed, true) {
            self.earliest_type = row.region_type;
            return None;
        }
        self.same_page_rows += u64::from(row.address >> PAGE_SHIFT == before >> PAGE_SHIFT);
        Some(row.address.abs_diff(before))
    }
}

/// All regions, in order of first appearance.
#[derive(Default)]
pub(super) struct Regions {
    regions: Vec<Region>,
    /// Distances above 0 between the rows of each region. Apart from the regions, because a KV region is a single
    /// address here and has none.
    strides_bytes: Vec<ExactCounts>,
}

impl Regions {
    /// Takes a row of the region at a place, which is a known one or the next.
    #[inline]
    pub(super) fn push(&mut self, place: usize, row: &Row, pass: Pass) {
        if place == self.regions.len() {
            self.regions.push(Region::new(row));
            self.strides_bytes.push(ExactCounts::default());
        }
        let region = &mut self.regions[place];
        if pass.counts() {
            region.count(row);
        }
        if pass.follows()
            && let Some(stride_bytes) = region.follow(row)
            && stride_bytes > 0
        {
            self.strides_bytes[place].push(stride_bytes);
        }
    }

    /// Memory that it holds beside itself.
    pub(super) fn held_bytes(&self) -> usize {
        let strides: usize = self.strides_bytes.iter().map(ExactCounts::held_bytes).sum();
        let list_bytes = size_of::<Region>() + size_of::<ExactCounts>();
        self.regions.capacity() * list_bytes + strides
    }

    /// A region with the distances between its rows, zeros included. Every region can be taken once.
    pub(super) fn take(&mut self, place: usize) -> (&Region, ExactCounts) {
        let region = &self.regions[place];
        let mut strides_bytes = std::mem::take(&mut self.strides_bytes[place]);
        strides_bytes.push_zeros(region.loads + region.stores - 1 - strides_bytes.count());
        (region, strides_bytes)
    }
}
