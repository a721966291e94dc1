//! From what was gathered of a part of a trace to what adds up with other parts: no lives and no ranges of bytes are left.

use std::collections::BTreeMap;

use dwell_events::RegionType;

use crate::concluded::{
    ConcludedBytes, ConcludedKv, ConcludedRegion, ConcludedRequested, OrderedTallies, RegionKey, TypeFootprint,
};
use crate::gatherer::{Gatherer, KV_CACHE, Region};
use crate::kv_lives::{KvTensor, TensorKey};
use crate::metrics::hot_cold::RegionUses;
use crate::metrics::write_once::StoredBytes;
use crate::ranges::{ByteRange, Coverage, byte_count, bytes_outside, page_count, union};
use crate::region_type::KNOWN_TYPES;
use crate::requested::{ByteUses, Requested};

impl Gatherer {
    /// What the part adds to the report, at the end of the trace.
    pub(crate) fn conclude(mut self, end_ns: u64) -> ConcludedBytes {
        self.close(end_ns);
        self.concluded()
    }

    /// The same after everything was closed.
    fn concluded(mut self) -> ConcludedBytes {
        let regions = std::mem::take(&mut self.regions);
        let takes_kv_lives = self.kv_lives.is_some();
        let requested = self.requested.take();
        let requested = requested.map(|requested| Box::new(self.conclude_requested(&regions, &requested)));
        let kv = self.kv_lives.take().map(|lives| conclude_kv(lives.conclude(), &regions));
        let (regions, types) = conclude_regions(regions, takes_kv_lives);
        let is_first = self.followed.is_first();
        ConcludedBytes {
            regions,
            types,
            ordered: is_first.then_some(OrderedTallies { tallies: self.tallies, samples: self.samples }),
            step_bytes: self.steps.into_bytes(),
            steps: self.clock.steps(),
            paced_ns: self.clock.at_pace_ns(self.step_ns),
            kv,
            requested,
        }
    }

    fn conclude_requested(&self, regions: &[Region], requested: &Requested) -> ConcludedRequested {
        let of_type = |type_index: usize| {
            let positions = regions
                .iter()
                .enumerate()
                .filter(|(_, region)| region.type_index == type_index)
                .map(|(position, _)| position);
            requested.of_type(type_index, positions)
        };
        // Of samples nobody can tell what was done to single bytes.
        let uses = requested.uses.iter().flatten().filter(|_| !self.samples.is_sampled());
        let of_region = |(uses, region): (&ByteUses, &Region)| RegionUses {
            region_id: region.region_id,
            region_type: RegionType::ALL[region.type_index].name().into(),
            uses: uses.clone(),
        };
        ConcludedRequested {
            types: std::array::from_fn(of_type),
            region_uses: uses.zip(regions).map(of_region).collect(),
        }
    }

    /// The same of a sample: what was counted of rows, and what was followed of each of so many groups.
    pub(crate) fn conclude_groups(mut self, end_ns: u64, groups: u16) -> (ConcludedBytes, Vec<ConcludedBytes>) {
        self.close(end_ns);
        let mut by_group: Vec<Vec<Region>> = (0..=groups).map(|_| Vec::new()).collect();
        std::mem::take(&mut self.regions)
            .into_iter()
            .for_each(|region| by_group[usize::from(region.group)].push(region));
        let counted = by_group.pop().unwrap_or_default();
        let steps = (self.clock.steps(), self.steps.bytes().len(), self.clock.at_pace_ns(self.step_ns));
        let followed = by_group.into_iter().map(|regions| conclude_group(regions, self.kv_lives.is_some(), steps));
        let followed: Vec<ConcludedBytes> = followed.collect();
        self.regions = counted;
        (self.concluded(), followed)
    }
}

/// What was followed of one group. It says nothing of steps, rows and tables, which are not those of a group.
fn conclude_group(
    regions: Vec<Region>,
    takes_kv_lives: bool,
    (steps, places, paced_ns): (u64, usize, f64),
) -> ConcludedBytes {
    let (regions, types) = conclude_regions(regions, takes_kv_lives);
    ConcludedBytes {
        regions,
        types,
        ordered: None,
        step_bytes: vec![[0; KNOWN_TYPES]; places],
        steps,
        paced_ns,
        kv: takes_kv_lives.then(ConcludedKv::default),
        requested: None,
    }
}

fn conclude_regions(
    regions: Vec<Region>,
    takes_kv_lives: bool,
) -> (Vec<ConcludedRegion>, [TypeFootprint; KNOWN_TYPES]) {
    let stored_anywhere = union(regions.iter().flat_map(|region| region.footprint.stored().iter().copied()));
    let types = std::array::from_fn(|type_index| {
        let is_replaced = takes_kv_lives && type_index == KV_CACHE;
        type_footprint(&regions, type_index, &stored_anywhere, is_replaced)
    });
    let mut concluded: Vec<ConcludedRegion> =
        regions.into_iter().map(|region| conclude_region(region, &stored_anywhere, takes_kv_lives)).collect();
    concluded.sort_unstable_by_key(|region| region.key);
    (concluded, types)
}

fn key(region: &Region) -> RegionKey {
    (region.region_id, region.type_index as u8)
}

fn conclude_region(region: Region, stored_anywhere: &[ByteRange], takes_kv_lives: bool) -> ConcludedRegion {
    let footprint = &region.footprint;
    let is_replaced = takes_kv_lives && region.type_index == KV_CACHE;
    let stored = StoredBytes {
        seen: byte_count(footprint.stored()),
        more_than_once: byte_count(footprint.restored()),
        inferred: bytes_outside(footprint.touched().iter().copied(), stored_anywhere),
    };
    ConcludedRegion {
        key: key(&region),
        first_seen_ns: region.first_seen_ns,
        last_seen_ns: region.last_seen_ns,
        basis: region.basis,
        counts: region.counts,
        touched_bytes: byte_count(footprint.touched()),
        touched_pages: page_count(footprint.touched().iter().copied()),
        stored: if is_replaced { StoredBytes::default() } else { stored },
        lives: region.lives,
        intervals_ns: region.intervals_ns,
    }
}

/// Regions may share bytes, so what all regions of a type touched and stored is not the sum of theirs.
fn type_footprint(
    regions: &[Region],
    type_index: usize,
    stored_anywhere: &[ByteRange],
    is_replaced: bool,
) -> TypeFootprint {
    let footprints = || regions.iter().filter(|region| region.type_index == type_index).map(|region| &region.footprint);
    let touched = union(footprints().flat_map(|footprint| footprint.touched().iter().copied()));
    let mut stored = StoredBytes::default();
    if !is_replaced {
        // A byte that two regions of the type stored was stored more than once.
        let stores = Coverage::of(footprints().flat_map(|footprint| footprint.stored().iter().copied()));
        let restored = footprints().flat_map(|footprint| footprint.restored().iter().copied());
        stored = StoredBytes {
            seen: byte_count(&stores.once),
            more_than_once: byte_count(&union(restored.chain(stores.twice))),
            inferred: bytes_outside(touched.iter().copied(), stored_anywhere),
        };
    }
    TypeFootprint { distinct_bytes: byte_count(&touched), distinct_pages: page_count(touched.iter().copied()), stored }
}

/// A tensor belongs to the region that touched its first byte; of several, to the one with the lowest id. The part that has
/// the byte can tell.
fn conclude_kv(tensors: BTreeMap<TensorKey, KvTensor>, regions: &[Region]) -> ConcludedKv {
    let mut caches: Vec<&Region> = regions.iter().filter(|region| region.type_index == KV_CACHE).collect();
    caches.sort_unstable_by_key(|region| region.region_id);
    let has_touched = |region: &Region, address: u64| {
        let touched = region.footprint.touched();
        let after = touched.partition_point(|&(start, _)| start <= address);
        after > 0 && address < touched[after - 1].1
    };
    let region_of = |tensor: &KvTensor| caches.iter().find(|region| has_touched(region, tensor.lowest_address));
    let places = tensors.iter().filter_map(|(key, tensor)| Some((*key, region_of(tensor)?.region_id))).collect();
    ConcludedKv { tensors, places }
}

/// Types are told apart by one byte in keys of regions.
const _: () = assert!(KNOWN_TYPES <= u8::MAX as usize);
