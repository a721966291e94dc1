//! What parts of a trace add up to by the definitions of mrm-trace.

use serde::{Deserialize, Serialize};

use super::addresses::AddressCounts;
use crate::AnalysisError;
use crate::exact::ExactCounts;
use crate::region_type::{RegionTypeName, TypeIndex};

/// What is known of the rows of a region when all are seen. All rows of a region are counted in one part, because the
/// distances between them depend on their order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RegionRows {
    pub(crate) region_id: u64,
    /// Type of the first row as the rows came.
    pub(crate) region_type: TypeIndex,
    /// Type of the first row by time.
    pub(crate) earliest_type: TypeIndex,
    pub(crate) first_access_ns: u64,
    pub(crate) first_store_ns: Option<u64>,
    pub(crate) last_load_ns: Option<u64>,
    pub(crate) loads: u64,
    pub(crate) stores: u64,
    pub(crate) same_page_rows: u64,
    /// How many distances there are between rows, zeros included, as in the figures below.
    pub(crate) strides: u64,
    pub(crate) stride_mean_bytes: f64,
    pub(crate) stride_median_bytes: f64,
}

/// A region with what is known of its rows and of its addresses.
#[derive(Debug)]
pub(crate) struct RegionHistory {
    pub(crate) rows: RegionRows,
    pub(crate) addresses: AddressCounts,
    /// Type of the first row as the rows came.
    pub(crate) region_type: RegionTypeName,
    /// Type of the first row by time.
    pub(crate) earliest_type: RegionTypeName,
}

/// What is concluded of a part of a trace by the definitions of mrm-trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ConcludedAddresses {
    /// All names of types in the trace; the same in all parts.
    pub(crate) type_names: Vec<RegionTypeName>,
    /// The regions whose rows are counted in the part, by id.
    pub(crate) regions: Vec<RegionRows>,
    /// The regions that have addresses in the part, by id.
    pub(crate) addresses: Vec<(u64, AddressCounts)>,
    /// Intervals above 0, by type.
    pub(crate) intervals_ns: Vec<ExactCounts>,
}

impl ConcludedAddresses {
    pub(crate) fn merge(&mut self, other: ConcludedAddresses) -> Result<(), AnalysisError> {
        if self.type_names != other.type_names {
            return Err(AnalysisError::UnlikeParts { difference: "their region types" });
        }
        self.regions.extend(other.regions);
        self.regions.sort_by_key(|region| region.region_id);
        self.addresses.extend(other.addresses);
        self.addresses.sort_by_key(|(region_id, _)| *region_id);
        self.addresses.dedup_by(|(id, counts), (before, sum)| {
            let is_same = id == before;
            if is_same {
                sum.add(*counts);
            }
            is_same
        });
        let types = self.intervals_ns.len().max(other.intervals_ns.len());
        self.intervals_ns.resize_with(types, ExactCounts::default);
        self.intervals_ns.iter_mut().zip(other.intervals_ns).for_each(|(ours, theirs)| ours.merge(theirs));
        Ok(())
    }

    /// Memory that it holds, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let regions = self.regions.capacity() * size_of::<RegionRows>();
        let addresses = self.addresses.capacity() * size_of::<(u64, AddressCounts)>();
        regions + addresses + self.intervals_ns.iter().map(ExactCounts::held_bytes).sum::<usize>()
    }

    /// Whether what was read from elsewhere can be merged and reported on.
    pub(crate) fn is_sound(&self) -> bool {
        let is_named = |index: TypeIndex| usize::from(index) < self.type_names.len();
        let types = self.regions.iter().flat_map(|region| [region.region_type, region.earliest_type]);
        types.into_iter().all(is_named)
            && self.intervals_ns.len() <= self.type_names.len()
            && self.regions.is_sorted_by(|before, after| before.region_id < after.region_id)
            && self.addresses.is_sorted_by(|before, after| before.0 < after.0)
            && self.regions.iter().all(|region| region.loads.checked_add(region.stores).is_some())
    }

    /// The regions by id.
    pub(crate) fn take_histories(&mut self) -> Vec<RegionHistory> {
        let addresses = std::mem::take(&mut self.addresses);
        let counts_of = |id: u64| match addresses.binary_search_by_key(&id, |(region_id, _)| *region_id) {
            Ok(place) => addresses[place].1,
            Err(_) => AddressCounts::default(),
        };
        let name = |index: TypeIndex| self.type_names[usize::from(index)].clone();
        let history = |rows: RegionRows| RegionHistory {
            addresses: counts_of(rows.region_id),
            region_type: name(rows.region_type),
            earliest_type: name(rows.earliest_type),
            rows,
        };
        std::mem::take(&mut self.regions).into_iter().map(history).collect()
    }
}
