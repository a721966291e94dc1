//! What parts of a trace add up to: what the report is made of, without any map of bytes.
//!
//! All sums are of whole numbers, so that the report does not depend on the order in which parts are merged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::kv_lives::{KvTensor, TensorKey};
use crate::metrics::TypeTallies;
use crate::metrics::hot_cold::RegionUses;
use crate::metrics::read_frequency::AccessCounts;
use crate::metrics::retention::LifeTally;
use crate::metrics::write_once::StoredBytes;
use crate::region_type::KNOWN_TYPES;
use crate::requested::RequestedOfType;
use crate::sampling::SamplerTally;
use crate::{AnalysisError, Basis};

/// Id, and place of the type in [`RegionType::ALL`](dwell_events::RegionType::ALL). An id that appears with two types is two
/// regions.
pub(crate) type RegionKey = (u64, u8);

/// What is concluded of one region, from the bytes and rows of it that are in the part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ConcludedRegion {
    pub(crate) key: RegionKey,
    pub(crate) first_seen_ns: u64,
    pub(crate) last_seen_ns: u64,
    pub(crate) basis: Basis,
    pub(crate) counts: AccessCounts,
    pub(crate) touched_bytes: u64,
    pub(crate) touched_pages: u64,
    /// None where the lives are those of a table of blocks.
    pub(crate) stored: StoredBytes,
    pub(crate) lives: LifeTally,
    pub(crate) intervals_ns: Distribution,
}

impl ConcludedRegion {
    pub(crate) fn merge(&mut self, other: &ConcludedRegion) {
        self.first_seen_ns = self.first_seen_ns.min(other.first_seen_ns);
        self.last_seen_ns = self.last_seen_ns.max(other.last_seen_ns);
        self.basis = self.basis.max(other.basis);
        self.counts.add(other.counts);
        self.touched_bytes = self.touched_bytes.saturating_add(other.touched_bytes);
        self.touched_pages = self.touched_pages.saturating_add(other.touched_pages);
        self.stored.add(other.stored);
        self.lives.merge(&other.lives);
        self.intervals_ns.merge(&other.intervals_ns);
    }

    pub(crate) fn type_index(&self) -> usize {
        usize::from(self.key.1)
    }
}

/// What the regions of one type touched and stored, where shared bytes count once.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TypeFootprint {
    pub(crate) distinct_bytes: u64,
    pub(crate) distinct_pages: u64,
    pub(crate) stored: StoredBytes,
}

impl TypeFootprint {
    fn merge(&mut self, other: &TypeFootprint) {
        self.distinct_bytes = self.distinct_bytes.saturating_add(other.distinct_bytes);
        self.distinct_pages = self.distinct_pages.saturating_add(other.distinct_pages);
        self.stored.add(other.stored);
    }
}

/// What needs all rows in order. The first part alone has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OrderedTallies {
    /// By region type.
    pub(crate) tallies: [TypeTallies; KNOWN_TYPES],
    pub(crate) samples: SamplerTally,
}

/// The lives of KV blocks, where a table has them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ConcludedKv {
    /// In the order of their keys.
    pub(crate) tensors: BTreeMap<TensorKey, KvTensor>,
    /// The regions of the tensors whose first byte is in the part, by id.
    pub(crate) places: BTreeMap<TensorKey, u64>,
}

impl ConcludedKv {
    fn merge(&mut self, other: ConcludedKv) {
        for (key, tensor) in other.tensors {
            match self.tensors.get_mut(&key) {
                Some(known) => known.merge(&tensor),
                None => drop(self.tensors.insert(key, tensor)),
            }
        }
        self.places.extend(other.places);
    }
}

/// What is concluded of a part of a trace by dwell's definitions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ConcludedBytes {
    /// By key.
    pub(crate) regions: Vec<ConcludedRegion>,
    pub(crate) types: [TypeFootprint; KNOWN_TYPES],
    pub(crate) ordered: Option<OrderedTallies>,
    /// Bytes that each step touched, in the order in which steps were first seen, which is the same in all parts.
    pub(crate) step_bytes: Vec<[u64; KNOWN_TYPES]>,
    /// Steps of the process that made the most of them; the same in all parts.
    pub(crate) steps: u64,
    /// How long those take at the pace that suitability is rated at; likewise.
    pub(crate) paced_ns: f64,
    pub(crate) kv: Option<ConcludedKv>,
    /// What metrics on request need, which are computed of a whole trace alone.
    #[serde(skip)]
    pub(crate) requested: Option<Box<ConcludedRequested>>,
}

/// What metrics on request need.
#[derive(Clone, Debug)]
pub(crate) struct ConcludedRequested {
    /// By region type.
    pub(crate) types: [RequestedOfType; KNOWN_TYPES],
    pub(crate) region_uses: Vec<RegionUses>,
}

impl ConcludedBytes {
    pub(crate) fn merge(&mut self, other: ConcludedBytes) -> Result<(), AnalysisError> {
        let unlike = |difference| Err(AnalysisError::UnlikeParts { difference });
        match (&mut self.kv, other.kv) {
            (None, None) => {}
            (Some(lives), Some(others)) => lives.merge(others),
            _ => return unlike("whether lives of KV blocks were given"),
        }
        if (self.steps, self.step_bytes.len()) != (other.steps, other.step_bytes.len()) {
            return unlike("their steps");
        }
        for (ours, theirs) in self.step_bytes.iter_mut().zip(&other.step_bytes) {
            ours.iter_mut().zip(theirs).for_each(|(ours, theirs)| *ours = ours.saturating_add(*theirs));
        }
        self.types.iter_mut().zip(&other.types).for_each(|(ours, theirs)| ours.merge(theirs));
        self.ordered = self.ordered.take().or(other.ordered);
        self.merge_regions(other.regions);
        Ok(())
    }

    fn merge_regions(&mut self, others: Vec<ConcludedRegion>) {
        let mut merged = Vec::with_capacity(self.regions.len().max(others.len()));
        let mut ours = std::mem::take(&mut self.regions).into_iter().peekable();
        for other in others {
            while let Some(before) = ours.next_if(|region| region.key < other.key) {
                merged.push(before);
            }
            match ours.next_if(|region| region.key == other.key) {
                Some(mut region) => {
                    region.merge(&other);
                    merged.push(region);
                }
                None => merged.push(other),
            }
        }
        merged.extend(ours);
        self.regions = merged;
    }

    /// Memory that it holds, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let held = |region: &ConcludedRegion| region.lives.held_bytes() + region.intervals_ns.held_bytes();
        let regions: usize = self.regions.iter().map(held).sum();
        let steps = self.step_bytes.capacity() * size_of::<[u64; KNOWN_TYPES]>();
        regions + self.regions.capacity() * size_of::<ConcludedRegion>() + steps
    }

    /// Whether what was read from elsewhere can be merged and reported on.
    pub(crate) fn is_sound(&self) -> bool {
        let is_known = |region: &ConcludedRegion| region.type_index() < KNOWN_TYPES;
        self.regions.iter().all(is_known) && self.regions.is_sorted_by(|before, after| before.key < after.key)
    }
}
