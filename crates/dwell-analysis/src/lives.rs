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

use std::collections::BTreeMap;

pub use crate::ranges::ByteRange;
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
    /// Step window of the last access that was in one; 0 if there was none since the store.
    pub window: u32,
    /// No store was seen: the life began before the trace did.
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

    fn stored(visit: Visit, is_rewrite: bool) -> Self {
        Self { loads: 0, is_inferred: false, is_rewrite, ..Self::loaded_first(visit) }
    }

    fn loaded_first(visit: Visit) -> Self {
        Self {
            begin_ns: visit.now_ns,
            last_load_ns: visit.now_ns,
            last_access_ns: visit.now_ns,
            loads: 1,
            region: visit.region,
            last_region: visit.region,
            window: visit.window,
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
        if visit.window != 0 {
            self.window = visit.window;
        }
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
    /// Number of the step window that the access is in; 0 outside of any step.
    pub window: u32,
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
    /// The bytes are accessed for the first time in this step window.
    fn new_in_window(&mut self, _bytes: u64) {}
}

/// Hears nothing.
impl LifeSink for () {}

#[derive(Clone, Copy, Debug)]
struct Segment {
    end: u64,
    life: Life,
}

/// The life of every byte that was accessed so far.
#[derive(Debug, Default)]
pub struct LifeMap {
    /// By first byte; disjoint.
    segments: BTreeMap<u64, Segment>,
    /// Scratch of a load: first bytes of segments that joined the one before.
    joined: Vec<u64>,
}

impl LifeMap {
    /// Ends the lives of the bytes and begins one.
    pub fn store(&mut self, range: ByteRange, visit: Visit, sink: &mut impl LifeSink) {
        let (start, end) = range;
        if start >= end {
            return;
        }
        if let Some(segment) = self.segments.get_mut(&start)
            && segment.end == end
        {
            report_visit(&segment.life, range, visit, sink);
            sink.life_ended(&segment.life, range);
            segment.life = Life::stored(visit, segment.life.is_stored_by(visit.region));
            return;
        }
        if self.is_untouched(range) {
            report_new(range, visit, sink);
            self.insert_beside(range, Life::stored(visit, false));
            return;
        }
        self.split_at(start);
        self.split_at(end);
        let is_rewrite = self.end_lives(range, visit, sink);
        self.insert_beside(range, Life::stored(visit, is_rewrite));
    }

    /// Takes out all segments of the range, which begin and end with it. Says whether the region of the visit had
    /// stored all of the bytes.
    fn end_lives(&mut self, (start, end): ByteRange, visit: Visit, sink: &mut impl LifeSink) -> bool {
        let mut is_rewrite = true;
        let mut from = start;
        while let Some((&segment_start, &segment)) = self.segments.range(from..end).next() {
            if from < segment_start {
                is_rewrite = false;
                report_new((from, segment_start), visit, sink);
            }
            let bytes = (segment_start, segment.end);
            report_visit(&segment.life, bytes, visit, sink);
            sink.life_ended(&segment.life, bytes);
            is_rewrite &= segment.life.is_stored_by(visit.region);
            self.segments.remove(&segment_start);
            from = segment.end;
        }
        if from < end {
            is_rewrite = false;
            report_new((from, end), visit, sink);
        }
        is_rewrite
    }

    /// Adds a load to the lives of the bytes; bytes that were never seen begin a life with it.
    pub fn load(&mut self, range: ByteRange, visit: Visit, sink: &mut impl LifeSink) {
        let (start, end) = range;
        if start >= end {
            return;
        }
        if let Some(segment) = self.segments.get_mut(&start)
            && segment.end == end
        {
            report_visit(&segment.life, range, visit, sink);
            segment.life.load(visit);
            return;
        }
        if self.is_untouched(range) {
            report_new(range, visit, sink);
            self.insert_beside(range, Life::loaded_first(visit));
            return;
        }
        self.split_at(start);
        self.split_at(end);
        if self.load_segments(range, visit, sink) < end - start {
            self.fill_gaps(range, visit, sink);
        }
        self.join_at(start);
        self.join_at(end);
    }

    /// Tells of the lives that no store ended, by address.
    pub fn close(&self, sink: &mut impl LifeSink) {
        for (&start, segment) in &self.segments {
            sink.life_left_open(&segment.life, (start, segment.end));
        }
    }

    /// Takes over the lives of a map that holds none of the same bytes. `region_of` gives their regions in this map.
    ///
    /// Step windows are compared only within one access, so they need no translation if no more accesses follow.
    pub fn merge(&mut self, other: LifeMap, region_of: impl Fn(u32) -> u32) {
        for (start, Segment { end, mut life }) in other.segments {
            life.region = region_of(life.region);
            if life.last_region != Life::SEVERAL_REGIONS {
                life.last_region = region_of(life.last_region);
            }
            self.insert_beside((start, end), life);
        }
    }

    /// Whether no byte of the range has a life. Sampled rows mostly come to such bytes or to a whole segment.
    fn is_untouched(&self, (start, end): ByteRange) -> bool {
        self.segments.range(..end).next_back().is_none_or(|(_, segment)| segment.end <= start)
    }

    /// Inserts a segment where there is none, as part of its neighbours if they have the same history.
    fn insert_beside(&mut self, (start, end): ByteRange, life: Life) {
        let (mut start, mut segment) = (start, Segment { end, life });
        if let Some(after) = self.segments.get(&end)
            && let Some(life) = life.joined(&after.life)
        {
            segment = Segment { end: after.end, life };
            self.segments.remove(&end);
        }
        if let Some((&before_start, before)) = self.segments.range(..start).next_back()
            && before.end == start
            && let Some(life) = before.life.joined(&segment.life)
        {
            segment.life = life;
            start = before_start;
        }
        self.segments.insert(start, segment);
    }

    /// Loads all segments of the range, which begin and end with it, and says how many bytes they are.
    fn load_segments(&mut self, (start, end): ByteRange, visit: Visit, sink: &mut impl LifeSink) -> u64 {
        let mut known_bytes = 0;
        let mut before: Option<&mut Segment> = None;
        for (&segment_start, segment) in self.segments.range_mut(start..end) {
            known_bytes += segment.end - segment_start;
            report_visit(&segment.life, (segment_start, segment.end), visit, sink);
            segment.life.load(visit);
            let joined = before.as_ref().filter(|before| before.end == segment_start);
            match (joined.and_then(|before| before.life.joined(&segment.life)), before.as_mut()) {
                (Some(life), Some(before)) => {
                    **before = Segment { end: segment.end, life };
                    self.joined.push(segment_start);
                }
                _ => before = Some(segment),
            }
        }
        for segment_start in self.joined.drain(..) {
            self.segments.remove(&segment_start);
        }
        known_bytes
    }

    /// Begins an inferred life for every byte of the range that has none.
    fn fill_gaps(&mut self, (start, end): ByteRange, visit: Visit, sink: &mut impl LifeSink) {
        let life = Life::loaded_first(visit);
        let mut from = start;
        while from < end {
            let next = self.segments.range(from..end).next().map(|(&next_start, next)| (next_start, next.end));
            let (gap_end, resume) = next.unwrap_or((end, end));
            if from < gap_end {
                report_new((from, gap_end), visit, sink);
                self.segments.insert(from, Segment { end: gap_end, life });
            }
            from = resume;
        }
    }

    /// Cuts the segment that holds the bytes on both sides of the position.
    fn split_at(&mut self, position: u64) {
        if let Some((_, segment)) = self.segments.range_mut(..position).next_back()
            && segment.end > position
        {
            let after = *segment;
            segment.end = position;
            self.segments.insert(position, after);
        }
    }

    /// Makes one segment of two that touch at the position and have the same history.
    fn join_at(&mut self, position: u64) {
        let Some(&after) = self.segments.get(&position) else { return };
        if let Some((_, before)) = self.segments.range_mut(..position).next_back()
            && before.end == position
            && let Some(life) = before.life.joined(&after.life)
        {
            *before = Segment { end: after.end, life };
            self.segments.remove(&position);
        }
    }
}

fn report_visit(life: &Life, bytes: ByteRange, visit: Visit, sink: &mut impl LifeSink) {
    sink.touched_again(life, visit.now_ns.saturating_sub(life.last_access_ns), bytes);
    if life.window != visit.window && visit.window != 0 {
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
