//! Gathers, row by row, what dwell's definitions need.

use dwell_events::{OpType, RegionType};

use crate::Basis;
use crate::distribution::Distribution;
use crate::kv_lives::KvLives;
use crate::lives::{Life, LifeMap, LifeSink, Touch};
use crate::metrics::locality::LocalityTally;
use crate::metrics::read_frequency::AccessCounts;
use crate::metrics::retention::{FinishedLife, LifeTally};
use crate::metrics::working_set::StepWindows;
use crate::ranges::{ByteRange, Footprint, RangeSet};
use crate::reader::{Access, BlockLife};
use crate::region_index::{RegionIndex, Slot};
use crate::region_type::{KNOWN_TYPES, known_index};
use crate::sampling::SamplerTally;

/// Place of the KV cache in [`RegionType::ALL`].
pub(crate) const KV_CACHE: usize = RegionType::KvCache as usize;

/// What is gathered of one region. An id that appears with two types is two regions.
pub(crate) struct Region {
    pub(crate) region_id: u64,
    /// Place in [`RegionType::ALL`].
    pub(crate) type_index: usize,
    pub(crate) first_seen_ns: u64,
    pub(crate) last_seen_ns: u64,
    pub(crate) basis: Basis,
    pub(crate) counts: AccessCounts,
    pub(crate) footprint: Footprint,
    pub(crate) lives: LifeTally,
    pub(crate) intervals_ns: Distribution,
}

impl Region {
    fn new(access: &Access) -> Self {
        Self {
            region_id: access.region_id,
            type_index: known_index(access.region_type),
            first_seen_ns: access.timestamp_ns,
            last_seen_ns: access.timestamp_ns,
            basis: access.basis,
            counts: AccessCounts::default(),
            footprint: Footprint::default(),
            lives: LifeTally::default(),
            intervals_ns: Distribution::default(),
        }
    }

    fn count(&mut self, access: &Access) {
        self.first_seen_ns = self.first_seen_ns.min(access.timestamp_ns);
        self.last_seen_ns = self.last_seen_ns.max(access.timestamp_ns);
        self.basis = self.basis.max(access.basis);
        self.counts.count(access);
    }
}

/// Follows a trace by dwell's definitions.
#[derive(Default)]
pub(crate) struct DwellCollector {
    index: RegionIndex,
    pub(crate) regions: Vec<Region>,
    lives: LifeMap,
    pub(crate) localities: [LocalityTally; KNOWN_TYPES],
    pub(crate) steps: StepWindows,
    /// Where the lives of the KV cache come from, if not from its accesses.
    pub(crate) kv_lives: Option<KvLives>,
    /// What the current step touched of the KV cache, if its lives come from elsewhere.
    kv_step: RangeSet,
    pub(crate) samples: SamplerTally,
}

impl DwellCollector {
    /// From now on accesses of the KV cache are counted, and its lives are those that are pushed.
    pub(crate) fn expect_kv_lives(&mut self) -> &mut KvLives {
        self.kv_lives.get_or_insert_default()
    }

    pub(crate) fn push_kv_life(&mut self, life: &BlockLife) {
        self.expect_kv_lives().push(life);
    }

    /// Takes a row.
    pub(crate) fn push(&mut self, access: &Access) {
        let type_index = known_index(access.region_type);
        let position = self.region(access, type_index);
        self.regions[position].count(access);
        if access.basis == Basis::Sampled {
            self.samples.follow(access);
        }
        self.localities[type_index].follow(access);
        let (window, is_new_window) = self.steps.enter(access.step);
        if is_new_window {
            self.kv_step.clear();
        }
        let range = (access.address, access.end());
        if range.0 == range.1 {
            return;
        }
        if type_index == KV_CACHE && self.kv_lives.is_some() {
            self.touch_kv(position, range, window);
        } else {
            let touch = Touch { now_ns: access.timestamp_ns, region: position as u32, window };
            self.touch(access.op_type, range, touch, type_index);
        }
    }

    fn region(&mut self, access: &Access, type_index: usize) -> usize {
        match self.index.slot(access.region_id, type_index as u16) {
            Slot::Known(position) => position,
            Slot::New(position) => {
                self.regions.push(Region::new(access));
                position
            }
        }
    }

    fn touch_kv(&mut self, position: usize, range: ByteRange, window: u32) {
        self.regions[position].footprint.load(range);
        if window != 0 {
            self.steps.add(KV_CACHE, self.kv_step.insert(range));
        }
    }

    fn touch(&mut self, op_type: OpType, range: ByteRange, touch: Touch, type_index: usize) {
        let position = touch.region as usize;
        let mut sink = Sink { regions: &mut self.regions, position, steps: &mut self.steps, type_index };
        match op_type {
            OpType::Load => {
                sink.regions[position].footprint.load(range);
                self.lives.load(range, touch, &mut sink);
            }
            OpType::Store => {
                sink.regions[position].footprint.store(range);
                self.lives.store(range, touch, &mut sink);
            }
        }
    }

    /// Ends what is still going on, as far as the trace saw it.
    pub(crate) fn close(&mut self) {
        self.steps.close();
        for (life, bytes) in self.lives.open_lives() {
            add_life(&mut self.regions, life, bytes, true);
            if self.samples.is_sampled() {
                let samples = u64::from(life.loads) + u64::from(!life.is_inferred);
                self.regions[life.region as usize].lives.add_samples(samples, bytes);
            }
        }
    }
}

/// Books what happens to bytes: intervals and steps on the region that touches them, lives on the region that
/// stored them.
struct Sink<'a> {
    regions: &'a mut [Region],
    position: usize,
    steps: &'a mut StepWindows,
    type_index: usize,
}

impl LifeSink for Sink<'_> {
    fn life_ended(&mut self, life: &Life, bytes: u64) {
        add_life(self.regions, life, bytes, false);
    }

    fn touched_again(&mut self, interval_ns: u64, bytes: u64) {
        self.regions[self.position].intervals_ns.add(interval_ns, bytes);
    }

    fn new_in_window(&mut self, bytes: u64) {
        self.steps.add(self.type_index, bytes);
    }
}

fn add_life(regions: &mut [Region], life: &Life, bytes: u64, is_open: bool) {
    regions[life.region as usize].lives.add(&FinishedLife {
        retention_ns: life.retention_ns(),
        loads: life.loads.into(),
        bytes,
        is_open,
        is_inferred: life.is_inferred,
    });
}
