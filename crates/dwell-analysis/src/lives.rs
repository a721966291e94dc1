//! Follows every byte from a store to the last load before the next store of it.
//!
//! Bytes that have the same history are held as one range. A store makes one range of all the bytes it covers, so
//! the map holds about as many ranges as the program has tensors, however many rows there are.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::ranges::ByteRange;

/// The current life of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// The store, or the first load if no store was seen.
    pub(crate) begin_ns: u64,
    /// Means nothing before the first load.
    pub(crate) last_load_ns: u64,
    pub(crate) last_access_ns: u64,
    /// Loads since the store.
    pub(crate) loads: u32,
    /// Region that the life belongs to: that of the store.
    pub(crate) region: u32,
    /// Step window of the last access that was in one; 0 if there was none since the store.
    pub(crate) window: u32,
    /// No store was seen: the life began before the trace did.
    pub(crate) is_inferred: bool,
}

impl Life {
    /// From the store to the last load; none if nothing was loaded.
    pub(crate) fn retention_ns(&self) -> Option<u64> {
        (self.loads > 0).then(|| self.last_load_ns.saturating_sub(self.begin_ns))
    }
}

/// When and for whom bytes are touched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) now_ns: u64,
    pub(crate) region: u32,
    /// 0 outside of any step.
    pub(crate) window: u32,
}

/// Hears what happens to bytes.
pub(crate) trait LifeSink {
    /// The life ended with the store that is being followed.
    fn life_ended(&mut self, life: &Life, bytes: u64);
    /// The bytes were last touched this long ago.
    fn touched_again(&mut self, interval_ns: u64, bytes: u64);
    /// The bytes are touched for the first time in this step window.
    fn new_in_window(&mut self, bytes: u64);
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    end: u64,
    life: Life,
}

/// The life of every byte that was touched so far.
#[derive(Debug, Default)]
pub(crate) struct LifeMap {
    /// By first byte; disjoint.
    segments: BTreeMap<u64, Segment>,
    /// Scratch of a load: first bytes of segments that joined the one before.
    joined: Vec<u64>,
}

impl LifeMap {
    /// Ends the lives of the bytes and begins one.
    pub(crate) fn store(&mut self, range: ByteRange, touch: Touch, sink: &mut impl LifeSink) {
        let (start, end) = range;
        let life = Life {
            begin_ns: touch.now_ns,
            last_load_ns: touch.now_ns,
            last_access_ns: touch.now_ns,
            loads: 0,
            region: touch.region,
            window: touch.window,
            is_inferred: false,
        };
        if let Some(segment) = self.segments.get_mut(&start)
            && segment.end == end
        {
            report_touch(&segment.life, end - start, touch, sink);
            sink.life_ended(&segment.life, end - start);
            segment.life = life;
            return;
        }
        self.split_at(start);
        self.split_at(end);
        let mut known_bytes = 0;
        while let Some((&segment_start, &segment)) = self.segments.range(start..end).next() {
            let bytes = segment.end - segment_start;
            report_touch(&segment.life, bytes, touch, sink);
            sink.life_ended(&segment.life, bytes);
            known_bytes += bytes;
            self.segments.remove(&segment_start);
        }
        report_new_bytes(end - start - known_bytes, touch, sink);
        self.segments.insert(start, Segment { end, life });
        self.join_at(start);
        self.join_at(end);
    }

    /// Adds a load to the lives of the bytes; bytes that were never seen begin a life with it.
    pub(crate) fn load(&mut self, range: ByteRange, touch: Touch, sink: &mut impl LifeSink) {
        let (start, end) = range;
        if let Some(segment) = self.segments.get_mut(&start)
            && segment.end == end
        {
            load_segment(segment, end - start, touch, sink);
            return;
        }
        self.split_at(start);
        self.split_at(end);
        if self.load_segments(range, touch, sink) < end - start {
            self.fill_gaps(range, touch, sink);
        }
        self.join_at(start);
        self.join_at(end);
    }

    /// Loads all segments of the range, which begin and end with it, and says how many bytes they are.
    fn load_segments(&mut self, (start, end): ByteRange, touch: Touch, sink: &mut impl LifeSink) -> u64 {
        let mut known_bytes = 0;
        let mut before: Option<&mut Segment> = None;
        for (&segment_start, segment) in self.segments.range_mut(start..end) {
            let bytes = segment.end - segment_start;
            known_bytes += bytes;
            load_segment(segment, bytes, touch, sink);
            match before.as_mut() {
                Some(before) if before.end == segment_start && before.life == segment.life => {
                    before.end = segment.end;
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
    fn fill_gaps(&mut self, (start, end): ByteRange, touch: Touch, sink: &mut impl LifeSink) {
        let life = Life {
            begin_ns: touch.now_ns,
            last_load_ns: touch.now_ns,
            last_access_ns: touch.now_ns,
            loads: 1,
            region: touch.region,
            window: touch.window,
            is_inferred: true,
        };
        let mut from = start;
        while from < end {
            let next = self.segments.range(from..end).next().map(|(&next_start, next)| (next_start, next.end));
            let (gap_end, resume) = next.unwrap_or((end, end));
            if from < gap_end {
                report_new_bytes(gap_end - from, touch, sink);
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
        let before = self.segments.range_mut((Bound::Unbounded, Bound::Excluded(position))).next_back();
        if let Some((_, before)) = before
            && before.end == position
            && before.life == after.life
        {
            before.end = after.end;
            self.segments.remove(&position);
        }
    }

    /// The lives that no store ended, with their bytes.
    pub(crate) fn open_lives(&self) -> impl Iterator<Item = (&Life, u64)> {
        self.segments.iter().map(|(start, segment)| (&segment.life, segment.end - start))
    }
}

fn load_segment(segment: &mut Segment, bytes: u64, touch: Touch, sink: &mut impl LifeSink) {
    report_touch(&segment.life, bytes, touch, sink);
    let life = &mut segment.life;
    // A row may be earlier than the one before; a life never becomes shorter by being read.
    life.last_load_ns = life.last_load_ns.max(touch.now_ns);
    life.last_access_ns = life.last_access_ns.max(touch.now_ns);
    life.loads = life.loads.saturating_add(1);
    if touch.window != 0 {
        life.window = touch.window;
    }
}

fn report_touch(life: &Life, bytes: u64, touch: Touch, sink: &mut impl LifeSink) {
    sink.touched_again(touch.now_ns.saturating_sub(life.last_access_ns), bytes);
    if life.window != touch.window {
        report_new_bytes(bytes, touch, sink);
    }
}

fn report_new_bytes(bytes: u64, touch: Touch, sink: &mut impl LifeSink) {
    if touch.window != 0 && bytes > 0 {
        sink.new_in_window(bytes);
    }
}

#[cfg(test)]
#[path = "lives_tests.rs"]
mod tests;
