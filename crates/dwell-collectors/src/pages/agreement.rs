//! The same writes, seen by two collectors: stores to the KV cache in the exact trace, and pages that scans found written.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow_array::types::UInt64Type;
use dwell_events::schema::Table;
use dwell_events::schema::trace::CLEAR_SYMBOL;
use dwell_events::{CollectorName, OpType, PAGE_SHIFT, RegionType};
use dwell_metadata::Agreement;
use dwell_store::{RunDir, StoreError, number_at, open_table_subset, text_at};

use super::NAME;
use super::rows::{Access, PageRow};
use crate::region_names::RegionNames;

const COLUMNS: [&str; 6] = ["timestamp_ns", "address", "size_bytes", "op_type", "region_type", "symbol"];

/// A scan that found a page written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scan {
    /// Beginning of the scan before, and end of this one: the write happened between them.
    since_ns: u64,
    until_ns: u64,
    /// Whether the trace has a store that explains it.
    is_explained: bool,
}

/// A store of the trace. An operation is done at the time of its rows; it began after the one before was done.
#[derive(Clone, Copy, Debug)]
struct Store {
    after_ns: u64,
    done_ns: u64,
}

/// What the scans say about the KV cache.
pub(super) struct ScannedCache {
    /// Its whole pages.
    cache: Vec<Range<u64>>,
    /// By the number of the page, in the order of the scans.
    written: BTreeMap<u64, Vec<Scan>>,
    /// Beginning of the first scan, and ends of the last two.
    first_since_ns: Option<u64>,
    last_ends_ns: [u64; 2],
}

impl ScannedCache {
    pub(super) fn new(names: &RegionNames) -> Self {
        let cache = names.whole_pages_of(RegionType::KvCache);
        Self { cache, written: BTreeMap::new(), first_since_ns: None, last_ends_ns: [0; 2] }
    }

    /// Takes in a row of the table.
    pub(super) fn note(&mut self, row: &PageRow) {
        let (Access::Written, Some(since_ns)) = (row.access, row.since_ns) else { return };
        self.first_since_ns = Some(self.first_since_ns.map_or(since_ns, |first| first.min(since_ns)));
        if row.timestamp_ns > self.last_ends_ns[1] {
            self.last_ends_ns = [self.last_ends_ns[1], row.timestamp_ns];
        }
        let scan = Scan { since_ns, until_ns: row.timestamp_ns, is_explained: false };
        for page in pages_in(&self.cache, &(row.address..row.address + row.size_bytes)) {
            self.written.entry(page).or_default().push(scan);
        }
    }

    /// What can be compared if the cache was cleared for the last time at `cleared_ns`; none if that is nothing.
    fn compared(&self, cleared_ns: u64) -> Option<Compared> {
        let from_ns = self.first_since_ns.filter(|_| !self.cache.is_empty())?.max(cleared_ns);
        let [all_seen_until_ns, until_ns] = self.last_ends_ns;
        (from_ns < all_seen_until_ns).then_some(Compared { from_ns, all_seen_until_ns, until_ns })
    }

    /// Marks the scans that a store explains. Says whether there is one for every page.
    fn explain(&mut self, range: &Range<u64>, store: Store) -> bool {
        let mut is_seen = true;
        for page in pages_in(&self.cache, range) {
            let scans = self.written.get_mut(&page).map_or(&mut [][..], Vec::as_mut_slice);
            let first = scans.partition_point(|scan| scan.until_ns < store.after_ns);
            let explained = scans[first..].iter_mut().take_while(|scan| scan.since_ns <= store.done_ns);
            is_seen &= explained.map(|scan| scan.is_explained = true).count() > 0;
        }
        is_seen
    }
}

/// The time that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Compared {
    from_ns: u64,
    /// Until when a scan has to have seen every store. The last scan may have passed a page before it was written.
    all_seen_until_ns: u64,
    /// The end of the last scan, whose pages have to have a store, too.
    until_ns: u64,
}

impl Compared {
    fn has_to_be_seen(&self, store: Store) -> bool {
        store.after_ns >= self.from_ns && store.done_ns <= self.all_seen_until_ns
    }
}

/// Compares stores to the KV cache with the scans that found its pages written, each in its interval. None if there are no two
/// scans, no KV cache, or nothing after it was cleared: clearing it takes longer than its one row says.
pub(super) fn agreement_with_trace(run: &RunDir, mut scans: ScannedCache) -> Result<Option<Agreement>, StoreError> {
    if scans.compared(0).is_none() {
        return Ok(None);
    }
    let mut cleared_ns = 0;
    for_each_store(run, |symbol, _, store| {
        if symbol == CLEAR_SYMBOL {
            cleared_ns = cleared_ns.max(store.done_ns);
        }
    })?;
    let Some(compared) = scans.compared(cleared_ns) else { return Ok(None) };
    let mut unseen = 0;
    for_each_store(run, |symbol, range, store| {
        if symbol != CLEAR_SYMBOL && !scans.explain(&range, store) && compared.has_to_be_seen(store) {
            unseen += 1;
        }
    })?;
    let Compared { from_ns, until_ns, .. } = compared;
    let found = scans.written.values().flatten().filter(|scan| scan.since_ns >= from_ns);
    let (mut both, mut second_only) = (0, 0);
    found.for_each(|scan| *if scan.is_explained { &mut both } else { &mut second_only } += 1);
    Ok(Some(Agreement {
        about: "writes to pages of the KV cache, by interval".to_owned(),
        first: CollectorName::TENSOR_OPS.name().to_owned(),
        second: NAME.name().to_owned(),
        both,
        first_only: unseen,
        second_only,
        from_ns,
        until_ns,
    }))
}

/// Numbers of the pages of a range that lie wholly in the cache.
fn pages_in(cache: &[Range<u64>], range: &Range<u64>) -> Vec<u64> {
    let mut pages = Vec::new();
    for part in cache {
        let (start, end) = (part.start.max(range.start), part.end.min(range.end));
        if start < end {
            pages.extend(start >> PAGE_SHIFT..=(end - 1) >> PAGE_SHIFT);
        }
    }
    pages
}

/// Hands over every store to the KV cache, with what made it.
fn for_each_store(run: &RunDir, mut take: impl FnMut(&str, Range<u64>, Store)) -> Result<(), StoreError> {
    let mut times_ns = (0, 0);
    for batch in open_table_subset(run.path(), Table::Trace, &COLUMNS)? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let number = |column| number_at::<UInt64Type>(&batch, column, row).unwrap_or(0);
            let text = |column| text_at(&batch, column, row).unwrap_or_default();
            let done_ns = number("timestamp_ns");
            if done_ns > times_ns.1 {
                times_ns = (times_ns.1, done_ns);
            }
            if text("op_type") == OpType::Store.name() && text("region_type") == RegionType::KvCache.name() {
                let address = number("address");
                let store = Store { after_ns: times_ns.0, done_ns };
                take(text("symbol"), address..address.saturating_add(number("size_bytes")), store);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use dwell_events::schema::region_map::RegionRow;

    use super::*;

    const PAGE: u64 = 1 << PAGE_SHIFT;

    fn written(since_ns: u64, until_ns: u64) -> PageRow {
        PageRow {
            timestamp_ns: until_ns,
            since_ns: Some(since_ns),
            pid: 7,
            access: Access::Written,
            address: 20 * PAGE,
            size_bytes: PAGE,
            touched_bytes: PAGE,
            mapping: "".into(),
            region_type: Some(RegionType::KvCache),
            tensor: None,
        }
    }

    /// A cache of pages 16 to 32, of which page 20 was found written in the scan from 100 to 200.
    fn scanned() -> ScannedCache {
        let cache = RegionRow {
            region_id: 1,
            region_type: RegionType::KvCache,
            address: 16 * PAGE,
            size_bytes: 16 * PAGE,
            first_seen_ns: 0,
            last_seen_ns: 1,
            access_count: 1,
            tensor: "cache_k_l0".to_owned(),
            layer: Some(0),
            bytes_read: 0,
            bytes_written: 0,
            origin: "computed",
            file_offset: None,
            freed_ns: None,
        };
        let mut scans = ScannedCache::new(&RegionNames::new(&[cache]));
        scans.note(&written(100, 200));
        scans
    }

    #[test]
    fn the_time_compared_ends_with_the_last_scan_and_its_stores_need_not_be_seen() {
        let mut scans = scanned();
        assert_eq!(scans.compared(0), None, "one scan");
        scans.note(&written(190, 300));
        let compared = scans.compared(120).unwrap();
        assert_eq!((compared.from_ns, compared.until_ns), (120, 300));
        let store = |done_ns| Store { after_ns: 130, done_ns };
        assert!(compared.has_to_be_seen(store(200)) && !compared.has_to_be_seen(store(201)));
        assert_eq!(scans.compared(200), None, "nothing but the last scan came after the cache was cleared");
    }

    #[test]
    fn a_store_explains_the_scan_in_whose_interval_it_lies() {
        let bytes = 20 * PAGE + 100..20 * PAGE + 200;
        let mut scans = scanned();
        assert!(!scans.explain(&bytes, Store { after_ns: 10, done_ns: 99 }), "before the scan");
        assert!(!scans.explain(&bytes, Store { after_ns: 201, done_ns: 300 }), "after the scan");
        assert!(!scans.explain(&(21 * PAGE..22 * PAGE), Store { after_ns: 110, done_ns: 120 }), "another page");
        assert!(!scans.written[&20][0].is_explained);
        assert!(scans.explain(&bytes, Store { after_ns: 190, done_ns: 300 }), "an operation over the end of the scan");
        assert!(scans.written[&20][0].is_explained);
    }

    #[test]
    fn only_whole_pages_of_the_cache_are_compared() {
        assert_eq!(pages_in(&scanned().cache, &(15 * PAGE..18 * PAGE)), [16, 17]);
        assert!(scanned().explain(&(40 * PAGE..41 * PAGE), Store { after_ns: 0, done_ns: 1 }), "not of the cache");
    }
}
