//! What files the analyser takes, and what its text looks like.

mod support;

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int64Array, LargeStringArray, NullArray, RecordBatch, StringArray, StringViewArray, UInt32Array,
    UInt64Array,
};
use dwell_analysis::{Analyser, AnalysisError, Basis, Definitions, MetricsReport, Obstacle, Options, SuitabilityClass};
use dwell_events::schema::kv_block_lifecycle::KvBlockBuilder;
use support::{S, dwell, load, mrm_trace, of_type, store};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let nullable = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(nullable).expect("the columns are equally long")
}

/// The columns that a file of mrm-trace has at least.
fn foreign() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("timestamp_ns", Arc::new(UInt64Array::from(vec![0, S]))),
        ("address", Arc::new(UInt64Array::from(vec![4096, 4096]))),
        ("op_type", Arc::new(StringArray::from(vec!["store", "load"]))),
        ("region_type", Arc::new(LargeStringArray::from(vec!["kv_cache", "kv_cache"]))),
        ("region_id", Arc::new(UInt32Array::from(vec![2, 2]))),
        ("symbol", Arc::new(NullArray::new(2))),
    ]
}

fn report(columns: Vec<(&str, ArrayRef)>) -> Result<MetricsReport, AnalysisError> {
    let mut analyser = Analyser::new(Options::default());
    analyser.push_trace(&batch(columns))?;
    Ok(analyser.finish())
}

fn with(name: &'static str, array: ArrayRef) -> Vec<(&'static str, ArrayRef)> {
    let mut columns = foreign();
    columns.retain(|(known, _)| *known != name);
    columns.push((name, array));
    columns
}

#[test]
fn rows_without_a_size_are_one_byte_and_without_a_period_sampled() {
    let report = report(foreign()).unwrap();
    let row = of_type(&report, "kv_cache");
    assert_eq!((row.working_set.distinct_bytes, row.working_set.step_max_bytes), (1, None));
    assert_eq!((row.retention.basis, row.retention.p50_s), (Basis::Sampled, None));
    assert_eq!(row.retention.obstacle, Some(Obstacle::UnknownPeriod));
    assert_eq!((row.write_once.ratio, row.suitability.class), (None, SuitabilityClass::NotEstimable));
}

#[test]
fn text_may_be_of_any_kind_and_numbers_of_any_width() {
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["kv_cache", "kv_cache"]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![0, S as i64]));
    let expected = report(foreign()).unwrap().region_types;
    assert_eq!(report(with("region_type", texts)).unwrap().region_types, expected);
    assert_eq!(report(with("timestamp_ns", numbers)).unwrap().region_types, expected);
}

#[test]
fn a_missing_column_is_named() {
    for column in ["timestamp_ns", "address", "op_type", "region_type", "region_id"] {
        let mut columns = foreign();
        columns.retain(|(name, _)| *name != column);
        assert_eq!(report(columns).unwrap_err(), AnalysisError::MissingColumn { table: "trace", column });
    }
}

#[test]
fn values_that_mean_nothing_are_errors() {
    let negative = report(with("address", Arc::new(Int64Array::from(vec![1, -1])))).unwrap_err();
    assert_eq!(negative, AnalysisError::NegativeValue { column: "address", row: 1, value: -1 });
    let null = report(with("address", Arc::new(UInt64Array::from(vec![None, Some(1)])))).unwrap_err();
    assert_eq!(null, AnalysisError::NullValue { column: "address", row: 0 });
    let operation = report(with("op_type", Arc::new(StringArray::from(vec!["load", "free"])))).unwrap_err();
    assert_eq!(operation, AnalysisError::UnknownOperation { value: "free".into() });
    let text = report(with("address", Arc::new(StringArray::from(vec!["a", "b"])))).unwrap_err();
    assert!(matches!(text, AnalysisError::ColumnType { column: "address", .. }));
}

#[test]
fn a_region_type_that_is_not_ours_is_unknown_memory_here_and_itself_for_mrm_trace() {
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("banana"), None]));
    let columns = with("region_type", names);
    assert_eq!(&*report(columns.clone()).unwrap().region_types[0].region_type, "unknown");
    let mut analyser = Analyser::new(Options { definitions: Definitions::MrmTrace, ..Options::default() });
    analyser.push_trace(&batch(columns)).unwrap();
    assert_eq!(&*analyser.finish().region_types[0].region_type, "banana");
}

#[test]
fn lives_of_kv_blocks_have_to_be_announced_before_the_trace() {
    let mut analyser = Analyser::new(Options::default());
    analyser.push_trace(&batch(foreign())).unwrap();
    let late = analyser.expect_kv_lifecycle(&KvBlockBuilder::default().finish_batch());
    assert_eq!(late, Err(AnalysisError::LifecycleAfterTrace));
}

#[test]
fn a_lifecycle_table_of_mrm_trace_without_evictions_is_taken() {
    let mut analyser = Analyser::new(Options::default());
    let numbers = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let blocks = batch(vec![
        ("address", numbers(vec![4096])),
        ("write_ns", numbers(vec![0])),
        ("last_read_ns", numbers(vec![2 * S as i64])),
        ("evict_ns", Arc::new(NullArray::new(1))),
        ("total_reads", numbers(vec![4])),
    ]);
    analyser.expect_kv_lifecycle(&blocks).unwrap();
    analyser.push_kv_lifecycle(&blocks).unwrap();
    let report = analyser.finish();
    let row = of_type(&report, "kv_cache");
    assert_eq!((row.retention.p99_s, row.retention.p99_low_s), (None, Some(2.0)), "it may have been read again");
    assert_eq!((row.retention.censored_share, row.retention.basis), (Some(1.0), Basis::Page));
}

#[test]
fn the_metrics_csv_begins_with_the_columns_of_mrm_trace() {
    let head = "region_type,n_regions,retention_p50_s,retention_p90_s,retention_p99_s,retention_mean_s,\
                write_once_ratio_mean,reads_per_write_mean,working_set_mb_total,unique_pages_total,suitability,";
    let rows = [store(0, 0x1000, 8), load(2 * S, 0x1000, 8)];
    let ours = dwell(&rows).metrics_csv();
    assert!(ours.starts_with(head));
    assert!(ours.contains("\nactivation,1,,,,2,1,1,0.00000762939453125,1,not_rated,dwell,exact,"), "{ours}");
    let theirs = mrm_trace(&rows).metrics_csv();
    assert!(theirs.contains("\nactivation,1,2,2,2,2,1,1,0.00390625,1,medium_mrm,mrm-trace,exact,"));
}

#[test]
fn every_line_of_csv_has_as_many_fields_as_the_header() {
    let rows = [store(0, 0x1000, 8), load(2 * S, 0x1000, 8)];
    for report in [dwell(&rows), mrm_trace(&rows)] {
        for csv in [report.metrics_csv(), report.regions_csv()] {
            let fields: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
            assert_eq!(fields.len(), 2);
            assert_eq!(fields[0], fields[1]);
        }
    }
}

#[test]
fn a_report_can_be_written_as_json() {
    let json = serde_json::to_value(dwell(&[store(0, 0x1000, 8), load(S, 0x1000, 8)])).unwrap();
    assert_eq!(json["definitions"], "dwell");
    assert_eq!(json["region_types"][0]["retention"]["p99_low_s"], 1.0);
    assert_eq!(json["region_types"][0]["retention"]["estimate"], "censored");
    assert_eq!(json["region_types"][0]["suitability"]["class"], "not_rated");
    assert_eq!(json["region_types"][0]["suitability"]["not_rated_because"], "window_too_short");
    assert_eq!(json["region_types"][0]["retention"]["basis"], "exact");
}
