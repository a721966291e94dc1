//! From region ids to positions in a list of regions.

use rustc_hash::FxHashMap;

use crate::region_type::TypeIndex;

/// Where the region is in the list, and whether it has to be appended there first.
pub(crate) enum Slot {
    Known(usize),
    New(usize),
}

/// Positions of regions in order of first appearance.
///
/// Ids are small numbers counted up by the labeller, so a plain list answers nearly every row; ids that are large
/// or that appear with a second type go to a map.
#[derive(Default)]
pub(crate) struct RegionIndex {
    /// One more than the position, 0 where no region is, and the type it was first seen with.
    direct: Vec<(u32, TypeIndex)>,
    others: FxHashMap<(u64, TypeIndex), u32>,
    count: u32,
}

impl RegionIndex {
    /// Ids below this are looked up in the list; it then takes 8 MiB at most.
    const DIRECT_IDS: u64 = 1 << 20;

    /// Position of a region that is known, if it is in the list.
    #[inline]
    pub(crate) fn listed(&self, region_id: u64, region_type: TypeIndex) -> Option<usize> {
        let &(after, known_type) = self.direct.get(usize::try_from(region_id).ok()?)?;
        (known_type == region_type).then(|| (after as usize).checked_sub(1)).flatten()
    }

    /// Position of the region with this id and type.
    #[inline]
    pub(crate) fn slot(&mut self, region_id: u64, region_type: TypeIndex) -> Slot {
        match self.listed(region_id, region_type) {
            Some(position) => Slot::Known(position),
            None => self.unlisted_slot(region_id, region_type),
        }
    }

    fn unlisted_slot(&mut self, region_id: u64, region_type: TypeIndex) -> Slot {
        if region_id < Self::DIRECT_IDS {
            let place = region_id as usize;
            if place >= self.direct.len() {
                self.direct.resize(place + 1, (0, 0));
            }
            if self.direct[place].0 == 0 {
                self.direct[place] = (self.count + 1, region_type);
                return self.append();
            }
        }
        let count = self.count;
        let position = *self.others.entry((region_id, region_type)).or_insert(count);
        if position == count { self.append() } else { Slot::Known(position as usize) }
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        let others = self.others.capacity() * 8 / 7 * (size_of::<((u64, TypeIndex), u32)>() + 1);
        self.direct.capacity() * size_of::<(u32, TypeIndex)>() + others
    }

    fn append(&mut self) -> Slot {
        let position = self.count as usize;
        self.count += 1;
        Slot::New(position)
    }
}
