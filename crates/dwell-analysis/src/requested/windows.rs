//! What was read, written and touched in windows of time.
//!
//! Windows have a given length until a trace has too many of them; then they become twice as long, as often as needed. Bytes
//! that were read and written add up. Bytes that were touched do not, because a byte may be touched in both halves of a longer
//! window. So each touch is noted with the lengths in whose windows it is the first: those that had not begun when the byte
//! was touched before.

use dwell_events::OpType;
use rustc_hash::FxHashMap;

use crate::metrics::NS_PER_S;
use crate::reader::Access;
use crate::recency::Recency;
use crate::region_type::KNOWN_TYPES;

/// Windows that a trace has at most. At 10 ms a window, 164 s pass before they become longer.
const WINDOWS_MOST: u64 = 1 << 14;

/// The first touch of a byte is the first in windows of every length.
const ALL_LEVELS: u8 = u64::BITS as u8;

/// Traffic of one region type in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    read_bytes: u64,
    written_bytes: u64,
}

impl Traffic {
    fn add(&mut self, other: Traffic) {
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
    }
}

/// Follows the rows of a trace in windows of time. Additive over parts of it that hold different bytes.
#[derive(Debug)]
pub(crate) struct AccessWindows {
    shortest_ns: u64,
    /// How often windows became twice as long.
    level: u8,
    /// Number of the first window: windows of one length are numbered from time 0 on.
    first: u64,
    /// From the first window on.
    traffic: Vec<[Traffic; KNOWN_TYPES]>,
    /// Times of the first and the last row.
    observed_ns: Option<(u64, u64)>,
    touched: FxHashMap<Touch, u64>,
    recency: Recency,
}

/// Which bytes were touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Touch {
    window: u64,
    type_index: u8,
    /// The touch is the first in windows that became twice as long less often than this.
    first_below_level: u8,
}

impl AccessWindows {
    /// Windows of this length.
    pub(crate) fn new(shortest_ns: u64) -> Self {
        Self {
            shortest_ns: shortest_ns.max(1),
            level: 0,
            first: 0,
            traffic: Vec::new(),
            observed_ns: None,
            touched: FxHashMap::default(),
            recency: Recency::default(),
        }
    }

    pub(crate) fn follow(&mut self, access: &Access, type_index: usize) {
        let now_ns = access.timestamp_ns;
        let observed = self.observed_ns.get_or_insert((now_ns, now_ns));
        observed.1 = observed.1.max(now_ns);
        let window = self.enter(now_ns);
        let traffic = match access.op_type {
            OpType::Load => Traffic { read_bytes: access.size_bytes, written_bytes: 0 },
            OpType::Store => Traffic { read_bytes: 0, written_bytes: access.size_bytes },
        };
        self.traffic[(window - self.first) as usize][type_index].add(traffic);
        self.touch(access, window, type_index);
    }

    fn touch(&mut self, access: &Access, window: u64, type_index: usize) {
        let now_ns = access.timestamp_ns;
        let mut new_bytes = access.end() - access.address;
        let (shortest_ns, level, touched) = (self.shortest_ns, self.level, &mut self.touched);
        let mut note = |first_below_level: u8, bytes: u64| {
            if first_below_level > level && bytes > 0 {
                *touched.entry(Touch { window, type_index: type_index as u8, first_below_level }).or_default() += bytes;
            }
        };
        self.recency.visit((access.address, access.end()), now_ns, |rested_ns, bytes| {
            new_bytes -= bytes;
            // The numbers of windows twice as long lack the lowest bit: they are the same from the highest bit on that differs.
            let differing = (now_ns / shortest_ns) ^ ((now_ns - rested_ns) / shortest_ns);
            note((u64::BITS - differing.leading_zeros()) as u8, bytes);
        });
        note(ALL_LEVELS, new_bytes);
    }

    /// The number of the window of a time, for which there is room then.
    fn enter(&mut self, now_ns: u64) -> u64 {
        let shortest = now_ns / self.shortest_ns;
        if self.traffic.is_empty() {
            self.first = shortest >> self.level;
        }
        self.make_room(shortest >> self.level);
        shortest >> self.level
    }

    /// Lengthens windows until there is room for one of this number, in windows of the present length.
    fn make_room(&mut self, window: u64) {
        let last = self.first + (self.traffic.len() as u64).saturating_sub(1);
        let (mut from, mut to) = (self.first.min(window), last.max(window));
        while to - from >= WINDOWS_MOST {
            self.lengthen();
            (from, to) = (from >> 1, to >> 1);
        }
        let before = self.first - from;
        self.traffic.splice(0..0, std::iter::repeat_n(Default::default(), before as usize));
        self.traffic.resize((to - from + 1) as usize, Default::default());
        self.first = from;
    }

    /// Makes all windows twice as long.
    fn lengthen(&mut self) {
        self.level += 1;
        let mut longer: Vec<[Traffic; KNOWN_TYPES]> = Vec::new();
        for (window, traffic) in (self.first..).zip(&self.traffic) {
            let place = ((window >> 1) - (self.first >> 1)) as usize;
            longer.resize(place + 1, Default::default());
            longer[place].iter_mut().zip(traffic).for_each(|(sum, added)| sum.add(*added));
        }
        self.first >>= 1;
        self.traffic = longer;
        let level = self.level;
        for (touch, bytes) in std::mem::take(&mut self.touched) {
            if touch.first_below_level > level {
                *self.touched.entry(Touch { window: touch.window >> 1, ..touch }).or_default() += bytes;
            }
        }
    }

    pub(crate) fn window_ns(&self) -> u64 {
        self.shortest_ns << self.level
    }

    /// The windows in which a type was accessed, by time.
    pub(crate) fn traffic_of(&self, type_index: usize) -> Vec<WindowTraffic> {
        let touched_bytes = self.touched_bytes(type_index);
        let window_ns = self.window_ns();
        let row = |(window, traffic): (u64, &[Traffic; KNOWN_TYPES])| WindowTraffic {
            from_ns: window * window_ns,
            window_s: window_ns as f64 / NS_PER_S,
            bytes_read: traffic[type_index].read_bytes,
            bytes_written: traffic[type_index].written_bytes,
            working_set_bytes: touched_bytes.get(&window).copied().unwrap_or(0),
        };
        (self.first..).zip(&self.traffic).map(row).filter(|row| row.bytes_read > 0 || row.bytes_written > 0).collect()
    }

    fn touched_bytes(&self, type_index: usize) -> FxHashMap<u64, u64> {
        let mut touched_bytes = FxHashMap::default();
        for (touch, bytes) in self.touched.iter().filter(|(touch, _)| usize::from(touch.type_index) == type_index) {
            *touched_bytes.entry(touch.window).or_default() += bytes;
        }
        touched_bytes
    }

    pub(crate) fn of_type(&self, type_index: usize) -> WindowTotals {
        WindowTotals {
            window_s: self.window_ns() as f64 / NS_PER_S,
            windows: self.traffic.len() as u64,
            observed_s: self.observed_ns.map_or(0.0, |(first, last)| (last - first) as f64 / NS_PER_S),
            traffic: self.traffic_of(type_index),
        }
    }
}

/// One window of time in which memory of a type was accessed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WindowTraffic {
    pub(crate) from_ns: u64,
    pub(crate) window_s: f64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// Distinct bytes that were touched in the window.
    pub(crate) working_set_bytes: u64,
}

/// The windows of one region type; those of several runs are one list.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowTotals {
    /// How long a window is; the longest of several runs.
    pub(crate) window_s: f64,
    /// Windows from the first to the last row of the trace, in some of which nothing may have happened.
    pub(crate) windows: u64,
    /// Time from the first to the last row; that of several runs added up.
    pub(crate) observed_s: f64,
    pub(crate) traffic: Vec<WindowTraffic>,
}

impl WindowTotals {
    pub(crate) fn merge(&mut self, other: &WindowTotals) {
        self.window_s = self.window_s.max(other.window_s);
        self.windows += other.windows;
        self.observed_s += other.observed_s;
        self.traffic.extend(&other.traffic);
    }
}

#[cfg(test)]
#[path = "windows_tests.rs"]
mod tests;
