//! Names for addresses that a collector saw: the tensors that an exact trace knows there.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use dwell_events::schema::region_map::RegionRow;
use dwell_events::{PAGE_SHIFT, RegionType};

const PAGE: u64 = 1 << PAGE_SHIFT;

/// Whose memory it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) region_type: RegionType,
    /// None where tensors share memory with one another.
    pub(crate) tensor: Option<Arc<str>>,
}

struct Span {
    end: u64,
    /// When the memory was given back; never, as far as it is known.
    freed_ns: u64,
    name: Name,
}

/// Known memory, by its first byte; spans do not overlap.
pub(crate) struct RegionNames {
    spans: BTreeMap<u64, Span>,
}

impl RegionNames {
    /// Tensors that overlap become one span without the name of a tensor; the graph allocator gives the memory of activations
    /// to one after another.
    pub(crate) fn new(regions: &[RegionRow]) -> Self {
        let mut sorted: Vec<&RegionRow> = regions.iter().filter(|region| region.size_bytes > 0).collect();
        sorted.sort_by_key(|region| (region.address, region.size_bytes));
        let mut spans: BTreeMap<u64, Span> = BTreeMap::new();
        for region in sorted {
            let end = region.address.saturating_add(region.size_bytes);
            let freed_ns = region.freed_ns.unwrap_or(u64::MAX);
            match spans.last_entry() {
                Some(mut last) if last.get().end > region.address => {
                    let last = last.get_mut();
                    last.end = last.end.max(end);
                    last.freed_ns = last.freed_ns.max(freed_ns);
                    last.name.tensor = last.name.tensor.take().filter(|name| **name == *region.tensor);
                }
                _ => {
                    let name = Name { region_type: region.region_type, tensor: Some(region.tensor.as_str().into()) };
                    spans.insert(region.address, Span { end, freed_ns, name });
                }
            }
        }
        Self { spans }
    }

    /// The pages of a range, in pieces that have one name or none. A page of several names has the first of them.
    pub(crate) fn pages_of(&self, range: &Range<u64>) -> Vec<(Range<u64>, Option<&Name>)> {
        let mut pieces: Vec<(Range<u64>, Option<&Name>)> = Vec::new();
        let mut begin = range.start;
        let before = self.spans.range(..range.start).next_back();
        for (&start, span) in before.into_iter().chain(self.spans.range(range.start..range.end)) {
            let first = (start & !(PAGE - 1)).max(begin);
            let end = (span.end.saturating_add(PAGE - 1) & !(PAGE - 1)).min(range.end);
            if end <= first {
                continue;
            }
            if first > begin {
                pieces.push((begin..first, None));
            }
            match pieces.last_mut().filter(|(last, name)| last.end == first && *name == Some(&span.name)) {
                Some((last, _)) => last.end = end,
                None => pieces.push((first..end, Some(&span.name))),
            }
            begin = end;
        }
        if begin < range.end {
            pieces.push((begin..range.end, None));
        }
        pieces
    }

    /// Whose memory the byte at an address was, at a time. Memory is touched before the trace sees its first access, so a name holds
    /// until the memory is given back.
    pub(crate) fn at(&self, address: u64, time_ns: u64) -> Option<&Name> {
        let (_, span) = self.spans.range(..=address).next_back()?;
        (address < span.end && time_ns <= span.freed_ns).then_some(&span.name)
    }

    /// Pages that lie wholly in memory of this type.
    pub(crate) fn whole_pages_of(&self, region_type: RegionType) -> Vec<Range<u64>> {
        let mut joined: Vec<Range<u64>> = Vec::new();
        for (&start, span) in self.spans.iter().filter(|(_, span)| span.name.region_type == region_type) {
            match joined.last_mut().filter(|last| last.end == start) {
                Some(last) => last.end = span.end,
                None => joined.push(start..span.end),
            }
        }
        let whole = |range: &Range<u64>| (range.start + PAGE - 1) & !(PAGE - 1)..range.end & !(PAGE - 1);
        joined.iter().map(whole).filter(|range| range.start < range.end).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(region_type: RegionType, tensor: &str, address: u64, size_bytes: u64) -> RegionRow {
        RegionRow {
            region_id: 1,
            region_type,
            address,
            size_bytes,
            first_seen_ns: 0,
            last_seen_ns: 1,
            access_count: 1,
            tensor: tensor.to_owned(),
            layer: None,
            bytes_read: 0,
            bytes_written: 0,
            origin: "computed",
            file_offset: None,
            freed_ns: None,
        }
    }

    #[test]
    fn a_range_is_cut_at_the_pages_of_tensors() {
        let names = RegionNames::new(&[
            region(RegionType::KvCache, "cache_k", 2 * PAGE, 2 * PAGE),
            region(RegionType::KvCache, "cache_v", 4 * PAGE, PAGE / 2),
        ]);
        let pieces = names.pages_of(&(PAGE..6 * PAGE));
        let found: Vec<_> = pieces
            .iter()
            .map(|(range, name)| (range.start / PAGE..range.end / PAGE, name.and_then(|name| name.tensor.as_deref())))
            .collect();
        assert_eq!(found, [(1..2, None), (2..4, Some("cache_k")), (4..5, Some("cache_v")), (5..6, None)]);
        assert_eq!(names.whole_pages_of(RegionType::KvCache).as_slice(), std::slice::from_ref(&(2 * PAGE..4 * PAGE)));
    }

    #[test]
    fn a_range_that_begins_inside_a_tensor_has_its_name() {
        let names = RegionNames::new(&[region(RegionType::Weight, "w", PAGE, 8 * PAGE)]);
        let pieces = names.pages_of(&(3 * PAGE..4 * PAGE));
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].1.and_then(|name| name.tensor.as_deref()), Some("w"));
    }

    #[test]
    fn a_byte_has_the_name_of_its_tensor_until_that_is_given_back() {
        let freed = RegionRow { freed_ns: Some(70), ..region(RegionType::Weight, "w", PAGE + 8, PAGE) };
        let names = RegionNames::new(&[freed, region(RegionType::KvCache, "k", 4 * PAGE, PAGE)]);
        let at = |address, time_ns| names.at(address, time_ns).and_then(|name| name.tensor.as_deref());
        assert_eq!((at(PAGE + 8, 0), at(2 * PAGE + 7, 70)), (Some("w"), Some("w")));
        assert_eq!((at(PAGE + 7, 0), at(2 * PAGE + 8, 0), at(PAGE + 8, 71)), (None, None, None));
        assert_eq!(at(4 * PAGE, u64::MAX), Some("k"));
    }

    #[test]
    fn tensors_that_share_memory_lose_their_names_and_keep_their_type() {
        let names = RegionNames::new(&[
            region(RegionType::Activation, "a", PAGE, 2 * PAGE),
            region(RegionType::Activation, "b", 2 * PAGE, 2 * PAGE),
        ]);
        let pieces = names.pages_of(&(PAGE..5 * PAGE));
        let name = Name { region_type: RegionType::Activation, tensor: None };
        assert_eq!(pieces, [(PAGE..4 * PAGE, Some(&name)), (4 * PAGE..5 * PAGE, None)]);
    }
}
