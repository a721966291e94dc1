//! From what was gathered by dwell's definitions to totals and rows of figures.

use dwell_events::RegionType;

use crate::distribution::Distribution;
use crate::gatherer::{Gatherer, KV_CACHE, Region};
use crate::metrics::NS_PER_S;
use crate::metrics::inter_access_interval;
use crate::metrics::working_set::WorkingSet;
use crate::metrics::write_once::StoredBytes;
use crate::observation::Observation;
use crate::ranges::{ByteRange, Coverage, byte_count, bytes_outside, page_count, union};
use crate::region_type::RegionTypeName;
use crate::table::{ObservationWindow, RegionFigures, RegionName};
use crate::totals::{Tallied, Totals, TypeTotals};

/// The totals of all region types, and the rows of all regions by id.
pub(crate) fn summarise(
    mut gatherer: Gatherer,
    window: ObservationWindow,
    gaps_ns: &Distribution,
) -> (Totals, Vec<RegionFigures>) {
    gatherer.close(window.last_ns);
    let observation = Observation {
        samples: std::mem::take(&mut gatherer.samples),
        window_s: window.duration_s(),
        resolution_s: gaps_ns.quantile(0.5).unwrap_or(0.0) / NS_PER_S,
        steps: gatherer.clock.steps(),
    };
    let stored_anywhere = union(gatherer.regions.iter().flat_map(|region| region.footprint.stored().iter().copied()));
    let (tallied, unplaced) = tally_regions(&mut gatherer, &stored_anywhere);
    let types: Vec<TypeTotals> = (0..RegionType::ALL.len())
        .filter_map(|type_index| type_totals(&mut gatherer, type_index, &tallied, &unplaced, &stored_anywhere))
        .collect();
    let regions = region_rows(&gatherer, &tallied, &observation);
    (Totals { types, observation }, regions)
}

/// What each region's rows are made of, in the gatherer's order, and the KV tensors that lie in no region.
fn tally_regions(gatherer: &mut Gatherer, stored_anywhere: &[ByteRange]) -> (Vec<Tallied>, Tallied) {
    let takes_kv_lives = gatherer.kv_lives.is_some();
    let own = |region: &mut Region| {
        let is_replaced = takes_kv_lives && region.type_index == KV_CACHE;
        let stored = if is_replaced { StoredBytes::default() } else { stored_bytes(region, stored_anywhere) };
        let has_traced_intervals = region.has_intervals();
        Tallied {
            basis: region.basis,
            lives: std::mem::take(&mut region.lives),
            counts: region.counts,
            intervals_ns: std::mem::take(&mut region.intervals_ns),
            interval_basis: region.basis,
            stored,
            has_kv_lives: is_replaced,
            has_traced_intervals,
        }
    };
    let mut tallied: Vec<Tallied> = gatherer.regions.iter_mut().map(own).collect();
    let mut unplaced = Tallied::default();
    let places = kv_places(gatherer);
    for tensor in gatherer.kv_lives.iter().flat_map(|lives| lives.tensors()) {
        let place = places.partition_point(|&((start, _), _)| start <= tensor.lowest_address);
        match place.checked_sub(1).map(|place| places[place]) {
            Some(((_, end), region)) if tensor.lowest_address < end => tallied[region].add_kv_tensor(tensor),
            _ => unplaced.add_kv_tensor(tensor),
        }
    }
    (tallied, unplaced)
}

/// Where the regions of the KV cache lie.
fn kv_places(gatherer: &Gatherer) -> Vec<(ByteRange, usize)> {
    let regions = gatherer.regions.iter().enumerate().filter(|(_, region)| region.type_index == KV_CACHE);
    let mut places: Vec<(ByteRange, usize)> = regions
        .flat_map(|(position, region)| region.footprint.touched().iter().map(move |&range| (range, position)))
        .collect();
    places.sort_unstable();
    places
}

fn stored_bytes(region: &Region, stored_anywhere: &[ByteRange]) -> StoredBytes {
    StoredBytes {
        seen: byte_count(region.footprint.stored()),
        more_than_once: byte_count(region.footprint.restored()),
        inferred: bytes_outside(region.footprint.touched().iter().copied(), stored_anywhere),
    }
}

/// None if the trace has nothing of the type.
fn type_totals(
    gatherer: &mut Gatherer,
    type_index: usize,
    tallied: &[Tallied],
    unplaced: &Tallied,
    stored_anywhere: &[ByteRange],
) -> Option<TypeTotals> {
    let of_type = || gatherer.regions.iter().zip(tallied).filter(|(region, _)| region.type_index == type_index);
    let touched = union(of_type().flat_map(|(region, _)| region.footprint.touched().iter().copied()));
    let mut all = Tallied::default();
    of_type().for_each(|(_, tallied)| all.merge(tallied));
    if type_index == KV_CACHE && gatherer.kv_lives.is_some() {
        of_type().for_each(|(_, tallied)| all.stored.add(tallied.stored));
        all.merge(unplaced);
        all.stored.add(unplaced.stored);
    } else {
        all.stored = type_stored_bytes(of_type().map(|(region, _)| region), &touched, stored_anywhere);
    }
    let n_regions = of_type().count() as u64;
    let has_lives = all.lives.reads_per_life().is_some();
    (n_regions > 0 || has_lives).then(|| TypeTotals {
        type_index,
        n_regions,
        distinct_bytes: byte_count(&touched),
        distinct_pages: page_count(touched.iter().copied()),
        tallied: all,
        tallies: std::mem::take(&mut gatherer.tallies[type_index]),
        step_bytes: gatherer.steps.bytes_of(type_index),
    })
}

/// A byte that two regions of the type stored was stored more than once.
fn type_stored_bytes<'a>(
    regions: impl Iterator<Item = &'a Region> + Clone,
    touched: &[ByteRange],
    stored_anywhere: &[ByteRange],
) -> StoredBytes {
    let stored = Coverage::of(regions.clone().flat_map(|region| region.footprint.stored().iter().copied()));
    let restored = regions.flat_map(|region| region.footprint.restored().iter().copied());
    StoredBytes {
        seen: byte_count(&stored.once),
        more_than_once: byte_count(&union(restored.chain(stored.twice))),
        inferred: bytes_outside(touched.iter().copied(), stored_anywhere),
    }
}

/// By id, then by type.
fn region_rows(gatherer: &Gatherer, tallied: &[Tallied], observation: &Observation) -> Vec<RegionFigures> {
    let names = RegionType::ALL.map(|region_type| RegionTypeName::from(region_type.name()));
    let mut rows: Vec<(&Region, &Tallied)> = gatherer.regions.iter().zip(tallied).collect();
    rows.sort_by_key(|(region, _)| (region.region_id, &names[region.type_index]));
    let row = |(region, tallied): (&Region, &Tallied)| {
        region_row(observation, region, tallied, names[region.type_index].clone())
    };
    rows.into_iter().map(row).collect()
}

fn region_row(
    observation: &Observation,
    region: &Region,
    tallied: &Tallied,
    region_type: RegionTypeName,
) -> RegionFigures {
    RegionFigures {
        region_id: region.region_id,
        name: RegionName::default(),
        region_type,
        first_seen_ns: Some(region.first_seen_ns),
        last_seen_ns: Some(region.last_seen_ns),
        retention: tallied.retention(observation),
        write_once: tallied.write_once(observation),
        read_frequency: tallied.counts.figures(tallied.basis, tallied.reads_per_life(observation)),
        working_set: WorkingSet {
            basis: tallied.basis,
            distinct_bytes: byte_count(region.footprint.touched()),
            distinct_pages: page_count(region.footprint.touched().iter().copied()),
            step_median_bytes: None,
            step_max_bytes: None,
        },
        locality: None,
        inter_access_interval: (tallied.intervals_ns.weight() > 0)
            .then(|| inter_access_interval::figures(&tallied.intervals_ns, tallied.interval_basis)),
    }
}
