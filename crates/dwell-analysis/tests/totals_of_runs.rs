//! The totals of several runs are those of one run after the other.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use arrow_array::RecordBatch;
use dwell_analysis::metrics::type_columns;
use dwell_analysis::{Analyser, Column, Merging, MetricsReport, Options, RegionTypeRow, SuitabilityThresholds};
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, RegionType};
use proptest::prelude::*;
use support::{ROW, S};

/// Distance of the memory of one part from that of the next.
const PART_BYTES: u64 = 1 << 20;

/// What the addresses of the second process have beside those of the first.
const SECOND_PROCESS: u64 = 1 << 56;

/// Seconds since the row before, address, size, direction, type, step, part, process and period.
type RowParts = (u64, u64, u64, bool, usize, Option<u32>, u64, u64, u64);

/// Rows by time over little memory in each of two parts and processes, whose steps come in any order.
fn rows(is_exact: bool) -> impl Strategy<Value = Vec<TraceRow<'static>>> {
    let types = 0usize..RegionType::ALL.len();
    let step = prop::option::of(0u32..6);
    let row = (0u64..3, 0u64..40, 0u64..12, any::<bool>(), types, step, 0u64..2, 0u64..2, 2u64..50);
    prop::collection::vec(row, 0..80).prop_map(move |rows| {
        let mut now_ns = 0;
        let row = |(pause, address, size_bytes, is_store, region, step, part, process, period): RowParts| {
            now_ns += pause * S;
            TraceRow {
                timestamp_ns: now_ns,
                address: process * SECOND_PROCESS + part * PART_BYTES + 0x1000 + address * 4,
                size_bytes,
                op_type: if is_store { OpType::Store } else { OpType::Load },
                region_type: RegionType::ALL[region],
                // Some regions lie in both parts.
                region_id: region as u32 * 10 + (address % 2) as u32,
                step,
                period: if is_exact { 1 } else { period },
                ..ROW
            }
        };
        rows.into_iter().map(row).collect()
    })
}

fn batch(rows: &[TraceRow<'_>]) -> RecordBatch {
    let mut builder = TraceBuilder::new("run");
    rows.iter().for_each(|row| builder.push(row));
    builder.finish_batch()
}

fn report(rows: &[TraceRow<'_>]) -> MetricsReport {
    let mut analyser = Analyser::new(Options::default());
    analyser.push_trace(&batch(rows)).unwrap();
    analyser.finish()
}

/// All values of the columns that merge in such a way.
fn values<Row>(columns: &[&Column<Row>], rows: &[Row], is_meant: impl Fn(Merging) -> bool) -> Vec<String> {
    let meant = || columns.iter().filter(|column| is_meant(column.merging));
    let value = |row, column: &&&Column<Row>| format!("{} = {:?}", column.name, column.value(row));
    rows.iter().flat_map(|row| meant().map(move |column| value(row, &column)).collect::<Vec<_>>()).collect()
}

fn type_values(rows: &[RegionTypeRow], is_meant: impl Fn(Merging) -> bool) -> Vec<String> {
    let columns: Vec<_> = type_columns().into_iter().map(|(_, column)| column).collect();
    values(&columns, rows, is_meant)
}

proptest! {
    #[test]
    fn the_totals_of_two_runs_are_those_of_one_run_after_the_other(first in rows(true), second in rows(true)) {
        let later = |row: &TraceRow<'static>| TraceRow {
            timestamp_ns: row.timestamp_ns + 1_000 * S,
            address: row.address + 4 * PART_BYTES,
            region_id: row.region_id + 1_000,
            step: row.step.map(|step| step + 1_000),
            ..*row
        };
        let both: Vec<TraceRow<'_>> = first.iter().copied().chain(second.iter().map(later)).collect();
        let mut totals = report(&first).totals().clone();
        totals.merge(report(&second).totals());
        let merged = totals.region_types(&SuitabilityThresholds::default());
        // The window of one run after the other is longer than that of either: what is open stayed longer, as far as seen. A
        // prompt of the second run has a number here that is no prompt's.
        let is_equal = |merging| !matches!(merging, Merging::WithinParts | Merging::Extreme | Merging::Derived);
        let values = |rows: &[RegionTypeRow]| {
            let mut values = type_values(rows, is_equal);
            values.retain(|value| !value.starts_with("residency_") && !value.starts_with("decode_"));
            values
        };
        prop_assert_eq!(values(&merged), values(&report(&both).region_types));
    }
}
