//! Parts of a trace that are analysed apart give the report of the whole.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use arrow_array::{RecordBatch, UInt64Array};
use arrow_select::take::take_record_batch;
use dwell_analysis::metrics::{region_columns, type_columns};
use dwell_analysis::{
    Analyser, AnalysisError, Column, Definitions, Merging, MetricsReport, Options, RegionTypeRow, RowOrder,
    SuitabilityThresholds,
};
use dwell_events::schema::kv_block_lifecycle::KvBlockBuilder;
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, RegionType};
use proptest::prelude::*;
use support::{BLOCK, ROW, S};

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

fn analyser(options: Options, batch: &RecordBatch) -> Analyser {
    let mut analyser = Analyser::new(options);
    analyser.push_trace(batch).unwrap();
    analyser
}

/// The whole trace, and the same from two parts of it.
fn whole_and_merged(options: Options, rows: &[TraceRow<'_>]) -> [MetricsReport; 2] {
    let whole = batch(rows);
    let part = |is_upper: bool| {
        let is_in = |index: &u64| (rows[*index as usize].address % SECOND_PROCESS >= PART_BYTES) == is_upper;
        let indices = UInt64Array::from_iter_values((0..rows.len() as u64).filter(is_in));
        analyser(options, &take_record_batch(&whole, &indices).unwrap())
    };
    let mut merged = part(false);
    merged.merge(part(true)).unwrap();
    [analyser(options, &whole).finish(), merged.finish()]
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

fn region_values(report: &MetricsReport, is_meant: impl Fn(Merging) -> bool) -> Vec<String> {
    let columns: Vec<_> = region_columns().into_iter().map(|(_, column)| column).collect();
    values(&columns, &report.regions, is_meant)
}

proptest! {
    #[test]
    fn parts_by_address_give_the_whole_but_for_pairs_of_rows_in_different_parts(rows in rows(true)) {
        let [whole, merged] = whole_and_merged(Options::default(), &rows);
        let is_equal = |merging| merging != Merging::WithinParts;
        prop_assert_eq!(type_values(&merged.region_types, is_equal), type_values(&whole.region_types, is_equal));
        prop_assert_eq!(region_values(&merged, is_equal), region_values(&whole, is_equal));
        prop_assert_eq!(merged.retention_histogram(5), whole.retention_histogram(5));
        prop_assert_eq!((merged.window, merged.trace_rows), (whole.window, whole.trace_rows));
    }

    #[test]
    fn counts_and_footprints_of_sampled_parts_add_up(rows in rows(false)) {
        let [whole, merged] = whole_and_merged(Options::default(), &rows);
        let is_equal = |merging| matches!(merging, Merging::Same | Merging::Sum | Merging::Extreme | Merging::Weakest);
        prop_assert_eq!(type_values(&merged.region_types, is_equal), type_values(&whole.region_types, is_equal));
        prop_assert_eq!(region_values(&merged, is_equal), region_values(&whole, is_equal));
    }

    #[test]
    fn parts_whose_rows_are_put_in_order_at_the_end_give_all_of_the_whole(rows in rows(false)) {
        let [whole, merged] = whole_and_merged(Options { row_order: RowOrder::Any, ..Options::default() }, &rows);
        prop_assert_eq!(merged.metrics_csv(), whole.metrics_csv());
        prop_assert_eq!(merged.regions_csv(), whole.regions_csv());
    }

    #[test]
    fn the_totals_of_two_runs_are_those_of_one_run_after_the_other(first in rows(true), second in rows(true)) {
        let report = |rows: &[TraceRow<'_>]| analyser(Options::default(), &batch(rows)).finish();
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

#[test]
fn lives_of_kv_blocks_add_up() {
    let blocks = [(0, 100), (PART_BYTES, 200)].map(|(address, last_read_ns)| {
        let mut builder = KvBlockBuilder::default();
        builder.push(dwell_events::schema::kv_block_lifecycle::KvBlockRow {
            address,
            last_read_ns: Some(last_read_ns),
            total_reads: 2,
            ..BLOCK
        });
        builder.finish_batch()
    });
    let analyser = |batches: &[RecordBatch]| {
        let mut analyser = Analyser::new(Options::default());
        analyser.expect_kv_lifecycle(&batches[0]).unwrap();
        batches.iter().for_each(|batch| analyser.push_kv_lifecycle(batch).unwrap());
        analyser
    };
    let mut merged = analyser(&blocks[..1]);
    merged.merge(analyser(&blocks[1..])).unwrap();
    assert_eq!(merged.finish().metrics_csv(), analyser(&blocks).finish().metrics_csv());
    let mut without = Analyser::new(Options::default());
    let error = without.merge(analyser(&blocks)).unwrap_err();
    assert!(matches!(error, AnalysisError::UnlikeParts { .. }), "{error}");
}

#[test]
fn parts_that_cannot_be_merged_are_refused() {
    let theirs = Options { definitions: Definitions::MrmTrace, ..Options::default() };
    let error = Analyser::new(theirs).merge(Analyser::new(theirs)).unwrap_err();
    assert_eq!(error, AnalysisError::NotMergeable { definitions: "mrm-trace" });
    let error = Analyser::new(theirs).merge(Analyser::new(Options::default())).unwrap_err();
    assert_eq!(error, AnalysisError::UnlikeParts { difference: "their options" });
}
