//! The analysis against a reference that is plain and slow: it keeps a list for every byte and knows no range, no bucket and
//! no shortcut. Both give the same numbers for every exact trace.
//!
//! Times and distances stay below 256, so that the buckets of the analysis hold one value each. Not compared: bounds and
//! classes, which rest on intervals of the estimator.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod accesses;
mod bytes;
mod lives;
mod plain_statistics;
mod requested;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use dwell_analysis::metrics::type_column;
use dwell_analysis::{MetricsReport, Options, RegionTypeRow, RequestedMetrics};
use dwell_events::schema::trace::TraceRow;
use dwell_events::{OpType, RegionType};
use proptest::prelude::*;
use support::{ROW, analyse};

/// Columns of `metrics.csv` with the values that a region type should have there.
type Expected = BTreeMap<&'static str, Option<f64>>;

/// Length of the windows of bandwidth.
const WINDOW_NS: u64 = 7;

/// Nanoseconds since the row before, address, size, whether it stores, type, and step.
type RowParts = (u64, u64, u64, bool, usize, Option<u32>);

/// Rows by time, many of them at the same one, over little memory so that they meet.
fn rows() -> impl Strategy<Value = Vec<TraceRow<'static>>> {
    let step = prop::option::weighted(0.8, 0u32..5);
    let row = (0u64..3, 0u64..40, 0u64..24, any::<bool>(), 0..RegionType::ALL.len(), step);
    prop::collection::vec(row, 1..70).prop_map(|rows| {
        let (mut now_ns, mut last_step) = (3, None);
        let row = |(pause_ns, address, size_bytes, is_store, region, step): RowParts| {
            // A step begins later than all that was done before it.
            now_ns += pause_ns + u64::from(step != last_step);
            last_step = step;
            TraceRow {
                timestamp_ns: now_ns,
                // Close to where one page ends and the next begins.
                address: 0x1fe0 + address * 2,
                size_bytes,
                op_type: if is_store { OpType::Store } else { OpType::Load },
                region_type: RegionType::ALL[region],
                region_id: region as u32 * 10 + (address % 2) as u32,
                step,
                ..ROW
            }
        };
        rows.into_iter().map(row).collect()
    })
}

fn report(rows: &[TraceRow<'_>]) -> MetricsReport {
    let options = Options { requested: RequestedMetrics::all(), window_ns: WINDOW_NS, ..Options::default() };
    analyse(options, None, rows)
}

fn assert_equal(row: &RegionTypeRow, expected: &Expected) {
    for (name, expected) in expected {
        let found = type_column(name).unwrap().value(row).and_then(|value| value.number());
        let is_equal = match (found, expected) {
            (Some(found), Some(expected)) => (found - expected).abs() <= 1e-9 * expected.abs(),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_equal, "{name} of {}: {found:?} instead of {expected:?}", row.region_type);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_analysis_gives_what_following_every_byte_gives(rows in rows()) {
        let report = report(&rows);
        let types: Vec<&str> = report.region_types.iter().map(|row| &*row.region_type).collect();
        let occurring = RegionType::ALL.into_iter().filter(|of| rows.iter().any(|row| row.region_type == *of));
        prop_assert_eq!(types, occurring.map(RegionType::name).collect::<Vec<_>>());
        for row in &report.region_types {
            let region_type = row.region_type.region_type();
            assert_equal(row, &accesses::expected(&rows, region_type));
            assert_equal(row, &bytes::expected(&rows, region_type));
            assert_equal(row, &lives::expected(&rows, region_type));
            assert_equal(row, &requested::expected(&rows, region_type));
        }
    }

    #[test]
    fn a_memory_serves_what_one_that_is_simulated_serves(rows in rows()) {
        for row in &report(&rows).reuse {
            let region_type = RegionType::from_name(&row.region_type);
            let served = requested::served_share(&rows, region_type, row.capacity_bytes as usize);
            prop_assert!((row.hit_share - served).abs() < 1e-12, "{:?} instead of {}", row, served);
        }
    }

    #[test]
    fn windows_hold_what_rows_of_their_time_say(rows in rows()) {
        for row in &report(&rows).bandwidth {
            let expected = requested::window(&rows, row.region_type.region_type(), row.from_ns);
            prop_assert_eq!((row.bytes_read, row.bytes_written, row.working_set_bytes), expected);
        }
    }
}
