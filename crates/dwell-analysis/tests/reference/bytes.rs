//! What was done to bytes, whatever they held: working set and intervals.

use std::collections::{BTreeMap, BTreeSet};

use dwell_events::schema::trace::TraceRow;
use dwell_events::{PAGE_SHIFT, RegionType};

use crate::Expected;
use crate::plain_statistics::{largest, mean, median, quantile};

/// Every access of every byte, in order.
pub fn byte_accesses<'a>(rows: &'a [TraceRow<'a>]) -> impl Iterator<Item = (u64, &'a TraceRow<'a>)> {
    rows.iter().flat_map(|row| (row.address..row.address + row.size_bytes).map(move |byte| (byte, row)))
}

pub fn expected(rows: &[TraceRow<'_>], region_type: RegionType) -> Expected {
    let own = || byte_accesses(rows).filter(|(_, row)| row.region_type == region_type);
    let bytes: BTreeSet<u64> = own().map(|(byte, _)| byte).collect();
    let pages: BTreeSet<u64> = bytes.iter().map(|byte| byte >> PAGE_SHIFT).collect();
    let steps = step_bytes(rows, region_type);
    let intervals = intervals_ns(rows, region_type);
    Expected::from([
        ("distinct_bytes", Some(bytes.len() as f64)),
        ("working_set_mb_total", Some(bytes.len() as f64 / f64::from(1 << 20))),
        ("unique_pages_total", Some(pages.len() as f64)),
        ("step_working_set_median_bytes", median(&steps)),
        ("step_working_set_max_bytes", largest(&steps)),
        ("interval_p50_ns", quantile(&intervals, 0.5)),
        ("interval_p90_ns", quantile(&intervals, 0.9)),
        ("interval_p99_ns", quantile(&intervals, 0.99)),
        ("interval_mean_ns", mean(&intervals)),
    ])
}

/// Bytes that each step touched; a byte counts for the type that touches it first.
fn step_bytes(rows: &[TraceRow<'_>], region_type: RegionType) -> Vec<f64> {
    let mut first_types: BTreeMap<(u32, u64), RegionType> = BTreeMap::new();
    for (byte, row) in byte_accesses(rows) {
        if let Some(step) = row.step {
            first_types.entry((step, byte)).or_insert(row.region_type);
        }
    }
    let mut bytes: BTreeMap<u32, f64> = BTreeMap::new();
    let own = first_types.iter().filter(|(_, first)| **first == region_type);
    own.for_each(|((step, _), _)| *bytes.entry(*step).or_default() += 1.0);
    bytes.into_values().collect()
}

/// From each access of a byte to the next, which is one by the type.
fn intervals_ns(rows: &[TraceRow<'_>], region_type: RegionType) -> Vec<f64> {
    let mut last_ns: BTreeMap<u64, u64> = BTreeMap::new();
    let mut intervals = Vec::new();
    for (byte, row) in byte_accesses(rows) {
        if let Some(before_ns) = last_ns.insert(byte, row.timestamp_ns)
            && row.region_type == region_type
        {
            intervals.push((row.timestamp_ns - before_ns) as f64);
        }
    }
    intervals
}
