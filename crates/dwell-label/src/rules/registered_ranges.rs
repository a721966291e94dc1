//! Address ranges that somebody registered, with the time they were valid.

use dwell_events::RegionType;

use super::RulesError;

/// Memory whose owner is known, for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredRange {
    /// What the memory is.
    pub region: RegionType,
    /// First byte.
    pub address: u64,
    /// Bytes from `address` on.
    pub size_bytes: u64,
    /// First moment at which it is that.
    pub from_ns: u64,
    /// First moment at which it is not that any more; none if it stays.
    pub to_ns: Option<u64>,
    /// What it is called, for people.
    pub name: Option<String>,
}

impl RegisteredRange {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.size_bytes)
    }

    fn end_ns(&self) -> u64 {
        self.to_ns.unwrap_or(u64::MAX)
    }

    /// Name, or where it is.
    fn words(&self) -> String {
        let until = self.to_ns.map_or_else(|| "the end".to_owned(), |to_ns| format!("{to_ns} ns"));
        let place = format!("{:#x} + {} bytes from {} ns to {until}", self.address, self.size_bytes, self.from_ns);
        match &self.name {
            Some(name) => format!("{name:?} ({} at {place})", self.region.name()),
            None => format!("{} at {place}", self.region.name()),
        }
    }
}

/// Addresses that the same ranges cover, and when each of those is the one that counts.
#[derive(Clone, Debug)]
struct Segment {
    address: u64,
    end: u64,
    /// Without overlap, by time: from, to, number of the range.
    spans: Vec<(u64, u64, u32)>,
}

/// All ranges, to be asked by address and time.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegisteredRanges {
    ranges: Vec<RegisteredRange>,
    segments: Vec<Segment>,
    /// Beginnings and ends of ranges by time: what was known of their bytes before is not true after.
    edges: Vec<(u64, u32)>,
}

/// Spans of all segments together; nested ranges could ask for the square of their number.
const SPANS_MAX: usize = 1 << 22;

impl RegisteredRanges {
    /// Refuses ranges that claim the same byte at the same time for different types.
    pub(crate) fn new(ranges: Vec<RegisteredRange>) -> Result<Self, RulesError> {
        for range in &ranges {
            if range.size_bytes == 0 || range.address.checked_add(range.size_bytes).is_none() {
                return Err(RulesError::EmptyRange { range: range.words() });
            }
            if range.end_ns() <= range.from_ns {
                return Err(RulesError::RangeWithoutTime { range: range.words() });
            }
        }
        let segments = segments(&ranges)?;
        let mut edges: Vec<(u64, u32)> = (0u32..)
            .zip(&ranges)
            .flat_map(|(index, range)| {
                [Some(range.from_ns), range.to_ns].into_iter().flatten().map(move |at| (at, index))
            })
            .collect();
        edges.sort_unstable();
        Ok(Self { ranges, segments, edges })
    }

    pub(crate) fn into_ranges(self) -> Vec<RegisteredRange> {
        self.ranges
    }

    pub(crate) fn get(&self, index: u32) -> &RegisteredRange {
        &self.ranges[index as usize]
    }

    /// The range that holds a byte at a time.
    pub(crate) fn at(&self, address: u64, time_ns: u64) -> Option<u32> {
        let spans = &self.segment(address)?.spans;
        let begun = spans.partition_point(|&(from_ns, _, _)| from_ns <= time_ns);
        let &(_, to_ns, range) = spans.get(begun.checked_sub(1)?)?;
        (time_ns < to_ns).then_some(range)
    }

    /// Whether a range that holds the byte began or ended after one time, up to another.
    pub(crate) fn has_edge(&self, address: u64, after_ns: u64, until_ns: u64) -> bool {
        let is_within = |at: u64| at > after_ns && at <= until_ns;
        self.segment(address).is_some_and(|segment| {
            let first = segment.spans.partition_point(|&(_, to_ns, _)| to_ns <= after_ns);
            // Later spans have later edges, so the first one that is not over decides.
            segment.spans.get(first).is_some_and(|&(from_ns, to_ns, _)| is_within(from_ns) || is_within(to_ns))
        })
    }

    /// Ranges that begin or end after one time, up to another.
    pub(crate) fn edges(&self, after_ns: u64, until_ns: u64) -> impl Iterator<Item = &RegisteredRange> {
        let begin = self.edges.partition_point(|&(at, _)| at <= after_ns);
        let edges = self.edges[begin..].iter().take_while(move |&&(at, _)| at <= until_ns);
        edges.map(|&(_, range)| self.get(range))
    }

    fn segment(&self, address: u64) -> Option<&Segment> {
        let begun = self.segments.partition_point(|segment| segment.address <= address);
        self.segments.get(begun.checked_sub(1)?).filter(|segment| address < segment.end)
    }
}

/// Cuts the address space wherever a range begins or ends.
fn segments(ranges: &[RegisteredRange]) -> Result<Vec<Segment>, RulesError> {
    let mut cuts: Vec<u64> = ranges.iter().flat_map(|range| [range.address, range.end()]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut starting: Vec<u32> = (0..ranges.len() as u32).collect();
    starting.sort_by_key(|&index| ranges[index as usize].address);
    let mut starting = starting.into_iter().peekable();
    let mut covering: Vec<u32> = Vec::new();
    let mut segments = Vec::new();
    let mut span_count = 0;
    for cut in cuts.windows(2) {
        covering.retain(|&index| ranges[index as usize].end() > cut[0]);
        while let Some(index) = starting.next_if(|&index| ranges[index as usize].address == cut[0]) {
            covering.push(index);
        }
        span_count += covering.len();
        if span_count > SPANS_MAX {
            return Err(RulesError::TooManyOverlaps { limit: SPANS_MAX });
        }
        if !covering.is_empty() {
            segments.push(Segment { address: cut[0], end: cut[1], spans: spans(ranges, &covering)? });
        }
    }
    Ok(segments)
}

/// Orders what covers a segment by time. Of ranges of one type that overlap in time, the first counts until it ends.
fn spans(ranges: &[RegisteredRange], covering: &[u32]) -> Result<Vec<(u64, u64, u32)>, RulesError> {
    let mut by_time = covering.to_vec();
    by_time.sort_by_key(|&index| (ranges[index as usize].from_ns, index));
    let mut spans: Vec<(u64, u64, u32)> = Vec::with_capacity(by_time.len());
    for index in by_time {
        let range = &ranges[index as usize];
        let from_ns = match spans.last() {
            Some(&(_, to_ns, other)) if to_ns > range.from_ns => {
                let other = &ranges[other as usize];
                if other.region != range.region {
                    return Err(RulesError::RangeConflict { first: other.words(), second: range.words() });
                }
                to_ns
            }
            _ => range.from_ns,
        };
        if from_ns < range.end_ns() {
            spans.push((from_ns, range.end_ns(), index));
        }
    }
    Ok(spans)
}
