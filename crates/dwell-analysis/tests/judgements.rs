//! Validity and quality at their edges, and the histogram and the choice of columns by example.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use dwell_analysis::quality::{CheckName, Quality, QualityInput, QualityStatus};
use dwell_analysis::validity::{
    Criterion, RELEVANT_MACHINE_SHARE, Validity, ValidityClass, ValidityInput, classify_as_mrm_trace,
};
use dwell_analysis::{HistogramRow, Metric, Options, metric_columns};
use support::{BLOCK, S, analyse, dwell, load, mrm_trace, store};

/// A number just below, at and just above an edge, and far on either side; `None` is a sensor that is missing.
fn around(edges: [f64; 2]) -> Vec<Option<f64>> {
    let near = edges.into_iter().flat_map(|edge| [edge.next_down(), edge, edge.next_up()]);
    near.chain([0.0, 1e9]).map(Some).chain([None, Some(f64::NAN), Some(-1.0), Some(f64::INFINITY)]).collect()
}

fn grid() -> impl Iterator<Item = ValidityInput> {
    let throttles = [None, Some(0), Some(1), Some(2), Some(3), Some(u64::MAX)];
    around([10.0, 20.0]).into_iter().flat_map(move |observer_cpu_pct| {
        around([0.05, 0.15]).into_iter().flat_map(move |observer_memory_share| {
            throttles.into_iter().flat_map(move |throttle_events| {
                around([15.0, 30.0]).into_iter().flat_map(move |baseline_cpu_pct| {
                    around([85.0, 90.0]).into_iter().map(move |package_temp_peak_c| ValidityInput {
                        observer_cpu_pct,
                        observer_memory_share,
                        observer_machine_memory_share: None,
                        throttle_events,
                        baseline_cpu_pct,
                        package_temp_peak_c,
                        io_contention: None,
                    })
                })
            })
        })
    })
}

fn is_known(figure: Option<f64>) -> bool {
    figure.is_some_and(|figure| figure.is_finite() && figure >= 0.0)
}

/// The thresholds as the docs state them.
fn expected(input: &ValidityInput, ignore_throttle: bool) -> ValidityClass {
    let exceeds = |figure: Option<f64>, limit: f64| is_known(figure) && figure.unwrap() >= limit;
    let is_hotter = |limit: f64| {
        let temperature = input.package_temp_peak_c;
        is_known(temperature) && temperature.unwrap() > limit
    };
    let throttled = |least: u64| !ignore_throttle && input.throttle_events.is_some_and(|events| events >= least);
    let is_contaminated = exceeds(input.observer_cpu_pct, 20.0)
        || exceeds(input.observer_memory_share, 0.15)
        || exceeds(input.baseline_cpu_pct, 30.0)
        || throttled(3)
        || is_hotter(90.0);
    let needed = [input.observer_cpu_pct, input.observer_memory_share, input.baseline_cpu_pct];
    let is_unknown = !needed.into_iter().all(is_known) || (input.throttle_events.is_none() && !ignore_throttle);
    let is_marginal = exceeds(input.observer_cpu_pct, 10.0)
        || exceeds(input.observer_memory_share, 0.05)
        || exceeds(input.baseline_cpu_pct, 15.0)
        || throttled(1)
        || is_hotter(85.0);
    match (is_contaminated, is_unknown, is_marginal) {
        (true, ..) => ValidityClass::Contaminated,
        (_, true, _) => ValidityClass::Unknown,
        (.., true) => ValidityClass::Marginal,
        _ => ValidityClass::Clean,
    }
}

#[test]
fn validity_is_as_stated_on_both_sides_of_every_edge() {
    let mut classes = [0u64; 4];
    for input in grid() {
        for ignore_throttle in [false, true] {
            let found = Validity::of(&input, ignore_throttle);
            let class = expected(&input, ignore_throttle);
            assert_eq!(found.class, class, "{input:?}, ignore_throttle {ignore_throttle}");
            assert_eq!(found.reasons.is_empty(), class == ValidityClass::Clean, "{found:?}");
            let worst_is_named = found.reasons.iter().any(|reason| reason.lowers_to == class);
            assert!(worst_is_named || class == ValidityClass::Clean, "{found:?}");
            classes[ValidityClass::ALL.iter().position(|known| *known == class).unwrap()] += 1;
        }
    }
    assert!(classes.iter().all(|&count| count > 100), "every class occurs: {classes:?}");
}

const QUIET: ValidityInput = ValidityInput {
    observer_cpu_pct: Some(1.0),
    observer_memory_share: Some(0.01),
    observer_machine_memory_share: None,
    throttle_events: Some(0),
    baseline_cpu_pct: Some(2.0),
    package_temp_peak_c: None,
    io_contention: None,
};

#[test]
fn every_reason_is_listed_and_reads_well() {
    let input = ValidityInput {
        observer_cpu_pct: Some(34.27),
        throttle_events: Some(1),
        baseline_cpu_pct: None,
        package_temp_peak_c: Some(85.04),
        ..QUIET
    };
    let validity = Validity::of(&input, false);
    let reasons: Vec<String> = validity.reasons.iter().map(ToString::to_string).collect();
    let expected = [
        "observer CPU 34.3 % ≥ 20 %",
        "throttle events 1 > 0",
        "baseline CPU not known",
        "package temperature 85.04 °C > 85 °C",
    ];
    assert_eq!(reasons, expected);
    assert_eq!(validity.class, ValidityClass::Contaminated);
    let json = serde_json::to_value(&validity).unwrap();
    assert_eq!(json["reasons"][2]["what"], "baseline_cpu_pct");
    assert_eq!(json["reasons"][0]["lowers_to"], "contaminated");
    assert_eq!(serde_json::from_value::<Validity>(json).unwrap(), validity);
}

#[test]
fn the_observers_memory_disturbs_only_where_it_is_a_relevant_part_of_the_machines() {
    let class = |machine_share| {
        let input =
            ValidityInput { observer_memory_share: Some(0.62), observer_machine_memory_share: machine_share, ..QUIET };
        // mrm-trace knows the share of the process only.
        assert_eq!(classify_as_mrm_trace(&input), ValidityClass::Contaminated);
        Validity::of(&input, false).class
    };
    let limit = RELEVANT_MACHINE_SHARE;
    assert_eq!([0.0, 0.002, limit.next_down()].map(|share| class(Some(share))), [ValidityClass::Clean; 3]);
    // What is not known does not excuse.
    let counted = [Some(limit), Some(0.5), Some(f64::NAN), Some(-1.0), None];
    assert_eq!(counted.map(class), [ValidityClass::Contaminated; 5]);
}

#[test]
fn throttling_that_is_ignored_is_said_to_be() {
    let input = ValidityInput { throttle_events: Some(7), ..QUIET };
    assert_eq!(Validity::of(&input, false).class, ValidityClass::Contaminated);
    let ignoring = Validity::of(&input, true);
    assert_eq!((ignoring.class, ignoring.ignored), (ValidityClass::Clean, vec![Criterion::ThrottleEvents]));
}

#[test]
fn mrm_trace_takes_what_is_not_known_for_nothing_and_contention_for_contamination() {
    assert_eq!(classify_as_mrm_trace(&ValidityInput::default()), ValidityClass::Clean);
    let writing = ValidityInput { io_contention: Some(true), ..QUIET };
    assert_eq!(classify_as_mrm_trace(&writing), ValidityClass::Contaminated);
    assert_eq!(Validity::of(&writing, false).class, ValidityClass::Clean);
}

fn quality(collector: &str, rows: u64, change: impl Fn(&mut QualityInput)) -> QualityStatus {
    let mut input = QualityInput { collector: collector.to_owned(), rows, ..QualityInput::default() };
    change(&mut input);
    Quality::of(&input).status
}

#[test]
fn tensor_ops_has_to_be_labelled_and_whole() {
    let unknown = |unknown_rows| quality("tensor_ops", 10_000, |input| input.unknown_rows = unknown_rows);
    assert_eq!([0, 10, 11, 500, 501].map(unknown).map(QualityStatus::name), ["PASS", "PASS", "WARN", "WARN", "FAIL"]);
    let lost = |lost_records| quality("tensor_ops", 9_500, |input| input.lost_records = lost_records);
    assert_eq!([0, 1, 500, 501].map(lost).map(QualityStatus::name), ["PASS", "WARN", "WARN", "FAIL"]);
    assert_eq!(quality("tensor_ops", 0, |_| ()), QualityStatus::Fail);
}

#[test]
fn what_a_collector_does_not_give_is_not_checked_and_said_to_be() {
    let input = QualityInput { collector: "tensor_ops".to_owned(), rows: 5, ..QualityInput::default() };
    let quality = Quality::of(&input);
    let unchecked: Vec<CheckName> =
        quality.checks.iter().filter(|check| check.status.is_none()).map(|check| check.name).collect();
    assert_eq!(unchecked, [CheckName::Latency, CheckName::CacheLevel, CheckName::Symbols]);
    let json = serde_json::to_value(&quality).unwrap();
    assert_eq!((&json["status"], &json["checks"][3]["status"]), (&"PASS".into(), &serde_json::Value::Null));
}

#[test]
fn a_process_needs_samples_and_nothing_else() {
    assert_eq!(quality("process", 1, |input| input.unknown_rows = 1), QualityStatus::Pass);
    assert_eq!(quality("process", 0, |_| ()), QualityStatus::Fail);
}

#[test]
fn a_histogram_by_hand() {
    // Lives of 8 bytes for 1 s and 100 s, of 4 bytes for no time, and 2 bytes that nobody reads.
    let rows = [
        store(0, 0x1000, 8),
        store(0, 0x2000, 8),
        store(0, 0x3000, 4),
        load(0, 0x3000, 4),
        store(0, 0x4000, 2),
        load(S, 0x1000, 8),
        load(100 * S, 0x2000, 8),
        store(100 * S, 0x1000, 6),
    ];
    let bin = |from_s, to_s, bytes, censored_bytes| HistogramRow {
        region_type: "activation".into(),
        from_s,
        to_s,
        bytes,
        censored_bytes,
    };
    // Only 6 of the 8 bytes that were needed for 1 s had another life after that, which nobody read.
    let found = dwell(&rows).retention_histogram(2);
    assert_eq!(found, [bin(0.0, 1.0, 12, 12), bin(1.0, 10.0, 8, 2), bin(10.0, 100.0, 8, 8)]);
    let header = "region_type,from_s,to_s,bytes,censored_bytes\n";
    let lines = "activation,0,1,12,12\nactivation,1,10,8,2\nactivation,10,100,8,8\n";
    assert_eq!(dwell(&rows).retention_histogram_csv(2), format!("{header}{lines}"));
    // One region there, a page for each of its four addresses.
    let theirs = mrm_trace(&rows).retention_histogram(2);
    assert_eq!(theirs, [bin(0.0, 100.0, 0, 0), bin(100.0, 100.0, 4 * 4096, 0)]);
}

#[test]
fn lives_of_kv_blocks_are_in_the_histogram_and_bins_are_shared() {
    let block =
        dwell_events::schema::kv_block_lifecycle::KvBlockRow { last_read_ns: Some(4 * S), total_reads: 2, ..BLOCK };
    let report = analyse(Options::default(), Some(&[block]), &[store(0, 0x9000, 8), load(S, 0x9000, 8)]);
    let found: Vec<(String, f64, u64)> =
        report.retention_histogram(2).iter().map(|row| (row.region_type.to_string(), row.from_s, row.bytes)).collect();
    let expected = [("activation", 0.0, 0), ("activation", 1.0, 8), ("activation", 2.0, 0)]
        .into_iter()
        .chain([("kv_cache", 0.0, 0), ("kv_cache", 1.0, 0), ("kv_cache", 2.0, 100)])
        .map(|(name, from_s, bytes)| (name.to_owned(), from_s, bytes));
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn all_metrics_together_are_the_whole_table() {
    let report = dwell(&[store(0, 0x1000, 8), load(S, 0x1000, 8)]);
    assert_eq!(report.metrics_csv_of(Metric::STANDARD), report.metrics_csv());
    let header = |metrics: &[Metric]| report.metrics_csv_of(metrics).lines().next().unwrap().to_owned();
    let expected = "region_type,n_regions,suitability,definitions,basis,window_s,is_window_limited,not_estimable_reason,\
                    not_rated_reason,suitability_tokens_per_s,steps,time_resolution_s,needed_p50_s,needed_p50_low_s,\
                    needed_p99_s,needed_p99_low_s,kept_low_share,kept_high_share,stays_p50_s,stays_p50_low_s";
    assert_eq!(header(&[Metric::Suitability]), expected);
    for metric in Metric::ALL {
        assert_eq!(Metric::from_name(metric.name()), Some(metric));
        assert!(!metric_columns(metric).is_empty());
    }
    assert_eq!(Metric::from_name("banana"), None);
}

#[test]
fn lives_of_more_bytes_than_can_be_counted_are_the_most_that_can_be() {
    let size = u64::MAX - 0x1000;
    let twice = [store(0, 0x1000, size), load(S, 0x1000, size), store(2 * S, 0x1000, size), load(3 * S, 0x1000, size)];
    let rows = dwell(&twice).retention_histogram(1);
    assert_eq!(rows.iter().map(|row| row.bytes).max(), Some(u64::MAX), "{rows:?}");
}
