//! What rows say of their addresses.

use dwell_events::{OpType, PAGE_SHIFT};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::row::{Pass, Row};
use crate::exact::ExactCounts;
use crate::region_type::TypeIndex;

/// What is known of an address. The region and type that it was first seen with are kept here; it is rare that
/// others follow, and those go to maps of their own.
struct Address {
    /// Means nothing before the address was followed.
    last_ns: u64,
    region: u32,
    region_type: TypeIndex,
    stores: StoreCount,
    is_followed: bool,
}

impl Address {
    fn new(row: &Row) -> Self {
        Self {
            last_ns: 0,
            region: row.region,
            region_type: row.region_type,
            stores: StoreCount::default(),
            is_followed: false,
        }
    }
}

/// Stores to an address, counted up to many.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct StoreCount(u8);

impl StoreCount {
    const ONE: Self = Self(1);
    const MANY: u8 = 2;

    /// Without a branch: which rows are stores cannot be foreseen.
    fn add(&mut self, op_type: OpType) {
        self.0 = (self.0 + u8::from(op_type == OpType::Store)).min(Self::MANY);
    }
}

/// Of a region, how many addresses were stored to, how many of them once, and how many pages were touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AddressCounts {
    pub(crate) stored: u64,
    pub(crate) stored_once: u64,
    pub(crate) pages: u64,
}

impl AddressCounts {
    /// Adds those of other addresses.
    pub(crate) fn add(&mut self, other: AddressCounts) {
        self.stored = self.stored.saturating_add(other.stored);
        self.stored_once = self.stored_once.saturating_add(other.stored_once);
        self.pages = self.pages.saturating_add(other.pages);
    }
}

/// Addresses that a shard has room for from the beginning; in all shards they take 3 MiB, of which only what is used is
/// touched.
const FIRST_ADDRESSES: usize = 1 << 10;

/// Some of the addresses: those of the pages that fall to this shard.
#[derive(Default)]
pub(super) struct AddressShard {
    known: FxHashMap<u64, Address>,
    /// Stores to an address from regions other than its first.
    other_regions: FxHashMap<(u64, u32), StoreCount>,
    /// Last access to an address as a type other than its first.
    other_types: FxHashMap<(u64, TypeIndex), u64>,
}

impl AddressShard {
    /// Makes room for the addresses that a shard of any long trace has, so that the table does not grow step by step.
    pub(super) fn make_room(&mut self) {
        self.known.reserve(FIRST_ADDRESSES.saturating_sub(self.known.len()));
    }

    /// Takes a row; an interval above 0 is added to those of its type.
    #[inline]
    pub(super) fn push(&mut self, row: &Row, pass: Pass, intervals_ns: &mut Vec<ExactCounts>) {
        let address = self.known.entry(row.address).or_insert_with(|| Address::new(row));
        if pass.counts() {
            if address.region == row.region {
                address.stores.add(row.op_type);
            } else {
                self.other_regions.entry((row.address, row.region)).or_default().add(row.op_type);
            }
        }
        if pass.follows() {
            let last_ns = follow(address, row, &mut self.other_types);
            add_interval(last_ns, row, intervals_ns);
        }
    }

    /// Memory that it holds beside itself.
    pub(super) fn held_bytes(&self) -> usize {
        let known = self.known.capacity() * (size_of::<(u64, Address)>() + 1);
        let other_regions = self.other_regions.capacity() * (size_of::<((u64, u32), StoreCount)>() + 1);
        let other_types = self.other_types.capacity() * (size_of::<((u64, TypeIndex), u64)>() + 1);
        (known + other_regions + other_types) * 8 / 7
    }

    /// Region, address and stores of each address in each region.
    fn stores(&self) -> impl Iterator<Item = (u32, u64, StoreCount)> {
        let first = self.known.iter().map(|(&address, known)| (known.region, address, known.stores));
        let others = self.other_regions.iter().map(|(&(address, region), &stores)| (region, address, stores));
        first.chain(others)
    }
}

/// The counts of each of so many regions.
pub(super) fn count_addresses(shards: &[AddressShard], regions: usize) -> Vec<AddressCounts> {
    let mut counts = vec![AddressCounts::default(); regions];
    // A page is in one shard.
    let mut pages: FxHashSet<(u32, u64)> = FxHashSet::default();
    for shard in shards {
        pages.clear();
        for (region, address, stores) in shard.stores() {
            let counts = &mut counts[region as usize];
            counts.stored += u64::from(stores != StoreCount::default());
            counts.stored_once += u64::from(stores == StoreCount::ONE);
            counts.pages += u64::from(pages.insert((region, address >> PAGE_SHIFT)));
        }
    }
    counts
}

/// Notes the access and returns when the address was last accessed as this type.
fn follow(address: &mut Address, row: &Row, other_types: &mut FxHashMap<(u64, TypeIndex), u64>) -> Option<u64> {
    if address.region_type != row.region_type {
        return other_types.insert((row.address, row.region_type), row.timestamp_ns);
    }
    let last_ns = std::mem::replace(&mut address.last_ns, row.timestamp_ns);
    std::mem::replace(&mut address.is_followed, true).then_some(last_ns)
}

#[inline]
fn add_interval(last_ns: Option<u64>, row: &Row, intervals_ns: &mut Vec<ExactCounts>) {
    let interval_ns = last_ns.map_or(0, |last_ns| row.timestamp_ns.saturating_sub(last_ns));
    if interval_ns == 0 {
        return;
    }
    let place = usize::from(row.region_type);
    if place >= intervals_ns.len() {
        intervals_ns.resize_with(place + 1, ExactCounts::default);
    }
    intervals_ns[place].push(interval_ns);
}
