//! A table whose rows are in no order gives the figures of the same rows by time.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

use dwell_analysis::{Definitions, MetricsReport, Options};
use dwell_events::schema::Table;
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, RegionType};
use dwell_metrics::analyse_run;
use dwell_store::{RunDir, TableWriter};

/// Stores and loads of a few addresses in two regions, a microsecond apart.
fn rows() -> Vec<TraceRow<'static>> {
    let types = [RegionType::Weight, RegionType::Activation];
    let row = |number: u64| {
        let region = number as usize % 2;
        TraceRow {
            timestamp_ns: number * 1_000,
            address: 0x1000 + number * number % 7 * 64,
            size_bytes: 64,
            op_type: if number.is_multiple_of(5) { OpType::Store } else { OpType::Load },
            region_type: types[region],
            region_id: region as u32 + 1,
            source: "tensor_ops",
            period: 1,
            ..TraceRow::EMPTY
        }
    };
    (0..200).map(row).collect()
}

/// The figures of rows in the order in which they are written. Times of equal rows differ, so an order is the only one.
fn report(folder: &Path, name: &str, rows: &[TraceRow<'_>], definitions: Definitions) -> MetricsReport {
    let run = RunDir::create(folder, "model", name).unwrap();
    let mut builder = TraceBuilder::new("run");
    rows.iter().for_each(|row| builder.push(row));
    let mut table = TableWriter::create(run.path(), Table::Trace).unwrap();
    table.write(&builder.finish_batch()).unwrap();
    table.finish().unwrap();
    run.set_state(dwell_store::RunState::Complete).unwrap();
    analyse_run(&run, Options { definitions, ..Options::default() }).unwrap()
}

#[test]
fn rows_in_no_order_are_sorted_on_the_way_in() {
    let folder = tempfile::tempdir().unwrap();
    let by_time = rows();
    // 77 has no divisor in common with 200: every row comes once.
    let shuffled: Vec<TraceRow<'_>> = (0..200).map(|place| by_time[place * 77 % 200]).collect();
    for definitions in [Definitions::Dwell, Definitions::MrmTrace] {
        let sorted = report(folder.path(), &format!("sorted-{}", definitions.name()), &by_time, definitions);
        let unsorted = report(folder.path(), &format!("unsorted-{}", definitions.name()), &shuffled, definitions);
        assert_eq!((sorted.backward_rows, unsorted.backward_rows > 50), (0, true));
        assert_eq!(unsorted.metrics_csv(), sorted.metrics_csv());
        assert_eq!(unsorted.regions_csv(), sorted.regions_csv());
    }
}
