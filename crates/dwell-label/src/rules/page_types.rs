//! What is known of pages now: runs of bytes, each with a type and a region.

use std::collections::{BTreeMap, HashMap};

use dwell_events::{PAGE_SHIFT, RegionType};

const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;

/// The last byte before the page of an address, and the first one after it.
pub(crate) fn neighbours(address: u64) -> [Option<u64>; 2] {
    let page = address & !(PAGE_BYTES - 1);
    [page.checked_sub(1), page.checked_add(PAGE_BYTES)]
}

/// Whose a byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) region_type: RegionType,
    pub(crate) region_id: u32,
}

/// Consecutive bytes of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    end: u64,
    owner: Owner,
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
    recent: RecentPages,
}

impl PageTypes {
    /// Whose a byte is.
    #[inline]
    pub(crate) fn at(&self, address: u64) -> Option<Owner> {
        self.recent.owner(address).or_else(|| self.run_at(address).map(|run| run.owner))
    }

    fn run_at(&self, address: u64) -> Option<Run> {
        let (_, run) = self.runs.range(..=address).next_back()?;
        (address < run.end).then_some(*run)
    }

    /// Types the pages of the bytes `[address, end)`.
    pub(crate) fn set(&mut self, address: u64, end: u64, region_type: RegionType, region_id: u32) {
        let owner = Owner { region_type, region_id };
        let start = address & !(PAGE_BYTES - 1);
        let end = end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
        let is_one_page = end - start == PAGE_BYTES;
        if is_one_page && self.recent.owner(address) == Some(owner) {
            return;
        }
        if !self.run_at(start).is_some_and(|run| run.owner == owner && run.end >= end) {
            self.replace(start, end, owner);
        }
        if is_one_page {
            self.recent.put(address, owner);
        }
    }

    fn replace(&mut self, mut start: u64, mut end: u64, owner: Owner) {
        let is_same = |run: &Run| run.owner == owner;
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
        self.put(start, Run { end, owner });
    }

    /// Forgets the bytes `[start, end)`; the regions that lost some.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Vec<u32> {
        let before = self.runs.range(..start).next_back().filter(|(_, run)| run.end > start).map(|(&at, _)| at);
        let within = self.runs.range(start..end).map(|(&at, _)| at);
        let overlapping: Vec<u64> = before.into_iter().chain(within).collect();
        if !overlapping.is_empty() {
            self.recent.forget(start, end);
        }
        let mut cut = Vec::new();
        for at in overlapping {
            let Some(run) = self.take(at) else { continue };
            cut.push(run.owner.region_id);
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
        *self.run_counts.entry(run.owner.region_id).or_insert(0) += 1;
    }

    fn take(&mut self, start: u64) -> Option<Run> {
        let run = self.runs.remove(&start)?;
        let count = self.run_counts.entry(run.owner.region_id).or_insert(1);
        *count -= 1;
        if *count == 0 {
            self.run_counts.remove(&run.owner.region_id);
        }
        Some(run)
    }
}

/// Owners of pages that were typed last, so that most accesses need not search all runs.
///
/// Every entry is the owner of all bytes of its page, or empty. There is one place for a page, and the last one that came
/// there has it.
#[derive(Clone, Debug, Default)]
struct RecentPages {
    /// None until there is one.
    entries: Vec<RecentPage>,
}

#[derive(Clone, Copy, Debug)]
struct RecentPage {
    page: u64,
    owner: Owner,
}

impl RecentPages {
    /// 1 MiB: what a core has as its own cache.
    const ENTRIES: usize = 1 << 16;
    const EMPTY: RecentPage =
        RecentPage { page: u64::MAX, owner: Owner { region_type: RegionType::Unknown, region_id: 0 } };

    #[inline]
    fn owner(&self, address: u64) -> Option<Owner> {
        let page = address >> PAGE_SHIFT;
        self.entries.get(Self::place(page)).filter(|entry| entry.page == page).map(|entry| entry.owner)
    }

    fn put(&mut self, address: u64, owner: Owner) {
        if self.entries.is_empty() {
            self.entries = vec![Self::EMPTY; Self::ENTRIES];
        }
        let page = address >> PAGE_SHIFT;
        self.entries[Self::place(page)] = RecentPage { page, owner };
    }

    /// Forgets the pages of the bytes `[start, end)`, of which there is one at least.
    fn forget(&mut self, start: u64, end: u64) {
        let pages = (start >> PAGE_SHIFT)..=((end - 1) >> PAGE_SHIFT);
        if pages.end() - pages.start() >= Self::ENTRIES as u64 {
            return self.entries.clear();
        }
        for page in pages {
            if let Some(entry) = self.entries.get_mut(Self::place(page)).filter(|entry| entry.page == page) {
                *entry = Self::EMPTY;
            }
        }
    }

    #[inline]
    fn place(page: u64) -> usize {
        page as usize % Self::ENTRIES
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
        assert_eq!(pages.run_at(2000 * PAGE_BYTES - 1).map(|run| run.end), Some(2000 * PAGE_BYTES));
        assert_eq!(pages.at(2000 * PAGE_BYTES), None);
    }

    #[test]
    fn freed_bytes_are_taken_out_to_the_byte() {
        let mut pages = PageTypes::default();
        pages.set(0, 3 * PAGE_BYTES, RegionType::Weight, 1);
        assert_eq!(pages.remove(100, 200), [1]);
        assert_eq!(pages.at(99).map(|owner| owner.region_id), Some(1));
        assert_eq!((pages.at(100), pages.at(199)), (None, None));
        assert_eq!(pages.run_at(200).map(|run| run.end), Some(3 * PAGE_BYTES));
    }

    #[test]
    fn another_type_takes_over_its_pages_only() {
        let mut pages = PageTypes::default();
        pages.set(0, 10 * PAGE_BYTES, RegionType::Weight, 1);
        pages.set(4 * PAGE_BYTES, 4 * PAGE_BYTES + 1, RegionType::Activation, 2);
        let types = [3, 4, 5].map(|page| pages.at(page * PAGE_BYTES).map(|owner| owner.region_id));
        assert_eq!(types, [Some(1), Some(2), Some(1)]);
        assert_eq!(pages.runs.len(), 3);
    }

    #[test]
    fn a_page_that_was_typed_last_is_known_until_any_byte_of_it_changes() {
        let mut pages = PageTypes::default();
        let id_at = |pages: &PageTypes, address: u64| pages.at(address).map(|owner| owner.region_id);
        for page in 0..3 {
            pages.set(page * PAGE_BYTES, page * PAGE_BYTES + 1, RegionType::Weight, 1);
        }
        pages.remove(PAGE_BYTES + 10, PAGE_BYTES + 20);
        assert_eq!([9, 10, 19, 20].map(|byte| id_at(&pages, PAGE_BYTES + byte)), [Some(1), None, None, Some(1)]);
        pages.set(0, 2 * PAGE_BYTES, RegionType::Activation, 2);
        assert_eq!([0, 1, 2].map(|page| id_at(&pages, page * PAGE_BYTES)), [Some(2), Some(2), Some(1)]);
        pages.remove(0, u64::MAX);
        assert_eq!([0, 1, 2].map(|page| id_at(&pages, page * PAGE_BYTES)), [None; 3]);
    }

    #[test]
    fn pages_that_share_a_place_are_told_apart() {
        let mut pages = PageTypes::default();
        let far = RecentPages::ENTRIES as u64 * PAGE_BYTES;
        pages.set(0, 1, RegionType::Weight, 1);
        assert_eq!(pages.at(far), None);
        pages.set(far, far + 1, RegionType::Activation, 2);
        assert_eq!([0, far].map(|address| pages.at(address).map(|owner| owner.region_id)), [Some(1), Some(2)]);
    }
}
