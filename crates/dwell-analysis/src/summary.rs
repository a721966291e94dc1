//! From what was gathered by dwell's definitions to rows of figures.

use dwell_events::RegionType;

use crate::Basis;
use crate::collector::{DwellCollector, KV_CACHE, Region};
use crate::distribution::Distribution;
use crate::histogram::GatheredLives;
use crate::kv_lives::KvTensor;
use crate::metrics::inter_access_interval;
use crate::metrics::read_frequency::AccessCounts;
use crate::metrics::retention::{LifeTally, Retention};
use crate::metrics::suitability::SuitabilityThresholds;
use crate::metrics::working_set::WorkingSet;
use crate::metrics::write_once::{StoredBytes, WriteOnce};
use crate::ranges::{ByteRange, byte_count, bytes_outside, covered_at_least, page_count};
use crate::sampling::{not_estimable_retention, not_estimable_write_once};
use crate::table::{RegionRow, RegionTypeRow};

/// Everything that a row of figures is made of, of one region or of all regions of a type.
#[derive(Default)]
struct Facts {
    basis: Basis,
    lives: LifeTally,
    counts: AccessCounts,
    intervals_ns: Distribution,
    interval_basis: Basis,
    stored: StoredBytes,
    /// The lives are those of a table, whatever rows were seen.
    has_kv_lives: bool,
}

impl Facts {
    /// What a region's own accesses say.
    fn of_region(region: &Region, stored: StoredBytes) -> Self {
        Self {
            basis: region.basis,
            lives: region.lives.clone(),
            counts: region.counts,
            intervals_ns: region.intervals_ns.clone(),
            interval_basis: region.basis,
            stored,
            has_kv_lives: false,
        }
    }

    /// All but the stored bytes, which regions may share.
    fn merge(&mut self, other: &Facts) {
        self.basis = self.basis.max(other.basis);
        self.lives.merge(&other.lives);
        self.counts.add(other.counts);
        self.intervals_ns.merge(&other.intervals_ns);
        self.interval_basis = self.interval_basis.max(other.interval_basis);
        self.has_kv_lives |= other.has_kv_lives;
    }

    fn add_kv_tensor(&mut self, tensor: &KvTensor) {
        self.basis = self.basis.max(tensor.basis);
        self.lives.merge(&tensor.lives);
        self.intervals_ns.merge(&tensor.intervals_ns);
        // Only the mean of a block's intervals is known.
        self.interval_basis = Basis::Inferred;
        self.stored.add(tensor.stored_bytes());
        self.has_kv_lives = true;
    }

    /// Whether lives were followed along samples.
    fn is_sampled(&self, collector: &DwellCollector) -> bool {
        collector.samples.is_sampled() && !self.has_kv_lives
    }

    fn life_figures(&self, collector: &DwellCollector) -> (Retention, WriteOnce) {
        if !self.is_sampled(collector) {
            return (self.lives.figures(self.basis), self.stored.figures(self.basis));
        }
        let basis = self.basis.max(Basis::Sampled);
        match collector.samples.sampler() {
            Ok(sampler) => (sampler.retention(&self.lives, basis), sampler.write_once(&self.stored, basis)),
            Err(obstacle) => (not_estimable_retention(obstacle, basis), not_estimable_write_once(basis)),
        }
    }

    /// Loads of a byte in one of its lives; none if lives cannot be followed.
    fn reads_per_life(&self, collector: &DwellCollector) -> Option<f64> {
        if self.is_sampled(collector) { None } else { self.lives.reads_per_life() }
    }
}

/// What was gathered, as figures.
pub(crate) struct Summarised {
    /// By name.
    pub(crate) region_types: Vec<RegionTypeRow>,
    /// By id.
    pub(crate) regions: Vec<RegionRow>,
    /// Of the types whose retention is exact.
    pub(crate) lives: Vec<GatheredLives>,
}

/// The rows of all regions and of all region types.
pub(crate) fn summarise(
    mut collector: DwellCollector,
    thresholds: &SuitabilityThresholds,
    window_s: f64,
) -> Summarised {
    collector.close();
    let stored_anywhere =
        covered_at_least(1, collector.regions.iter().flat_map(|region| region.footprint.stored.iter()));
    let (mut facts, unplaced) = region_facts(&collector, &stored_anywhere);
    let types: Vec<TypeFacts> = (0..RegionType::ALL.len())
        .filter_map(|type_index| type_facts(&collector, type_index, &facts, &unplaced, &stored_anywhere))
        .collect();
    let lives = types.iter().filter(|of_type| !of_type.facts.is_sampled(&collector)).map(TypeFacts::lives).collect();
    let region_types = types.into_iter().map(|of_type| type_row(&collector, of_type, thresholds, window_s)).collect();
    let mut regions: Vec<RegionRow> = collector
        .regions
        .iter()
        .zip(facts.drain(..))
        .map(|(region, facts)| region_row(&collector, region, &facts))
        .collect();
    regions.sort_by(|a, b| (a.region_id, &a.region_type).cmp(&(b.region_id, &b.region_type)));
    Summarised { region_types, regions, lives }
}

/// The facts of each region, in the collector's order, and of the KV tensors that lie in no region.
fn region_facts(collector: &DwellCollector, stored_anywhere: &[ByteRange]) -> (Vec<Facts>, Facts) {
    let takes_kv_lives = collector.kv_lives.is_some();
    let own_facts = |region: &Region| {
        let is_replaced = takes_kv_lives && region.type_index == KV_CACHE;
        let stored = if is_replaced { StoredBytes::default() } else { stored_bytes(region, stored_anywhere) };
        Facts { has_kv_lives: is_replaced, ..Facts::of_region(region, stored) }
    };
    let mut facts: Vec<Facts> = collector.regions.iter().map(own_facts).collect();
    let mut unplaced = Facts::default();
    let places = kv_places(collector);
    for tensor in collector.kv_lives.iter().flat_map(|lives| lives.tensors()) {
        let place = places.partition_point(|&((start, _), _)| start <= tensor.lowest_address);
        match place.checked_sub(1).map(|place| places[place]) {
            Some(((_, end), region)) if tensor.lowest_address < end => facts[region].add_kv_tensor(tensor),
            _ => unplaced.add_kv_tensor(tensor),
        }
    }
    (facts, unplaced)
}

/// Where the regions of the KV cache lie.
fn kv_places(collector: &DwellCollector) -> Vec<(ByteRange, usize)> {
    let regions = collector.regions.iter().enumerate().filter(|(_, region)| region.type_index == KV_CACHE);
    let mut places: Vec<(ByteRange, usize)> = regions
        .flat_map(|(position, region)| region.footprint.touched.iter().map(move |range| (range, position)))
        .collect();
    places.sort_unstable();
    places
}

fn stored_bytes(region: &Region, stored_anywhere: &[ByteRange]) -> StoredBytes {
    StoredBytes {
        seen: region.footprint.stored.byte_count(),
        more_than_once: region.footprint.restored.byte_count(),
        inferred: bytes_outside(region.footprint.touched.iter(), stored_anywhere),
    }
}

/// The facts of a type, with the memory that its regions touched.
struct TypeFacts {
    type_index: usize,
    n_regions: u64,
    touched: Vec<ByteRange>,
    facts: Facts,
}

impl TypeFacts {
    fn lives(&self) -> GatheredLives {
        self.facts.lives.gathered(RegionType::ALL[self.type_index].name().into())
    }
}

/// None if the trace has nothing of the type.
fn type_facts(
    collector: &DwellCollector,
    type_index: usize,
    facts: &[Facts],
    unplaced: &Facts,
    stored_anywhere: &[ByteRange],
) -> Option<TypeFacts> {
    let of_type = || collector.regions.iter().zip(facts).filter(|(region, _)| region.type_index == type_index);
    let touched = covered_at_least(1, of_type().flat_map(|(region, _)| region.footprint.touched.iter()));
    let mut all = Facts::default();
    of_type().for_each(|(_, facts)| all.merge(facts));
    let takes_kv_lives = type_index == KV_CACHE && collector.kv_lives.is_some();
    if takes_kv_lives {
        of_type().for_each(|(_, facts)| all.stored.add(facts.stored));
        all.merge(unplaced);
        all.stored.add(unplaced.stored);
    } else {
        all.stored = type_stored_bytes(of_type().map(|(region, _)| region), &touched, stored_anywhere);
    }
    let n_regions = of_type().count() as u64;
    let has_lives = all.lives.reads_per_life().is_some();
    (n_regions > 0 || has_lives).then_some(TypeFacts { type_index, n_regions, touched, facts: all })
}

/// A byte that two regions of the type stored was stored more than once.
fn type_stored_bytes<'a>(
    regions: impl Iterator<Item = &'a Region> + Clone,
    touched: &[ByteRange],
    stored_anywhere: &[ByteRange],
) -> StoredBytes {
    let stored = || regions.clone().flat_map(|region| region.footprint.stored.iter());
    let twice = covered_at_least(2, stored());
    let restored = regions.clone().flat_map(|region| region.footprint.restored.iter());
    StoredBytes {
        seen: byte_count(&covered_at_least(1, stored())),
        more_than_once: byte_count(&covered_at_least(1, restored.chain(twice))),
        inferred: bytes_outside(touched.iter().copied(), stored_anywhere),
    }
}

fn type_row(
    collector: &DwellCollector,
    TypeFacts { type_index, n_regions, touched, facts }: TypeFacts,
    thresholds: &SuitabilityThresholds,
    window_s: f64,
) -> RegionTypeRow {
    let region_type = RegionType::ALL[type_index];
    let (retention, write_once) = facts.life_figures(collector);
    let read_frequency = facts.counts.figures(facts.basis, facts.reads_per_life(collector));
    let (step_median_bytes, step_max_bytes) = collector.steps.median_and_max(type_index);
    RegionTypeRow {
        region_type: region_type.name().into(),
        n_regions,
        suitability: thresholds.rate(region_type, &write_once, &retention, &read_frequency, window_s),
        retention,
        write_once,
        read_frequency,
        working_set: WorkingSet {
            basis: facts.basis,
            distinct_bytes: byte_count(&touched),
            distinct_pages: page_count(touched.iter().copied()),
            step_median_bytes,
            step_max_bytes,
        },
        locality: collector.localities[type_index].figures(facts.basis),
        inter_access_interval: inter_access_interval::figures(&facts.intervals_ns, facts.interval_basis),
    }
}

fn region_row(collector: &DwellCollector, region: &Region, facts: &Facts) -> RegionRow {
    let (retention, write_once) = facts.life_figures(collector);
    RegionRow {
        region_id: region.region_id,
        region_type: RegionType::ALL[region.type_index].name().into(),
        first_seen_ns: Some(region.first_seen_ns),
        last_seen_ns: Some(region.last_seen_ns),
        retention,
        write_once,
        read_frequency: facts.counts.figures(facts.basis, facts.reads_per_life(collector)),
        working_set: WorkingSet {
            basis: facts.basis,
            distinct_bytes: region.footprint.touched.byte_count(),
            distinct_pages: page_count(region.footprint.touched.iter()),
            step_median_bytes: None,
            step_max_bytes: None,
        },
        locality: None,
        inter_access_interval: (facts.intervals_ns.weight() > 0)
            .then(|| inter_access_interval::figures(&facts.intervals_ns, facts.interval_basis)),
    }
}
