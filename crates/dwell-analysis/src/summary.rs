//! From what was concluded by dwell's definitions to totals and rows of figures.

use dwell_events::RegionType;

use crate::concluded::{ConcludedBytes, ConcludedKv, ConcludedRegion};
use crate::distribution::Distribution;
use crate::gatherer::KV_CACHE;
use crate::metrics::inter_access_interval;
use crate::metrics::working_set::WorkingSet;
use crate::metrics::{NS_PER_S, TypeTallies};
use crate::observation::Observation;
use crate::region_type::{KNOWN_TYPES, RegionTypeName};
use crate::table::{ObservationWindow, RegionFigures, RegionName};
use crate::totals::{Tallied, Totals, TypeTotals};

/// The totals of all region types, and the rows of all regions by id.
pub(crate) fn summarise(
    mut concluded: ConcludedBytes,
    window: ObservationWindow,
    gaps_ns: &Distribution,
) -> (Totals, Vec<RegionFigures>) {
    let ordered = concluded.ordered.take();
    let (mut tallies, samples) = ordered.map(|ordered| (ordered.tallies, ordered.samples)).unwrap_or_default();
    let observation = Observation {
        samples,
        window_s: window.duration_s(),
        resolution_s: gaps_ns.quantile(0.5).unwrap_or(0.0) / NS_PER_S,
        steps: concluded.steps,
        paced_s: concluded.paced_ns / NS_PER_S,
    };
    let (tallied, unplaced) = tally_regions(&mut concluded);
    let types: Vec<TypeTotals> = (0..KNOWN_TYPES)
        .filter_map(|type_index| type_totals(&concluded, &mut tallies[type_index], type_index, &tallied, &unplaced))
        .collect();
    let regions = region_rows(&concluded.regions, &tallied, &observation);
    (Totals { types, observation }, regions)
}

/// What each region's rows are made of, in the order of the regions, and the KV tensors that lie in no region.
fn tally_regions(concluded: &mut ConcludedBytes) -> (Vec<Tallied>, Tallied) {
    let takes_kv_lives = concluded.kv.is_some();
    let own = |region: &mut ConcludedRegion| Tallied {
        basis: region.basis,
        counts: region.counts,
        interval_basis: region.basis,
        stored: region.stored,
        has_kv_lives: takes_kv_lives && region.type_index() == KV_CACHE,
        has_traced_intervals: region.intervals_ns.largest_seen().is_some(),
        lives: std::mem::take(&mut region.lives),
        intervals_ns: std::mem::take(&mut region.intervals_ns),
    };
    let mut tallied: Vec<Tallied> = concluded.regions.iter_mut().map(own).collect();
    let mut unplaced = Tallied::default();
    for (key, tensor) in concluded.kv.iter().flat_map(|kv| &kv.tensors) {
        let place = concluded.kv.as_ref().and_then(|kv| kv_place(kv, *key, &concluded.regions));
        place.map_or(&mut unplaced, |place| &mut tallied[place]).add_kv_tensor(tensor);
    }
    (tallied, unplaced)
}

/// Where the region of a tensor is.
fn kv_place(kv: &ConcludedKv, tensor: crate::kv_lives::TensorKey, regions: &[ConcludedRegion]) -> Option<usize> {
    let key = (*kv.places.get(&tensor)?, KV_CACHE as u8);
    regions.binary_search_by_key(&key, |region| region.key).ok()
}

/// None if the trace has nothing of the type.
fn type_totals(
    concluded: &ConcludedBytes,
    tallies: &mut TypeTallies,
    type_index: usize,
    tallied: &[Tallied],
    unplaced: &Tallied,
) -> Option<TypeTotals> {
    let regions = concluded.regions.iter().zip(tallied);
    let of_type =
        || regions.clone().filter(|(region, _)| region.type_index() == type_index).map(|(_, tallied)| tallied);
    let footprint = &concluded.types[type_index];
    let mut all = Tallied { stored: footprint.stored, ..Tallied::default() };
    of_type().for_each(|tallied| all.merge(tallied));
    if type_index == KV_CACHE && concluded.kv.is_some() {
        of_type().for_each(|tallied| all.stored.add(tallied.stored));
        all.merge(unplaced);
        all.stored.add(unplaced.stored);
    }
    let n_regions = of_type().count() as u64;
    let has_lives = all.lives.reads_per_life().is_some();
    (n_regions > 0 || has_lives).then(|| TypeTotals {
        type_index,
        n_regions,
        distinct_bytes: footprint.distinct_bytes,
        distinct_pages: footprint.distinct_pages,
        tallied: all,
        tallies: std::mem::take(tallies),
        step_bytes: concluded.step_bytes.iter().map(|bytes| bytes[type_index]).filter(|bytes| *bytes > 0).collect(),
        requested: concluded
            .requested
            .as_ref()
            .map(|requested| requested.types[type_index].clone())
            .unwrap_or_default(),
    })
}

/// By id, then by type.
fn region_rows(regions: &[ConcludedRegion], tallied: &[Tallied], observation: &Observation) -> Vec<RegionFigures> {
    let names = RegionType::ALL.map(|region_type| RegionTypeName::from(region_type.name()));
    let mut rows: Vec<(&ConcludedRegion, &Tallied)> = regions.iter().zip(tallied).collect();
    rows.sort_by_key(|(region, _)| (region.key.0, &names[region.type_index()]));
    let row = |(region, tallied): (&ConcludedRegion, &Tallied)| {
        region_row(observation, region, tallied, names[region.type_index()].clone())
    };
    rows.into_iter().map(row).collect()
}

fn region_row(
    observation: &Observation,
    region: &ConcludedRegion,
    tallied: &Tallied,
    region_type: RegionTypeName,
) -> RegionFigures {
    RegionFigures {
        region_id: region.key.0,
        name: RegionName::default(),
        region_type,
        first_seen_ns: Some(region.first_seen_ns),
        last_seen_ns: Some(region.last_seen_ns),
        retention: tallied.retention(observation),
        write_once: tallied.write_once(observation),
        read_frequency: tallied.counts.figures(tallied.basis, tallied.reads_per_life(observation)),
        working_set: WorkingSet {
            basis: tallied.basis,
            distinct_bytes: region.touched_bytes,
            distinct_pages: region.touched_pages,
            step_median_bytes: None,
            step_max_bytes: None,
        },
        locality: None,
        inter_access_interval: (tallied.intervals_ns.weight() > 0)
            .then(|| inter_access_interval::figures(&tallied.intervals_ns, tallied.interval_basis)),
    }
}
