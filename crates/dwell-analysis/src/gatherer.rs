//! Gathers, row by row, what dwell's definitions need of a trace or of a part of it. `conclusion.rs` makes of it what adds up.

use dwell_events::{OpType, RegionType};

use crate::Basis;
use crate::distribution::Distribution;
use crate::footprint::Footprint;
use crate::kv_lives::KvLives;
use crate::life_shards::{LifeShards, WaitingRow};
use crate::lives::{ByteRange, Found, Life, LifeMap, LifeSink, Visit};
use crate::metrics::TypeTallies;
use crate::metrics::read_frequency::AccessCounts;
use crate::metrics::retention::{FinishedLife, LifeTally, Needed};
use crate::part::{Followed, squared_bytes};
use crate::reader::{Access, BlockLife, Manner};
use crate::recency::Recency;
use crate::region_index::{RegionIndex, Slot};
use crate::region_type::{KNOWN_TYPES, known_index};
use crate::requested::{ReadAges, Requested};
use crate::sampling::SamplerTally;
use crate::step_clock::StepClock;
use crate::step_windows::{KnownStep, StepRanges, StepWindows};
use crate::survival::Weight;

/// Where the group of a sample begins in the type of a region's key.
const GROUP_SHIFT: u32 = 4;

const _: () = assert!(KNOWN_TYPES <= 1 << GROUP_SHIFT);

/// All steps that have begun so far.
const ALL_STEPS: u32 = u32::MAX;

/// Place of the KV cache in [`RegionType::ALL`].
pub(crate) const KV_CACHE: usize = RegionType::KvCache as usize;

/// What is gathered of one region. An id that appears with two types is two regions.
pub(crate) struct Region {
    pub(crate) region_id: u64,
    /// Place in [`RegionType::ALL`].
    pub(crate) type_index: usize,
    /// Group of a sample that its bytes are in.
    pub(crate) group: u16,
    pub(crate) first_seen_ns: u64,
    pub(crate) last_seen_ns: u64,
    pub(crate) basis: Basis,
    pub(crate) counts: AccessCounts,
    pub(crate) footprint: Footprint,
    pub(crate) lives: LifeTally,
    pub(crate) intervals_ns: Distribution,
}

impl Region {
    fn new(access: &Access, group: u16) -> Self {
        Self {
            region_id: access.region_id,
            type_index: known_index(access.region_type),
            group,
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

    /// Memory that it holds beside itself.
    fn held_bytes(&self) -> usize {
        self.footprint.held_bytes() + self.lives.held_bytes() + self.intervals_ns.held_bytes()
    }
}

/// Follows a trace by dwell's definitions.
pub(crate) struct Gatherer {
    pub(crate) followed: Followed,
    /// How long a step takes at the pace that suitability is rated at.
    pub(crate) step_ns: f64,
    index: RegionIndex,
    pub(crate) regions: Vec<Region>,
    /// Lives as long as all rows are samples, which come to single values at random; none from the first other row on.
    shards: Option<LifeShards>,
    /// Lives from then on.
    lives: LifeMap,
    /// Scratch: what the rows of a block will need.
    found: Vec<Found>,
    /// By region type.
    pub(crate) tallies: [TypeTallies; KNOWN_TYPES],
    pub(crate) steps: StepWindows,
    /// Where the lives of the KV cache come from, if not from its accesses.
    pub(crate) kv_lives: Option<KvLives>,
    /// What steps touched of the KV cache, if its lives come from elsewhere.
    kv_steps: StepRanges,
    /// When its bytes were last accessed, likewise.
    kv_recency: Recency,
    pub(crate) clock: StepClock,
    pub(crate) samples: SamplerTally,
    /// None if only standard metrics are asked for, and in a part of a trace.
    pub(crate) requested: Option<Box<Requested>>,
}

impl Gatherer {
    /// A gatherer of nothing yet; `step_ns` is how long a step takes at the pace that suitability is rated at.
    pub(crate) fn new(step_ns: f64, followed: Followed) -> Self {
        Self {
            followed,
            step_ns,
            index: RegionIndex::default(),
            regions: Vec::new(),
            shards: Some(LifeShards::default()),
            lives: LifeMap::default(),
            found: Vec::new(),
            tallies: Default::default(),
            steps: StepWindows::default(),
            kv_lives: None,
            kv_steps: StepRanges::default(),
            kv_recency: Recency::default(),
            clock: StepClock::default(),
            samples: SamplerTally::default(),
            requested: None,
        }
    }

    /// Memory that it holds, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let lives = self.lives.held_bytes() + self.shards.as_ref().map_or(0, LifeShards::held_bytes);
        let kv = self.kv_lives.as_ref().map_or(0, KvLives::held_bytes);
        let kv_touched = self.kv_steps.held_bytes() + self.kv_recency.held_bytes();
        let steps = self.steps.held_bytes() + self.clock.held_bytes();
        lives + self.regions_bytes() + kv + kv_touched + steps
    }

    fn regions_bytes(&self) -> usize {
        let held: usize = self.regions.iter().map(Region::held_bytes).sum();
        self.regions.capacity() * size_of::<Region>() + held + self.index.held_bytes()
    }

    /// Gathers what metrics on request need as well.
    pub(crate) fn requesting(self, requested: Option<Box<Requested>>) -> Self {
        Self { requested, ..self }
    }

    /// Bytes that each step touched, after [`Gatherer::work_off`], in the order of the steps, by place in [`RegionType::ALL`](dwell_events::RegionType::ALL).
    pub(crate) fn step_bytes(&self) -> &[[u64; KNOWN_TYPES]] {
        self.steps.bytes()
    }

    /// From now on accesses of the KV cache are counted, and its lives are those that are pushed.
    pub(crate) fn expect_kv_lives(&mut self) {
        self.kv_lives.get_or_insert_default();
    }

    /// Takes a life of a KV block, after the rows of the trace, which ended at `end_ns`: the steps have to be known.
    pub(crate) fn push_kv_life(&mut self, life: &BlockLife, end_ns: u64) {
        // Lives of a table are few, and are not sampled.
        if matches!(self.followed, Followed::Part(part) if !part.has_address(life.address)) {
            return self.kv_lives.get_or_insert_default().pass_over(life);
        }
        let needed = life.last_read_ns.map(|last_read_ns| Needed {
            ns: last_read_ns.saturating_sub(life.write_ns),
            span: self.clock.span(life.address, life.write_ns, last_read_ns, ALL_STEPS),
        });
        let until_ns = life.evict_ns.unwrap_or(end_ns);
        let finished = FinishedLife {
            needed,
            resident: Needed {
                ns: until_ns.saturating_sub(life.write_ns),
                span: self.clock.span(life.address, life.write_ns, until_ns, ALL_STEPS),
            },
            loads: life.reads,
            bytes: Weight::of_one(life.bytes),
            is_open: life.evict_ns.is_none(),
            is_inferred: life.is_inherited,
        };
        if let Some(needed) = finished.needed
            && let Some(ages) = self.requested.as_mut().and_then(|requested| requested.ages.as_mut())
        {
            ages.of(KV_CACHE).add_spread(needed, life.reads, life.bytes);
        }
        self.kv_lives.get_or_insert_default().push(life, &finished, self.step_ns);
    }

    /// Takes the rows of a block, whose memory is read before they are followed; see [`LifeMap::found`].
    pub(crate) fn push_block(&mut self, accesses: &[Access]) {
        // Only the reading matters.
        std::hint::black_box(self.read_regions(accesses));
        if self.shards.is_some() {
            // The lives of rows that wait are looked up later.
            return accesses.iter().for_each(|access| self.push(access));
        }
        let mut found = std::mem::take(&mut self.found);
        found.extend(accesses.iter().map(|access| self.lives.found(access.address)));
        std::hint::black_box(found.iter().fold(0, |sum, &found| sum ^ self.lives.read(found)));
        accesses.iter().zip(found.drain(..)).for_each(|(access, found)| self.push_near(found, access));
        self.found = found;
    }

    fn read_regions(&self, accesses: &[Access]) -> u64 {
        let type_of = |access: &Access| known_index(access.region_type) as u16;
        let places = accesses.iter().filter_map(|access| self.index.listed(access.region_id, type_of(access)));
        places.fold(0, |sum, place| sum ^ self.regions[place].last_seen_ns)
    }

    /// Bytes that a row may cover; none if there is no limit.
    pub(crate) fn row_bytes_max(&self) -> Option<u64> {
        self.followed.row_bytes_max()
    }

    /// Takes a row.
    pub(crate) fn push(&mut self, access: &Access) {
        self.push_near(self.lives.found(access.address), access);
    }

    /// Setting memory to one value keeps nothing that anybody will read: it begins no life, is no write and belongs to no
    /// working set.
    #[inline]
    fn push_near(&mut self, found: Found, access: &Access) {
        if access.manner == Manner::Clear {
            return;
        }
        let type_index = known_index(access.region_type);
        let counted = self.followed.has_region(access.region_id).then(|| self.count(access, type_index));
        if access.basis == Basis::Sampled {
            self.samples.follow(access);
        }
        if self.followed.is_first() {
            self.tallies[type_index].follow(access);
        }
        if let (Some(requested), Some(position)) = (&mut self.requested, counted) {
            requested.follow(access, position, type_index);
        }
        let step = self.steps.enter(access.address, access.step);
        self.clock.follow(access.address, access.step, access.timestamp_ns);
        let range = (access.address, access.end());
        if range.0 == range.1 {
            return;
        }
        if type_index == KV_CACHE && self.kv_lives.is_some() {
            self.touch_kv(access, step);
        } else {
            // Of a part or a sample, the pieces that are followed have regions of their own.
            let position = counted.unwrap_or(0);
            let window = step.map_or(0, |step| step.number);
            let is_concluded = access.is_concluded_store();
            let visit = Visit { now_ns: access.timestamp_ns, region: position as u32, window, is_concluded };
            if !self.deal(access, visit, step) {
                self.follow(found, access, visit, step.map(|step| (step, type_index)));
            }
        }
    }

    fn count(&mut self, access: &Access, type_index: usize) -> usize {
        let position = self.region(access, type_index, self.followed.group_of_rows());
        self.regions[position].count(access);
        position
    }

    /// The visit of bytes that are followed; none if they are not.
    #[inline]
    fn visit_of(&mut self, bytes: ByteRange, access: &Access, visit: Visit) -> Option<Visit> {
        if self.followed.is_whole() {
            return Some(visit);
        }
        let group = self.followed.group(bytes.0)?;
        let region = self.region(access, known_index(access.region_type), group) as u32;
        Some(Visit { region, ..visit })
    }

    /// Deals a row out to shards. Says whether it could: what is no sample of a value is followed at once, and all after it.
    #[inline]
    fn deal(&mut self, access: &Access, visit: Visit, step: Option<KnownStep>) -> bool {
        if self.shards.is_none() {
            return false;
        }
        let parts = LifeShards::parts((access.address, access.end())).filter(|_| access.basis == Basis::Sampled);
        let Some(parts) = parts else {
            self.settle();
            return false;
        };
        let is_store = access.op_type == OpType::Store;
        let step = (step, self.clock.begun(access.address));
        for bytes in parts {
            if bytes.0 == bytes.1 {
                continue;
            }
            let Some(visit) = self.visit_of(bytes, access, visit) else { continue };
            let row = WaitingRow::new(bytes, visit, step, is_store);
            if let Some(full) = self.shards.as_mut().and_then(|shards| shards.push(row)) {
                self.work_off_shard(full);
            }
        }
        true
    }

    #[cold]
    fn work_off_shard(&mut self, place: usize) {
        let Some(shards) = &mut self.shards else { return };
        shards.work_off(place, |row, lives| {
            let type_index = self.regions[row.region as usize].type_index;
            let step = row.step(&self.steps);
            let visit = row.visit(step);
            let mut sink = Sink {
                regions: &mut self.regions,
                region: row.region,
                is_store_seen: row.is_store,
                is_sampled: true,
                now_ns: visit.now_ns,
                begun: row.begun,
                clock: &self.clock,
                step_ns: self.step_ns,
                steps: &mut self.steps,
                counted_in: step.map(|step| (step, type_index)),
                ages: None,
            };
            row.follow(visit, lives, &mut sink);
        });
    }

    /// Works off the rows that wait.
    pub(crate) fn work_off(&mut self) {
        LifeShards::places().for_each(|place| self.work_off_shard(place));
    }

    /// Makes one map of all lives: from now on rows are followed at once.
    #[cold]
    fn settle(&mut self) {
        self.work_off();
        let shards = self.shards.take().into_iter().flat_map(LifeShards::into_lives);
        shards.for_each(|lives| self.lives.merge(lives, |region| region));
    }

    fn region(&mut self, access: &Access, type_index: usize, group: u16) -> usize {
        match self.index.slot(access.region_id, type_index as u16 | group << GROUP_SHIFT) {
            Slot::Known(position) => position,
            Slot::New(position) => {
                self.regions.push(Region::new(access, group));
                position
            }
        }
    }

    fn touch_kv(&mut self, access: &Access, step: Option<KnownStep>) {
        if let Some(step) = step {
            self.kv_steps.enter(step, access.address);
        }
        for (group, range) in self.followed.pieces((access.address, access.end())) {
            let position = self.region(access, KV_CACHE, group);
            let region = &mut self.regions[position];
            region.footprint.touch(range);
            let rested = |interval_ns, bytes| region.intervals_ns.add(interval_ns, bytes);
            self.kv_recency.visit(range, access.timestamp_ns, rested);
            if let Some(step) = step {
                self.steps.add(step, KV_CACHE, self.kv_steps.touch(step, range));
            }
        }
    }

    fn follow(&mut self, found: Found, access: &Access, visit: Visit, counted_in: Option<(KnownStep, usize)>) {
        let range = (access.address, access.end());
        if self.followed.is_whole() {
            return self.follow_bytes((found, range), access, visit, counted_in);
        }
        for (_, piece) in self.followed.pieces(range) {
            let Some(visit) = self.visit_of(piece, access, visit) else { continue };
            self.follow_bytes((self.lives.found(piece.0), piece), access, visit, counted_in);
        }
    }

    #[inline]
    fn follow_bytes(
        &mut self,
        (found, range): (Found, ByteRange),
        access: &Access,
        visit: Visit,
        counted_in: Option<(KnownStep, usize)>,
    ) {
        let is_store_seen = access.op_type == OpType::Store && !visit.is_concluded;
        let mut sink = Sink {
            regions: &mut self.regions,
            region: visit.region,
            is_store_seen,
            is_sampled: access.basis == Basis::Sampled,
            now_ns: visit.now_ns,
            begun: ALL_STEPS,
            clock: &self.clock,
            step_ns: self.step_ns,
            steps: &mut self.steps,
            counted_in,
            ages: match (access.op_type, access.basis) {
                (OpType::Store, _) | (_, Basis::Sampled) => None,
                _ => self.requested.as_mut().and_then(|requested| requested.ages.as_mut()),
            },
        };
        match access.op_type {
            OpType::Load => self.lives.load_near(found, range, visit, &mut sink),
            OpType::Store => self.lives.store_near(found, range, visit, &mut sink),
        }
    }

    /// Closes what is still going on at the end of the trace.
    pub(crate) fn close(&mut self, end_ns: u64) {
        self.work_off();
        let mut sink = OpenLives {
            regions: &mut self.regions,
            counts_samples: self.samples.is_sampled(),
            end_ns,
            clock: &self.clock,
            step_ns: self.step_ns,
        };
        let shards = self.shards.take().into_iter().flat_map(LifeShards::into_lives);
        shards.for_each(|lives| lives.close(&mut sink));
        self.lives.close(&mut sink);
        self.regions.iter_mut().for_each(|region| region.footprint.close());
    }
}

/// Books what happens to bytes: intervals, steps and footprints on the region that accesses them, lives on the region
/// that stored them.
struct Sink<'a> {
    regions: &'a mut [Region],
    region: u32,
    is_store_seen: bool,
    /// The row is a sample.
    is_sampled: bool,
    now_ns: u64,
    /// Steps that had begun when the row came.
    begun: u32,
    clock: &'a StepClock,
    step_ns: f64,
    steps: &'a mut StepWindows,
    /// Step and place of the region type.
    counted_in: Option<(KnownStep, usize)>,
    /// Where the age of what is read is booked, if the row reads and somebody asked for it.
    ages: Option<&'a mut ReadAges>,
}

impl Sink<'_> {
    fn region(&mut self) -> &mut Region {
        &mut self.regions[self.region as usize]
    }
}

impl LifeSink for Sink<'_> {
    fn life_ended(&mut self, life: &Life, bytes: ByteRange) {
        let finished = finished_life((self.clock, self.begun), life, bytes, (self.now_ns, false));
        self.regions[life.region as usize].lives.add(&finished, self.step_ns, self.is_sampled);
        // What was there before came there by a store that nobody saw. Of samples nobody can tell how many more there were.
        if life.is_inferred && !self.is_sampled {
            self.regions[life.region as usize].footprint.store(bytes);
        }
        // A rewrite by the region that rewrote the bytes before adds nothing to what is known of them.
        if self.is_store_seen && !(life.is_rewrite && life.region == self.region) {
            self.region().footprint.store(bytes);
        }
    }

    fn touched_first(&mut self, bytes: ByteRange) {
        let is_store_seen = self.is_store_seen;
        let footprint = &mut self.region().footprint;
        footprint.touch(bytes);
        if is_store_seen {
            footprint.store(bytes);
        }
    }

    fn touched_again(&mut self, life: &Life, interval_ns: u64, (start, end): ByteRange) {
        if let Some(ages) = &mut self.ages {
            let type_index = self.regions[life.region as usize].type_index;
            let span = self.clock.span(start, life.begin_ns, self.now_ns, self.begun);
            let age = Needed { ns: self.now_ns.saturating_sub(life.begin_ns), span };
            ages.of(type_index).add(age, end - start, life.is_inferred);
        }
        let is_known = life.last_region == self.region;
        let region = self.region();
        region.intervals_ns.add(interval_ns, end - start);
        if !is_known {
            region.footprint.touch((start, end));
        }
    }

    fn new_in_window(&mut self, bytes: u64) {
        if let Some((step, type_index)) = self.counted_in {
            self.steps.add(step, type_index, bytes);
        }
    }
}

/// Books the lives that nothing ended.
struct OpenLives<'a> {
    regions: &'a mut [Region],
    /// Only the lives of sampled traces are judged by their samples.
    counts_samples: bool,
    end_ns: u64,
    clock: &'a StepClock,
    step_ns: f64,
}

impl LifeSink for OpenLives<'_> {
    fn life_left_open(&mut self, life: &Life, (start, end): ByteRange) {
        let region = &mut self.regions[life.region as usize];
        if life.is_inferred && !self.counts_samples {
            region.footprint.store_unseen((start, end));
        }
        let lives = &mut region.lives;
        lives.add(
            &finished_life((self.clock, ALL_STEPS), life, (start, end), (self.end_ns, true)),
            self.step_ns,
            self.counts_samples,
        );
        if self.counts_samples {
            let samples = u64::from(life.loads) + u64::from(!life.is_inferred);
            lives.add_samples(samples, end - start);
        }
    }
}

/// The life of some bytes up to a moment, with whether it goes on after it, by a clock on which so many steps had begun.
fn finished_life(
    (clock, begun): (&StepClock, u32),
    life: &Life,
    (start, end): ByteRange,
    (until_ns, is_open): (u64, bool),
) -> FinishedLife {
    let span = |to_ns| clock.span(start, life.begin_ns, to_ns, begun);
    let needed = life.retention_ns().map(|ns| Needed { ns, span: span(life.last_load_ns) });
    FinishedLife {
        needed,
        resident: Needed { ns: until_ns.saturating_sub(life.begin_ns), span: span(until_ns) },
        loads: life.loads.into(),
        bytes: Weight { total: end - start, squared: squared_bytes((start, end)) },
        is_open,
        is_inferred: life.is_inferred,
    }
}

#[cfg(test)]
#[path = "gatherer_tests.rs"]
mod tests;
