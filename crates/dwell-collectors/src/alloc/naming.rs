//! Whose memory an allocation is: the tensors that an exact trace knows in it, at the time at which it lived.

use std::collections::BTreeMap;
use std::sync::Arc;

use dwell_events::RegionType;
use dwell_events::schema::region_map::RegionRow;

use super::lives::{End, Life};

/// Tensors by address.
pub(super) struct KnownTensors<'a> {
    sorted: Vec<&'a RegionRow>,
}

impl<'a> KnownTensors<'a> {
    pub(super) fn new(regions: &'a [RegionRow]) -> Self {
        let mut sorted: Vec<&RegionRow> = regions.iter().filter(|region| region.size_bytes > 0).collect();
        sorted.sort_by_key(|region| region.address);
        Self { sorted }
    }

    /// The type that most bytes of an allocation are of, and the tensor if there is just one.
    pub(super) fn name(&self, life: &Life, end: Option<&End>) -> (Option<RegionType>, Option<Arc<str>>) {
        let until_ns = end.map_or(u64::MAX, |end| end.freed_ns);
        let first = self.sorted.partition_point(|region| region.address < life.address);
        let after = life.address.saturating_add(life.size_bytes);
        let inside = self.sorted[first..].iter().take_while(|region| region.address < after);
        let lived = |region: &&&RegionRow| {
            let last_ns = region.freed_ns.unwrap_or(region.last_seen_ns);
            region.first_seen_ns <= until_ns && last_ns >= life.allocated_ns
        };
        let (mut bytes, mut tensor): (BTreeMap<&str, (u64, RegionType)>, Option<&str>) = (BTreeMap::new(), None);
        let mut has_one = true;
        for region in inside.filter(lived) {
            bytes.entry(region.region_type.name()).or_insert((0, region.region_type)).0 += region.size_bytes;
            has_one &= tensor.is_none_or(|known| known == region.tensor);
            tensor = Some(&region.tensor);
        }
        let region_type = bytes.values().max_by_key(|(bytes, _)| *bytes).map(|(_, region_type)| *region_type);
        (region_type, tensor.filter(|_| has_one).map(Arc::from))
    }
}

#[cfg(test)]
mod tests {
    use dwell_ring::allocations::AllocationCall;

    use super::*;

    fn region(region_type: RegionType, tensor: &str, address: u64, size_bytes: u64, seen_ns: [u64; 2]) -> RegionRow {
        RegionRow {
            region_id: 1,
            region_type,
            address,
            size_bytes,
            first_seen_ns: seen_ns[0],
            last_seen_ns: seen_ns[1],
            access_count: 1,
            tensor: tensor.to_owned(),
            layer: None,
            bytes_read: 0,
            bytes_written: 0,
            origin: "computed",
            file_offset: None,
            freed_ns: None,
        }
    }

    #[test]
    fn an_allocation_has_the_name_of_what_lay_in_it_while_it_lived() {
        let regions = [
            region(RegionType::KvCache, "cache_k", 0x1000, 0x800, [50, 60]),
            region(RegionType::KvCache, "cache_v", 0x1800, 0x800, [50, 60]),
            region(RegionType::Weight, "w", 0x5000, 0x100, [50, 60]),
        ];
        let known = KnownTensors::new(&regions);
        let name = |address: u64, size_bytes: u64, allocated_ns: u64, freed_ns: Option<u64>| {
            let (thread, call) = (1, AllocationCall::Malloc);
            let life = Life { allocated_ns, thread, call, address, size_bytes, is_inherited: false };
            let end = freed_ns.map(|freed_ns| End { freed_ns, thread, call: AllocationCall::Free });
            let (region_type, tensor) = known.name(&life, end.as_ref());
            (region_type, tensor.as_deref().map(str::to_owned))
        };
        assert_eq!(name(0x0ff0, 0x2000, 10, None), (Some(RegionType::KvCache), None));
        assert_eq!(name(0x5000, 0x200, 10, Some(55)), (Some(RegionType::Weight), Some("w".to_owned())));
        assert_eq!(name(0x5000, 0x200, 10, Some(49)), (None, None), "freed before");
        assert_eq!(name(0x5000, 0x200, 61, None), (None, None), "allocated after");
        assert_eq!(name(0x7000, 0x200, 10, None), (None, None), "elsewhere");
    }
}
