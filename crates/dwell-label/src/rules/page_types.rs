//! What is known of pages now: runs of bytes, each with a type and a region.

use std::collections::{BTreeMap, HashMap};

use dwell_events::{PAGE_SHIFT, RegionType};

const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;

/// The last byte before the page of an address, and the first one after it.
pub(crate) fn neighbours(address: u64) -> [Option<u64>; 2] {
    let page = address & !(PAGE_BYTES - 1);
    [page.checked_sub(1), page.checked_add(PAGE_BYTES)]
}

/// Consecutive bytes of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) end: u64,
    pub(crate) region_type: RegionType,
    pub(crate) region_id: u32,
}

/// Types of pages at one moment. Neighbours of one region are one run, so a gigabyte of weights is one entry.
///
/// An access types whole pages, because the rest of a page is most likely of the same owner; memory that is given back
/// is taken out to the byte, because that is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageTypes {
    runs: BTreeMap<u64, Run>,
    /// Runs by region.
    run_counts: HashMap<u32, u32>,
}

impl PageTypes {
    /// The run that holds a byte.
    pub(crate) fn at(&self, address: u64) -> Option<Run> {
        let (_, run) = self.runs.range(..=address).next_back()?;
        (address < run.end).then_some(*run)
    }

    /// Types the pages of the bytes `[address, end)`.
    pub(crate) fn set(&mut self, address: u64, end: u64, region_type: RegionType, region_id: u32) {
        let mut start = address & !(PAGE_BYTES - 1);
        let mut end = end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
        let is_same = |run: &Run| run.region_type == region_type && run.region_id == region_id;
        if self.at(start).is_some_and(|run| is_same(&run) && run.end >= end) {
            return;
        }
        self.remove(start, end);
        if let Some((&before, run)) = self.runs.range(..start).next_back()
            && run.end == start
            && is_same(run)
        {
            start = before;
            self.take(before);
        }
        if let Some(run) = self.runs.get(&end).copied().filter(is_same) {
            self.take(end);
            end = run.end;
        }
        self.put(start, Run { end, region_type, region_id });
    }

    /// Forgets the bytes `[start, end)`; the regions that lost some.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Vec<u32> {
        let before = self.runs.range(..start).next_back().filter(|(_, run)| run.end > start).map(|(&at, _)| at);
        let within = self.runs.range(start..end).map(|(&at, _)| at);
        let overlapping: Vec<u64> = before.into_iter().chain(within).collect();
        let mut cut = Vec::new();
        for at in overlapping {
            let Some(run) = self.take(at) else { continue };
            cut.push(run.region_id);
            if at < start {
                self.put(at, Run { end: start, ..run });
            }
            if run.end > end {
                self.put(end, run);
            }
        }
        cut
    }

    /// Whether anything of a region is left.
    pub(crate) fn has_any(&self, region_id: u32) -> bool {
        self.run_counts.contains_key(&region_id)
    }

    fn put(&mut self, start: u64, run: Run) {
        self.runs.insert(start, run);
        *self.run_counts.entry(run.region_id).or_insert(0) += 1;
    }

    fn take(&mut self, start: u64) -> Option<Run> {
        let run = self.runs.remove(&start)?;
        let count = self.run_counts.entry(run.region_id).or_insert(1);
        *count -= 1;
        if *count == 0 {
            self.run_counts.remove(&run.region_id);
        }
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_region_are_one_run() {
        let mut pages = PageTypes::default();
        for page in (0..1000u64).rev().chain(1000..2000) {
            pages.set(page * PAGE_BYTES + 7, page * PAGE_BYTES + 8, RegionType::Weight, 1);
        }
        assert_eq!(pages.runs.len(), 1);
        assert_eq!(pages.at(2000 * PAGE_BYTES - 1).map(|run| run.end), Some(2000 * PAGE_BYTES));
        assert_eq!(pages.at(2000 * PAGE_BYTES), None);
    }

    #[test]
    fn freed_bytes_are_taken_out_to_the_byte() {
        let mut pages = PageTypes::default();
        pages.set(0, 3 * PAGE_BYTES, RegionType::Weight, 1);
        assert_eq!(pages.remove(100, 200), [1]);
        assert_eq!(pages.at(99).map(|run| run.region_id), Some(1));
        assert_eq!((pages.at(100), pages.at(199)), (None, None));
        assert_eq!(pages.at(200).map(|run| run.end), Some(3 * PAGE_BYTES));
    }

    #[test]
    fn another_type_takes_over_its_pages_only() {
        let mut pages = PageTypes::default();
        pages.set(0, 10 * PAGE_BYTES, RegionType::Weight, 1);
        pages.set(4 * PAGE_BYTES, 4 * PAGE_BYTES + 1, RegionType::Activation, 2);
        let types = [3, 4, 5].map(|page| pages.at(page * PAGE_BYTES).map(|run| run.region_id));
        assert_eq!(types, [Some(1), Some(2), Some(1)]);
        assert_eq!(pages.runs.len(), 3);
    }
}
