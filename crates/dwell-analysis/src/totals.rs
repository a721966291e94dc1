//! What the figures of a trace are computed from, by region type: what parts of a trace, or several runs, add up to.

use dwell_events::RegionType;

use crate::Basis;
use crate::distribution::Distribution;
use crate::histogram::GatheredLives;
use crate::kv_lives::KvTensor;
use crate::metrics::read_frequency::AccessCounts;
use crate::metrics::retention::{LifeTally, Retention};
use crate::metrics::suitability::SuitabilityThresholds;
use crate::metrics::write_once::{StoredBytes, WriteOnce};
use crate::metrics::{OfType, RegionTypeRow, TypeTallies};
use crate::observation::Observation;
use crate::requested::RequestedOfType;
use crate::sampling::{not_estimable_retention, not_estimable_write_once};

/// What a row of figures is made of, of one region or of all regions of a type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallied {
    pub(crate) basis: Basis,
    pub(crate) lives: LifeTally,
    pub(crate) counts: AccessCounts,
    pub(crate) intervals_ns: Distribution,
    pub(crate) interval_basis: Basis,
    pub(crate) stored: StoredBytes,
    /// The lives are those of a table, whatever rows were seen.
    pub(crate) has_kv_lives: bool,
    /// The intervals are between rows of the trace.
    pub(crate) has_traced_intervals: bool,
}

impl Tallied {
    /// All but the stored bytes, which regions may share.
    pub(crate) fn merge(&mut self, other: &Tallied) {
        self.basis = self.basis.max(other.basis);
        self.lives.merge(&other.lives);
        self.counts.add(other.counts);
        self.intervals_ns.merge(&other.intervals_ns);
        self.interval_basis = self.interval_basis.max(other.interval_basis);
        self.has_kv_lives |= other.has_kv_lives;
    }

    /// Adds the lives of a cache tensor. Where no row of the trace came to its memory, its intervals are known as the mean of
    /// each block's only.
    pub(crate) fn add_kv_tensor(&mut self, tensor: &KvTensor) {
        if !self.has_traced_intervals {
            self.intervals_ns.merge(&tensor.intervals_ns);
            self.interval_basis = Basis::Inferred;
        }
        self.basis = self.basis.max(tensor.basis);
        self.lives.merge(&tensor.lives);
        self.stored.add(tensor.stored);
        self.has_kv_lives = true;
    }

    /// Whether lives were followed along samples.
    pub(crate) fn is_sampled(&self, observation: &Observation) -> bool {
        observation.samples.is_sampled() && !self.has_kv_lives
    }

    pub(crate) fn retention(&self, observation: &Observation) -> Retention {
        if !self.is_sampled(observation) {
            return self.lives.figures(self.basis, observation);
        }
        let basis = self.basis.max(Basis::Sampled);
        match observation.samples.sampler() {
            Ok(sampler) => sampler.retention(&self.lives, basis),
            Err(obstacle) => not_estimable_retention(obstacle, basis),
        }
    }

    pub(crate) fn write_once(&self, observation: &Observation) -> WriteOnce {
        if !self.is_sampled(observation) {
            let basis = if self.lives.has_unseen_stores() { Basis::Inferred } else { self.basis };
            return self.stored.figures(basis);
        }
        let basis = self.basis.max(Basis::Sampled);
        match observation.samples.sampler() {
            Ok(sampler) => sampler.write_once(&self.stored, basis),
            Err(_) => not_estimable_write_once(basis),
        }
    }

    /// Loads of a byte in one of its lives; none if lives cannot be followed.
    pub(crate) fn reads_per_life(&self, observation: &Observation) -> Option<f64> {
        if self.is_sampled(observation) { None } else { self.lives.reads_per_life() }
    }
}

/// What the figures of one region type are made of.
#[derive(Clone, Debug)]
pub(crate) struct TypeTotals {
    /// Place in [`RegionType::ALL`].
    pub(crate) type_index: usize,
    pub(crate) n_regions: u64,
    pub(crate) distinct_bytes: u64,
    pub(crate) distinct_pages: u64,
    pub(crate) tallied: Tallied,
    pub(crate) tallies: TypeTallies,
    /// Bytes touched in each step window that touched any, in any order.
    pub(crate) step_bytes: Vec<u64>,
    /// What only metrics on request need.
    pub(crate) requested: RequestedOfType,
}

impl TypeTotals {
    pub(crate) fn region_type(&self) -> RegionType {
        RegionType::ALL[self.type_index]
    }

    fn merge(&mut self, other: &TypeTotals) {
        self.n_regions += other.n_regions;
        self.distinct_bytes = self.distinct_bytes.saturating_add(other.distinct_bytes);
        self.distinct_pages += other.distinct_pages;
        self.tallied.merge(&other.tallied);
        self.tallied.stored.add(other.tallied.stored);
        self.tallies.merge(&other.tallies);
        self.step_bytes.extend(&other.step_bytes);
        self.requested.merge(&other.requested);
    }
}

/// What the figures of a run are made of, by region type.
///
/// The totals of several runs add up, because no two of them share memory: the lives, accesses and working sets of both
/// count. Parts of one trace share regions and steps; they are merged before, by [`crate::Analyser::merge`].
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// By name of the type.
    pub(crate) types: Vec<TypeTotals>,
    pub(crate) observation: Observation,
}

impl Totals {
    /// Adds the totals of another run.
    pub fn merge(&mut self, other: &Totals) {
        for of_type in &other.types {
            match self.types.binary_search_by_key(&of_type.type_index, |known| known.type_index) {
                Ok(place) => self.types[place].merge(of_type),
                Err(place) => self.types.insert(place, of_type.clone()),
            }
        }
        self.observation.merge(&other.observation);
    }

    /// One row per region type that occurs, by name.
    pub fn region_types(&self, thresholds: &SuitabilityThresholds) -> Vec<RegionTypeRow> {
        let row = |totals| RegionTypeRow::of(&OfType { totals, observation: &self.observation, thresholds });
        self.types.iter().map(row).collect()
    }

    /// The retention that 99 % of all lives do not exceed, weighted by bytes, whatever memory they are in; none if the trace
    /// ended before that was reached, or if lives were followed along samples.
    pub(crate) fn retention_p99_s(&self) -> Option<f64> {
        self.whole()?.lives.figures(Basis::Exact, &self.observation).p99_s
    }

    /// The share of all stored bytes that were stored once; none if they were followed along samples.
    pub(crate) fn write_once_ratio(&self) -> Option<f64> {
        self.whole()?.stored.figures(Basis::Exact).ratio
    }

    /// All types together.
    fn whole(&self) -> Option<Tallied> {
        let mut whole = Tallied::default();
        for of_type in &self.types {
            if of_type.tallied.is_sampled(&self.observation) {
                return None;
            }
            whole.merge(&of_type.tallied);
            whole.stored.add(of_type.tallied.stored);
        }
        Some(whole)
    }

    /// The types whose lives were not followed along samples.
    pub(crate) fn exact_types(&self) -> impl Iterator<Item = &TypeTotals> {
        self.types.iter().filter(|of_type| !of_type.tallied.is_sampled(&self.observation))
    }

    /// The lives of the types whose retention is exact.
    pub(crate) fn gathered_lives(&self) -> Vec<GatheredLives> {
        self.exact_types().map(|of_type| of_type.tallied.lives.gathered(of_type.region_type().name().into())).collect()
    }
}

/// Equal lives, because all else is in the rows of a report.
impl PartialEq for Totals {
    fn eq(&self, other: &Self) -> bool {
        self.gathered_lives() == other.gathered_lives()
    }
}
