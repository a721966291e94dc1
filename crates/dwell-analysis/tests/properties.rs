//! What holds for every trace.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take;
use dwell_analysis::{Analyser, Definitions, Metric, MetricsReport, Options, RowOrder, metric_columns};
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, RegionType};
use proptest::prelude::*;
use support::{ROW, analyse};

const BOTH: [Definitions; 2] = Definitions::ALL;

/// Seconds since the row before, address, size, direction, type, step and period of a row.
type RowParts = (u64, u64, u64, bool, usize, u32, u64);

/// Rows by time, many of them at the same one, over little memory so that they meet.
fn rows() -> impl Strategy<Value = Vec<TraceRow<'static>>> {
    let period = prop_oneof![4 => Just(1u64), 1 => 2u64..50];
    let row = (0u64..3, 0u64..40, 0u64..12, any::<bool>(), 0usize..RegionType::ALL.len(), 0u32..4, period);
    let rows = prop::collection::vec(row, 0..60);
    (rows, any::<bool>()).prop_map(|(rows, is_exact)| {
        let mut now_ns = 0;
        let row = |(pause, address, size_bytes, is_store, region, step, period): RowParts| {
            now_ns += pause * 1_000_000_000;
            let op_type = if is_store { OpType::Store } else { OpType::Load };
            TraceRow {
                timestamp_ns: now_ns,
                address: 0x1000 + address * 4,
                size_bytes,
                op_type,
                region_type: RegionType::ALL[region],
                region_id: region as u32 * 10 + step % 2,
                step: step.checked_sub(1),
                period: if is_exact { 1 } else { period },
                ..ROW
            }
        };
        rows.into_iter().map(row).collect()
    })
}

fn by(definitions: Definitions, rows: &[TraceRow<'_>]) -> MetricsReport {
    analyse(Options { definitions, ..Options::default() }, None, rows)
}

fn batch(rows: &[TraceRow<'_>]) -> RecordBatch {
    let mut builder = TraceBuilder::new("run");
    rows.iter().for_each(|row| builder.push(row));
    builder.finish_batch()
}

fn assert_shares_and_times(report: &MetricsReport) {
    for row in &report.region_types {
        let shares = [
            row.write_once.ratio,
            row.write_once.low,
            row.write_once.high,
            row.retention.censored_share,
            row.retention.inferred_share,
            row.locality.sequential_share,
            row.locality.same_page_share,
        ];
        for share in shares.into_iter().flatten() {
            assert!((0.0..=1.0).contains(&share), "{share} in {row:?}");
        }
        let times = [
            row.retention.p50_low_s,
            row.retention.p50_s,
            row.retention.p50_high_s,
            row.retention.p90_s,
            row.retention.p99_s,
            row.retention.mean_s,
            row.retention.max_s,
            row.inter_access_interval.p50_ns,
            row.inter_access_interval.mean_ns,
        ];
        assert!(times.into_iter().flatten().all(|time| time >= 0.0 && time.is_finite()), "{row:?}");
        let quantiles = [row.retention.p50_s, row.retention.p90_s, row.retention.p99_s, row.retention.max_s];
        let known: Vec<f64> = quantiles.into_iter().flatten().collect();
        assert!(known.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1.0 / 128.0)), "{known:?}");
    }
}

fn assert_totals(report: &MetricsReport, rows: &[TraceRow<'_>]) {
    for of_type in &report.region_types {
        let in_rows = |op_type: OpType| {
            rows.iter().filter(move |row| row.region_type.name() == &*of_type.region_type && row.op_type == op_type)
        };
        let found = &of_type.read_frequency;
        assert_eq!(found.loads, in_rows(OpType::Load).count() as u64);
        assert_eq!(found.stores, in_rows(OpType::Store).count() as u64);
        if report.definitions == Definitions::Dwell {
            assert_eq!(found.bytes_read, Some(in_rows(OpType::Load).map(|row| row.size_bytes).sum()));
            assert_eq!(found.bytes_written, Some(in_rows(OpType::Store).map(|row| row.size_bytes).sum()));
            assert_regions_add_up(report, of_type);
        }
    }
    let counted: u64 = report.region_types.iter().map(|row| row.read_frequency.loads + row.read_frequency.stores).sum();
    assert_eq!(counted, rows.len() as u64);
}

fn assert_regions_add_up(report: &MetricsReport, of_type: &dwell_analysis::RegionTypeRow) {
    let regions = || report.regions.iter().filter(|region| region.region_type == of_type.region_type);
    assert_eq!(of_type.n_regions, regions().count() as u64);
    let sum = |figure: fn(&dwell_analysis::RegionFigures) -> Option<u64>| regions().map(figure).sum::<Option<u64>>();
    assert_eq!(of_type.read_frequency.bytes_read, sum(|region| region.read_frequency.bytes_read));
    assert_eq!(of_type.retention.life_bytes, sum(|region| region.retention.life_bytes));
    assert_eq!(of_type.retention.never_read_bytes, sum(|region| region.retention.never_read_bytes));
    // Regions of a type may share bytes.
    assert!(of_type.working_set.distinct_bytes <= regions().map(|region| region.working_set.distinct_bytes).sum());
}

proptest! {
    #[test]
    fn shares_are_shares_and_no_time_is_negative(rows in rows()) {
        for definitions in BOTH {
            assert_shares_and_times(&by(definitions, &rows));
        }
    }

    #[test]
    fn totals_of_types_are_those_of_their_rows_and_regions(rows in rows()) {
        for definitions in BOTH {
            assert_totals(&by(definitions, &rows), &rows);
        }
    }

    #[test]
    fn the_same_trace_gives_the_same_report_in_one_batch_or_several(rows in rows(), cut in 0usize..60) {
        for definitions in BOTH {
            let options = Options { definitions, ..Options::default() };
            let whole = batch(&rows);
            let cut = cut.min(whole.num_rows());
            let mut analyser = Analyser::new(options);
            analyser.push_trace(&whole.slice(0, cut)).unwrap();
            analyser.push_trace(&whole.slice(cut, whole.num_rows() - cut)).unwrap();
            let report = analyser.finish();
            prop_assert_eq!(&report, &by(definitions, &rows));
            prop_assert_eq!(report.metrics_csv(), by(definitions, &rows).metrics_csv());
        }
    }

    #[test]
    fn rows_may_come_in_any_order_if_they_are_numbered(
        (rows, order) in rows().prop_flat_map(|rows| {
            let order = Just((0..rows.len() as u32).collect::<Vec<u32>>()).prop_shuffle();
            (Just(rows), order)
        }),
    ) {
        let options = Options { row_order: RowOrder::Any, ..Options::default() };
        let mut analyser = Analyser::new(options);
        analyser.push_trace(&permuted(&batch(&rows), &order)).unwrap();
        let report = analyser.finish();
        let expected = by(Definitions::Dwell, &rows);
        prop_assert_eq!(report.region_types, expected.region_types);
        prop_assert_eq!(report.regions, expected.regions);
    }

    #[test]
    fn a_histogram_holds_the_bytes_of_all_lives(rows in rows(), bins in 1usize..40) {
        let report = by(Definitions::Dwell, &rows);
        let histogram = report.retention_histogram(bins);
        for row in &report.region_types {
            let of_type = || histogram.iter().filter(|bin| bin.region_type == row.region_type);
            match row.retention.life_bytes {
                Some(life_bytes) => prop_assert_eq!(of_type().map(|bin| bin.bytes).sum::<u64>(), life_bytes),
                None => prop_assert_eq!(of_type().count(), 0),
            }
            let edges: Vec<(f64, f64)> = of_type().map(|bin| (bin.from_s, bin.to_s)).collect();
            prop_assert!(edges.windows(2).all(|pair| pair[0].1 == pair[1].0), "{:?}", edges);
            prop_assert!(edges.iter().all(|(from_s, to_s)| from_s <= to_s), "{:?}", edges);
        }
    }

    #[test]
    fn a_chosen_metric_has_the_fields_that_it_has_among_all(rows in rows(), metric in 0usize..Metric::ALL.len()) {
        let report = by(Definitions::Dwell, &rows);
        let metric = Metric::ALL[metric];
        let (all, chosen) = (columns(&report.metrics_csv_of(&Metric::ALL)), columns(&report.metrics_csv_of(&[metric])));
        for column in metric_columns(metric) {
            prop_assert_eq!(&chosen[column], &all[column]);
        }
        let foreign = Metric::ALL.into_iter().filter(|other| *other != metric).flat_map(metric_columns);
        prop_assert!(foreign.into_iter().all(|column| !chosen.contains_key(column)));
    }
}

/// The rows of the batch in another order, their numbers with them.
fn permuted(batch: &RecordBatch, order: &[u32]) -> RecordBatch {
    let order = UInt32Array::from(order.to_vec());
    let columns = batch.columns().iter().map(|column| take(column, &order, None).unwrap()).collect();
    RecordBatch::try_new(batch.schema(), columns).unwrap()
}

/// The fields of a CSV, by column. No field here has a comma in it.
fn columns(csv: &str) -> std::collections::BTreeMap<String, Vec<String>> {
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let rows: Vec<Vec<String>> = lines.collect();
    let fields = |place: usize| rows.iter().map(|row| row[place].clone()).collect();
    names.iter().enumerate().map(|(place, name)| (name.clone(), fields(place))).collect()
}
