//! How much other memory is touched before bytes are read again, by the region type that reads them.

use dwell_events::OpType;

use super::lru_stack::LruStack;
use crate::distribution::Distribution;
use crate::reader::Access;
use crate::region_type::KNOWN_TYPES;

/// Follows all rows, in their order: what lies between two accesses may be anywhere.
#[derive(Debug, Default)]
pub(crate) struct ReuseDistances {
    stack: LruStack,
    by_type: [ReuseTotals; KNOWN_TYPES],
}

impl ReuseDistances {
    pub(crate) fn follow(&mut self, access: &Access, type_index: usize) {
        let totals = &mut self.by_type[type_index];
        let is_load = access.op_type == OpType::Load;
        self.stack.visit((access.address, access.end()), |distance, bytes| {
            if is_load {
                totals.add(distance, bytes);
            }
        });
    }

    pub(crate) fn of_type(&self, type_index: usize) -> &ReuseTotals {
        &self.by_type[type_index]
    }
}

/// Bytes that were read, by how many others were touched since they were accessed before.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReuseTotals {
    /// Of bytes that had been accessed before.
    pub(crate) distances_bytes: Distribution,
    /// Bytes that had not.
    pub(crate) first_bytes: u64,
}

impl ReuseTotals {
    fn add(&mut self, distance: Option<u64>, bytes: u64) {
        match distance {
            Some(distance) => self.distances_bytes.add(distance, bytes),
            None => self.first_bytes = self.first_bytes.saturating_add(bytes),
        }
    }

    /// Adds the memory of another run, or of another type.
    pub(crate) fn merge(&mut self, other: &ReuseTotals) {
        self.distances_bytes.merge(&other.distances_bytes);
        self.first_bytes = self.first_bytes.saturating_add(other.first_bytes);
    }

    /// All bytes that were read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.distances_bytes.weight().saturating_add(self.first_bytes)
    }
}
