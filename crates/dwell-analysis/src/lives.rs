//! Data lives: every byte from a store to the last load before the next store of it.
//!
//! This is the seam for whatever consumes data lives. A [`LifeMap`] follows accesses in the order of time and tells a
//! [`LifeSink`] what happens to bytes; the metrics are one sink, a simulation of a memory or a plot is another.
//! [`TraceLives`] feeds a sink with the rows of a `trace` table.
//!
//! Bytes that have the same history are held as one range. A store makes one range of all the bytes it covers, so
//! the map holds about as many ranges as the program has tensors, however many rows there are.
//!
//! ```
//! use dwell_analysis::lives::{ByteRange, Life, LifeMap, LifeSink, Visit};
//!
//! /// The longest time for which any byte had to be kept.
//! #[derive(Default)]
//! struct Longest {
//!     retention_ns: u64,
//! }
//!
//! impl LifeSink for Longest {
//!     fn life_ended(&mut self, life: &Life, _: ByteRange) {
//!         self.retention_ns = self.retention_ns.max(life.retention_ns().unwrap_or(0));
//!     }
//! }
//!
//! let (mut lives, mut longest) = (LifeMap::default(), Longest::default());
//! let at = |now_ns| Visit { now_ns, ..Visit::default() };
//! lives.store((0, 64), at(100), &mut longest);
//! lives.load((0, 8), at(250), &mut longest);
//! // Ends both lives: 8 bytes were kept for 150 ns, 56 bytes were never read.
//! lives.store((0, 64), at(900), &mut longest);
//! assert_eq!(longest.retention_ns, 150);
//! ```

use rustc_hash::FxHashMap;

use crate::address_order::AddressOrder;

pub use crate::ranges::ByteRange;
pub use crate::touched_steps::TouchedSteps;
pub use crate::trace_lives::TraceLives;

/// The current life of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// When the bytes were stored; the first load if no store was seen.
    pub begin_ns: u64,
    /// Last load; means nothing before the first one.
    pub last_load_ns: u64,
    /// Last load or store.
    pub last_access_ns: u64,
    /// Loads since the store.
    pub loads: u32,
    /// Region that the life belongs to: that of the store, or of the first load if no store was seen.
    pub region: u32,
    /// Region of the last access, or [`Life::SEVERAL_REGIONS`].
    pub last_region: u32,
    /// Steps that touched the bytes, in this life and in those before.
    pub steps: TouchedSteps,
    /// No store was seen: the life began before the trace did, or with a store that was concluded.
    pub is_inferred: bool,
    /// The store was at least the second of these bytes by the same region. May be false though it was.
    pub is_rewrite: bool,
}

impl Life {
    /// Stands for a region where bytes with one life were last accessed by different ones.
    pub const SEVERAL_REGIONS: u32 = u32::MAX;

    /// From the store to the last load; none if nothing was loaded.
    pub fn retention_ns(&self) -> Option<u64> {
        (self.loads > 0).then(|| self.last_load_ns.saturating_sub(self.begin_ns))
    }

    /// The life that a store begins. A step that touched the bytes before has not forgotten them.
    fn stored(visit: Visit, is_rewrite: bool, steps: TouchedSteps) -> Self {
        Self { loads: 0, is_inferred: visit.is_concluded, is_rewrite, steps, ..Self::loaded_first(visit) }
    }

    fn loaded_first(visit: Visit) -> Self {
        Self {
            begin_ns: visit.now_ns,
            last_load_ns: visit.now_ns,
            last_access_ns: visit.now_ns,
            loads: 1,
            region: visit.region,
            last_region: visit.region,
            steps: TouchedSteps::default().with(visit.window),
            is_inferred: true,
            is_rewrite: false,
        }
    }

    fn load(&mut self, visit: Visit) {
        // A row may be earlier than the one before; a life never becomes shorter by being read.
        self.last_load_ns = self.last_load_ns.max(visit.now_ns);
        self.last_access_ns = self.last_access_ns.max(visit.now_ns);
        self.loads = self.loads.saturating_add(1);
        self.last_region = visit.region;
        self.steps = self.steps.with(visit.window);
    }

    /// Whether a store by this region is known to be a second one.
    fn is_stored_by(&self, region: u32) -> bool {
        self.region == region && !self.is_inferred
    }

    /// The life of both, if they have the same history. What only spares work may differ and is then forgotten.
    fn joined(&self, other: &Life) -> Option<Life> {
        let last_region = if self.last_region == other.last_region { self.last_region } else { Self::SEVERAL_REGIONS };
        let is_rewrite = self.is_rewrite && other.is_rewrite;
        let joined = Life { last_region, is_rewrite, ..*self };
        (joined == Life { last_region, is_rewrite, ..*other }).then_some(joined)
    }
}

/// When and for whom bytes are accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// Time of the access.
    pub now_ns: u64,
    /// Region that the access belongs to, as the caller numbers them; below [`Life::SEVERAL_REGIONS`].
    pub region: u32,
    /// Number of the step that the access is in, as [`TouchedSteps`] numbers them; 0 outside of any step.
    pub window: u32,
    /// It is a store that nobody saw.
    pub is_concluded: bool,
}

/// Hears what happens to bytes. An access is told about in pieces, by address: one for each history that its bytes had.
pub trait LifeSink {
    /// The life ended with the store that is being followed.
    fn life_ended(&mut self, _life: &Life, _bytes: ByteRange) {}
    /// Nothing had ended the life when the trace did.
    fn life_left_open(&mut self, _life: &Life, _bytes: ByteRange) {}
    /// The bytes are accessed for the first time.
    fn touched_first(&mut self, _bytes: ByteRange) {}
    /// The bytes were last accessed this long ago; the life is that before the access.
    fn touched_again(&mut self, _life: &Life, _interval_ns: u64, _bytes: ByteRange) {}
    /// The bytes are accessed for the first time in this step.
    fn new_in_window(&mut self, _bytes: u64) {}
}

/// Hears nothing.
impl LifeSink for () {}

/// Bytes next to each other that have the same life. One cache line, because most rows need one.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
    life: Life,
}

impl Segment {
    fn range(&self) -> ByteRange {
        (self.start, self.end)
    }
}

/// Makes one of segments that come by address, touch and have the same history: how many segments hold the bytes of one
/// history depends on accesses to other bytes.
#[derive(Default)]
struct SameLives {
    last: Option<Segment>,
}

impl SameLives {
    /// Takes the next segment. Gives the one before it if that is complete.
    fn push(&mut self, segment: Segment) -> Option<Segment> {
        if let Some(last) = &mut self.last
            && last.end == segment.start
            && let Some(life) = last.life.joined(&segment.life)
        {
            (last.end, last.life) = (segment.end, life);
            return None;
        }
        self.last.replace(segment)
    }
}

/// Where a segment was found some accesses ago, if one was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found(Option<u32>);

/// The life of every byte that was accessed so far.
///
/// Most accesses come to the same bytes as one before them, so segments are found by their first byte through a hash;
/// the order of addresses is asked for only where an access and a segment overlap in part, or are new.
#[derive(Debug, Default)]
pub struct LifeMap {
    /// In no order; disjoint. Those in `unused` are empty.
    segments: Vec<Segment>,
    unused: Vec<u32>,
    /// Places in `segments`, by first byte.
    places: FxHashMap<u64, u32>,
    /// The same, in order.
    by_address: AddressOrder,
    /// Scratch of a load: places of the segments in its range.
    in_range: Vec<u32>,
    /// Scratch of a store: its bytes, cut where other steps touched them.
    stored: Vec<(ByteRange, TouchedSteps)>,
}

impl LifeMap {
    /// Ends the lives of the bytes and begins one.
    pub fn store(&mut self, range: ByteRange, visit: Visit, sink: &mut impl LifeSink) {
        self.store_near(self.found(range.0), range, visit, sink);
    }

    /// The same where [`Self::found`] may have told, some accesses ago, what begins with the range.
    pub(crate) fn store_near(&mut self, found: Found, range: ByteRange, visit: Visit, sink: &mut impl LifeSink) {
        let (start, end) = range;
        if start >= end {
            return;
        }
        if let Some(segment) = self.whole_segment(found, range) {
            report_visit(&segment.life, range, visit, sink);
            sink.life_ended(&segment.life, range);
            let steps = segment.life.steps.with(visit.window);
            segment.life = Life::stored(visit, segment.life.is_stored_by(visit.region), steps);
            return;
        }
        let before = self.by_address.before(end);
        if self.ends_by(before, start) {
            report_new(range, visit, sink);
            self.insert_after(before, range, Life::stored(visit, false, TouchedSteps::default().with(visit.window)));
            return;
        }
        self.split_at(start);
        self.split_at(end);
        let is_rewrite = self.end_lives(range, visit, sink);
        let mut stored = std::mem::take(&mut self.stored);
        for (bytes, steps) in stored.drain(..) {
            self.insert_beside(bytes, Life::stored(visit, is_rewrite, steps));
        }
        self.stored = stored;
    }

    /// Takes out all segments of the range, which begin and end with it, and notes what takes their place. Says whether
    /// the region of the visit had stored all of the bytes.
    fn end_lives(&mut self, range: ByteRange, visit: Visit, sink: &mut impl LifeSink) -> bool {
        let mut is_rewrite = true;
        let mut from = range.0;
        let mut ended = SameLives::default();
        let mut in_range = self.places_in(range);
        for &place in &in_range {
            let segment = self.segments[place as usize];
            if from < segment.start {
                is_rewrite = false;
                report_new((from, segment.start), visit, sink);
                self.note_stored((from, segment.start), TouchedSteps::default().with(visit.window));
            }
            let bytes = (segment.start, segment.end);
            report_visit(&segment.life, bytes, visit, sink);
            ended.push(segment).iter().for_each(|before| sink.life_ended(&before.life, before.range()));
            self.note_stored(bytes, segment.life.steps.with(visit.window));
            is_rewrite &= segment.life.is_stored_by(visit.region);
            self.remove(segment.start);
            from = segment.end;
        }
        ended.last.iter().for_each(|last| sink.life_ended(&last.life, last.range()));
        in_range.clear();
        self.in_range = in_range;
        if from < range.1 {
            is_rewrite = false;
            report_new((from, range.1), visit, sink);
            self.note_stored((from, range.1), TouchedSteps::default().with(visit.window));
        }
        is_rewrite
    }

    /// Notes bytes that follow those noted before. Mostly the same steps touched all of them.
    fn note_stored(&mut self, bytes: ByteRange, steps: TouchedSteps) {
        match self.stored.last_mut() {
            Some((before, known)) if *known == steps => before.1 = bytes.1,
            _ => self.stored.push((bytes, steps)),
        }
    }

    /// Adds a load to the lives of the bytes; bytes that were never seen begin a life with it.
    pub fn load(&mut self, range: ByteRange, visit: Visit, sink: &mut impl LifeSink) {
        self.load_near(self.found(range.0), range, visit, sink);
    }

    /// The same where [`Self::found`] may have told, some accesses ago, what begins with the range.
    pub(crate) fn load_near(&mut self, found: Found, range: ByteRange, visit: Visit, sink: &mut impl LifeSink) {
        let (start, end) = range;
        if start >= end {
            return;
        }
        if let Some(segment) = self.whole_segment(found, range) {
            report_visit(&segment.life, range, visit, sink);
            segment.life.load(visit);
            return;
        }
        let before = self.by_address.before(end);
        if self.ends_by(before, start) {
            report_new(range, visit, sink);
            self.insert_after(before, range, Life::loaded_first(visit));
            return;
        }
        self.split_at(start);
        self.split_at(end);
        self.load_segments(range, visit, sink);
        self.join_at(start);
        self.join_at(end);
    }

    /// Loads all segments of the range, which begin and end with it, and begins an inferred life for the other bytes.
    /// Segments that were in the range and have the same history now become one.
    fn load_segments(&mut self, range: ByteRange, visit: Visit, sink: &mut impl LifeSink) {
        let mut in_range = self.places_in(range);
        let mut before: Option<u32> = None;
        let mut from = range.0;
        for &place in &in_range {
            let segment = &mut self.segments[place as usize];
            let bytes = (segment.start, segment.end);
            report_visit(&segment.life, bytes, visit, sink);
            segment.life.load(visit);
            let life = segment.life;
            if from < bytes.0 {
                self.begin_inferred((from, bytes.0), visit, sink);
                before = None;
            }
            from = bytes.1;
            let joined = before.and_then(|before| self.segments[before as usize].life.joined(&life));
            match (before, joined) {
                (Some(before), Some(life)) => {
                    self.remove(bytes.0);
                    let before = &mut self.segments[before as usize];
                    (before.end, before.life) = (bytes.1, life);
                }
                _ => before = Some(place),
            }
        }
        in_range.clear();
        self.in_range = in_range;
        if from < range.1 {
            self.begin_inferred((from, range.1), visit, sink);
        }
    }

    fn begin_inferred(&mut self, range: ByteRange, visit: Visit, sink: &mut impl LifeSink) {
        report_new(range, visit, sink);
        self.insert(Segment { start: range.0, end: range.1, life: Life::loaded_first(visit) });
    }

    /// Tells of the lives that no store ended, by address.
    pub fn close(&self, sink: &mut impl LifeSink) {
        let mut open = SameLives::default();
        for segment in self.segments() {
            open.push(*segment).iter().for_each(|before| sink.life_left_open(&before.life, before.range()));
        }
        open.last.iter().for_each(|last| sink.life_left_open(&last.life, last.range()));
    }

    /// Memory that it holds beside itself.
    pub(crate) fn held_bytes(&self) -> usize {
        // A table of hashes is filled to seven eighths at most, with a byte of its own for each place.
        let places = self.places.capacity() * 8 / 7 * (size_of::<(u64, u32)>() + 1);
        self.segments.capacity() * size_of::<Segment>() + places + self.by_address.held_bytes()
    }

    /// Takes over the lives of a map that holds none of the same bytes. `region_of` gives their regions in this map.
    ///
    /// Numbers of steps are compared only within one access, so they need no translation if no more accesses follow.
    pub fn merge(&mut self, other: LifeMap, region_of: impl Fn(u32) -> u32) {
        for segment in other.segments() {
            let mut life = segment.life;
            life.region = region_of(life.region);
            if life.last_region != Life::SEVERAL_REGIONS {
                life.last_region = region_of(life.last_region);
            }
            self.insert_beside((segment.start, segment.end), life);
        }
    }

    /// Where a segment begins with this byte, if one does.
    ///
    /// Asked for many accesses before the first of them is followed, the processor waits for all of them at once; with
    /// addresses in random order that is most of their time. What the accesses before it do may make an answer wrong: it is
    /// checked when it is used.
    #[inline]
    pub(crate) fn found(&self, start: u64) -> Found {
        Found(self.places.get(&start).copied())
    }

    /// Reads what was found, so that it is in the cache, and gives something that depends on it.
    #[inline]
    pub(crate) fn read(&self, Found(place): Found) -> u64 {
        place.map_or(0, |place| self.segments[place as usize].end)
    }

    /// By address.
    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.by_address.numbers().map(|place| &self.segments[place as usize])
    }

    /// The segment that holds these bytes and no others.
    #[inline]
    fn whole_segment(&mut self, found: Found, range: ByteRange) -> Option<&mut Segment> {
        let is_whole = |Found(place): Found| place.filter(|&place| self.segments[place as usize].range() == range);
        // Bytes that had no segment when they were looked for may have got one since.
        let place = is_whole(found).or_else(|| is_whole(self.found(range.0)))?;
        Some(&mut self.segments[place as usize])
    }

    /// The last segment that begins before the position.
    fn segment_before(&mut self, position: u64) -> Option<&mut Segment> {
        let place = self.by_address.before(position)?;
        Some(&mut self.segments[place as usize])
    }

    /// Places of the segments that begin in the range, in the scratch list, which is to be given back.
    fn places_in(&mut self, range: ByteRange) -> Vec<u32> {
        let mut in_range = std::mem::take(&mut self.in_range);
        in_range.extend(self.by_address.within(range));
        in_range
    }

    /// Whether a segment, if there is one, ends before or at the position. If it is the last that begins before the end of a
    /// range that begins there, no byte of that range has a life: sampled rows mostly come to such bytes or to a whole segment.
    fn ends_by(&self, place: Option<u32>, position: u64) -> bool {
        place.is_none_or(|place| self.segments[place as usize].end <= position)
    }

    fn insert(&mut self, segment: Segment) {
        let place = match self.unused.pop() {
            Some(place) => {
                self.segments[place as usize] = segment;
                place
            }
            None => {
                self.segments.push(segment);
                (self.segments.len() - 1) as u32
            }
        };
        self.places.insert(segment.start, place);
        self.by_address.insert(segment.start, place);
    }

    fn remove(&mut self, start: u64) {
        if let Some(place) = self.places.remove(&start) {
            self.by_address.remove(start);
            self.segments[place as usize].end = start;
            self.unused.push(place);
        }
    }

    /// Inserts a segment where there is none, as part of its neighbours if they have the same history.
    fn insert_beside(&mut self, range: ByteRange, life: Life) {
        self.insert_after(self.by_address.before(range.0), range, life);
    }

    /// The same where the segment before is known.
    fn insert_after(&mut self, before: Option<u32>, (start, end): ByteRange, life: Life) {
        if !self.extend(before, (start, end), life) {
            self.insert(Segment { start, end, life });
        }
        self.join_at(end);
    }

    /// Adds bytes to the segment before them, if it ends where they begin and has the same history.
    fn extend(&mut self, before: Option<u32>, (start, end): ByteRange, life: Life) -> bool {
        let Some(before) = before.map(|place| &mut self.segments[place as usize]) else { return false };
        let Some(joined) = before.life.joined(&life).filter(|_| before.end == start) else { return false };
        (before.end, before.life) = (end, joined);
        true
    }

    /// Cuts the segment that holds the bytes on both sides of the position.
    fn split_at(&mut self, position: u64) {
        if let Some(segment) = self.segment_before(position)
            && segment.end > position
        {
            let after = Segment { start: position, ..*segment };
            segment.end = position;
            self.insert(after);
        }
    }

    /// Makes one segment of two that touch at the position and have the same history.
    fn join_at(&mut self, position: u64) {
        let Some(&place) = self.places.get(&position) else { return };
        let after = self.segments[place as usize];
        if self.extend(self.by_address.before(position), after.range(), after.life) {
            self.remove(position);
        }
    }
}

fn report_visit(life: &Life, bytes: ByteRange, visit: Visit, sink: &mut impl LifeSink) {
    sink.touched_again(life, visit.now_ns.saturating_sub(life.last_access_ns), bytes);
    if life.steps.lack(visit.window) {
        sink.new_in_window(bytes.1 - bytes.0);
    }
}

fn report_new(bytes: ByteRange, visit: Visit, sink: &mut impl LifeSink) {
    sink.touched_first(bytes);
    if visit.window != 0 {
        sink.new_in_window(bytes.1 - bytes.0);
    }
}

#[cfg(test)]
#[path = "lives_tests.rs"]
mod tests;
