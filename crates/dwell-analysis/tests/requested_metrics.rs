//! The metrics on request, by small traces whose truth is known. Most are the examples of `docs/metrics`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::collections::BTreeMap;

use dwell_analysis::{Basis, Estimate, Metric, MetricsReport, Options, RegionName, RequestedMetrics};
use dwell_events::RegionType;
use dwell_events::schema::trace::TraceRow;
use support::{BLOCK, S, analyse, dwell, load, of_type, store};

fn asked() -> Options {
    Options { requested: RequestedMetrics::all(), ..Options::default() }
}

fn report(rows: &[TraceRow<'_>]) -> MetricsReport {
    analyse(asked(), None, rows)
}

#[test]
fn a_memory_serves_reads_whose_distance_is_below_its_size() {
    let report = report(&[load(0, 0, 100), load(1, 0, 100), load(2, 200, 50), load(3, 0, 100)]);
    let found = &of_type(&report, "activation").reuse_distance;
    assert_eq!((found.p50_bytes, found.p99_bytes), (Some(99.0), Some(149.0)));
    assert_eq!((found.first_share, found.lru_90_bytes), (Some(150.0 / 350.0), None));
    let curve = |name: &str| -> Vec<(u64, u64, f64)> {
        let rows = report.reuse.iter().filter(|row| &*row.region_type == name && row.hit_share > 0.0);
        rows.map(|row| (row.capacity_bytes, row.read_bytes, row.hit_share)).collect()
    };
    assert_eq!(curve("activation"), [(128, 100, 100.0 / 350.0), (256, 100, 200.0 / 350.0)]);
    assert_eq!(curve("all"), curve("activation"));
}

#[test]
fn what_other_types_touch_lies_between_and_stores_bring_bytes_in() {
    let weights = TraceRow { region_type: RegionType::Weight, region_id: 3, ..load(1, 0x8000, 300) };
    let report = report(&[store(0, 0, 10), weights, load(2, 0, 10)]);
    let found = &of_type(&report, "activation").reuse_distance;
    assert_eq!((found.p50_bytes, found.first_share), (Some(309.0), Some(0.0)));
    assert_eq!(found.lru_90_bytes, Some(310.0));
    assert_eq!(of_type(&report, "weight").reuse_distance.first_share, Some(1.0));
}

#[test]
fn windows_of_time_have_rates_and_working_sets() {
    let rows = [store(5, 0, 10), load(7, 0, 4), load(12, 2, 10), load(33, 2, 10)];
    let report = analyse(Options { window_ns: 10, ..asked() }, None, &rows);
    let found = &of_type(&report, "activation").bandwidth;
    assert_eq!((found.estimate, found.window_s), (Some(Estimate::Exact), Some(1e-8)));
    let per_ns = |rate: Option<f64>| (rate.unwrap() / 1e9 * 1e6).round() / 1e6;
    assert_eq!(per_ns(found.read.mean_bytes_per_s), 0.857143);
    assert_eq!(per_ns(found.read.peak_bytes_per_s), 1.0);
    assert_eq!((per_ns(found.written.mean_bytes_per_s), per_ns(found.written.p99_bytes_per_s)), (0.357143, 1.0));
    assert_eq!((found.working_set_median_bytes, found.working_set_max_bytes), (Some(10.0), Some(10)));
    let csv = "region_type,from_ns,window_s,bytes_read,bytes_written,working_set_bytes\n\
               activation,0,0.00000001,4,10,10\n\
               activation,10,0.00000001,10,0,10\n\
               activation,30,0.00000001,10,0,10\n";
    assert_eq!(report.bandwidth_csv(), csv);
}

#[test]
fn few_bytes_take_most_reads() {
    let mut rows = vec![store(0, 0, 10), load(1, 0, 10)];
    rows.extend((0..8).map(|index| load(2 + index, 0, 1)));
    let found = of_type(&report(&rows), "activation").hot_cold.shares;
    assert_eq!((found.hot_50_share, found.cold_share), (Some(0.1), Some(0.0)));
    assert!((found.hot_90_share.unwrap() - 0.82).abs() < 1e-12);
    let unread = of_type(&report(&[store(0, 0, 30), load(1, 0, 10)]), "activation").hot_cold.shares;
    assert_eq!((unread.cold_share, unread.hot_50_share), (Some(2.0 / 3.0), Some(5.0 / 30.0)));
}

#[test]
fn layers_are_apart_once_regions_have_names() {
    let of_region = |region_id, row: TraceRow<'static>| TraceRow { region_id, ..row };
    // Two tensors of layer 0 share memory; the one of layer 1 is never read.
    let rows = [of_region(1, load(0, 0, 8)), of_region(2, load(1, 4, 8)), of_region(3, store(2, 64, 8))];
    let mut report = report(&rows);
    let lines = |report: &MetricsReport| -> Vec<(Option<u16>, u64, Option<f64>)> {
        report.hot_cold.iter().map(|row| (row.layer, row.distinct_bytes, row.shares.cold_share)).collect()
    };
    assert_eq!(lines(&report), [(None, 20, Some(0.4))]);
    let name = |layer| RegionName { tensor: Some("t".to_owned()), layer: Some(layer) };
    report.name_regions(BTreeMap::from([(1, name(0)), (2, name(0)), (3, name(1))]));
    assert_eq!(lines(&report), [(Some(0), 12, Some(0.0)), (Some(1), 8, Some(1.0))]);
    assert!(report.hot_cold_csv().contains("activation,1,8,,,,1\n"), "{}", report.hot_cold_csv());
}

#[test]
fn every_read_has_the_age_of_what_it_reads() {
    let step = |step, row: TraceRow<'static>| TraceRow { step: Some(step), ..row };
    let rows = [
        step(0, store(0, 0, 8)),
        step(1, load(S, 0, 8)),
        step(3, load(3 * S, 0, 8)),
        step(4, store(10 * S, 0, 8)),
        step(5, load(11 * S, 0, 8)),
    ];
    let found = of_type(&report(&rows), "activation").read_age.clone();
    assert_eq!(found.basis, Some(Basis::Exact));
    assert_eq!((found.seconds.p50, found.seconds.p99, found.seconds.p999), (Some(1.0), Some(3.0), Some(3.0)));
    assert_eq!((found.seconds.max, found.steps.p50, found.steps.max), (Some(3.0), Some(1.0), Some(2.0)));
}

#[test]
fn ages_count_from_the_first_load_if_no_store_was_seen() {
    let found = of_type(&report(&[load(0, 0, 8), load(5 * S, 0, 8)]), "activation").read_age.clone();
    assert_eq!((found.basis, found.seconds.p50, found.seconds.max), (Some(Basis::Inferred), Some(5.0), Some(5.0)));
    assert_eq!(found.steps.p50, None, "one step is no clock");
    let once = of_type(&report(&[load(0, 0, 8)]), "activation").read_age.clone();
    assert_eq!((once.estimate, once.seconds.max), (Some(Estimate::Exact), None));
}

#[test]
fn reads_of_kv_blocks_are_spread_from_the_store_to_the_last() {
    let block = dwell_events::schema::kv_block_lifecycle::KvBlockRow {
        last_read_ns: Some(4 * S),
        evict_ns: Some(9 * S),
        total_reads: 4,
        ..BLOCK
    };
    let kv_row = TraceRow { region_type: RegionType::KvCache, ..load(4 * S, 0x1000, 100) };
    let report = analyse(asked(), Some(&[block]), &[kv_row]);
    let found = &of_type(&report, "kv_cache").read_age;
    assert_eq!(found.basis, Some(Basis::Inferred));
    assert_eq!((found.seconds.p50, found.seconds.max), (Some(2.0), Some(4.0)));
}

#[test]
fn stores_of_a_byte_are_counted_in_all_and_in_a_second() {
    let found =
        of_type(&report(&[store(0, 0, 10), store(S, 0, 2), load(2 * S, 0, 20)]), "activation").endurance.clone();
    let stores = found.stores_per_byte;
    assert_eq!((stores.mean, stores.p99, stores.max), (Some(0.6), Some(2.0), Some(2.0)));
    assert_eq!((found.stores_per_byte_s.mean, found.stores_per_byte_s.max), (Some(0.3), Some(1.0)));
    assert_eq!(found.stores_per_byte_s_at_pace.max, None, "one step is no clock");
}

#[test]
fn at_the_stated_speed_steps_say_how_long_it_takes() {
    let step = |step, row: TraceRow<'static>| TraceRow { step: Some(step), ..row };
    let rows: Vec<TraceRow<'_>> = (0..10).map(|index| step(index, store(u64::from(index), 0, 8))).collect();
    // 10 stores in 10 steps of 50 ms.
    let found = of_type(&report(&rows), "activation").endurance.stores_per_byte_s_at_pace;
    assert_eq!((found.mean, found.max), (Some(20.0), Some(20.0)));
}

#[test]
fn samples_say_nothing_about_these() {
    let sampled = |row: TraceRow<'static>| TraceRow { period: 4000, ..row };
    let report = report(&[sampled(store(0, 0, 8)), sampled(load(S, 0, 8)), load(2 * S, 0, 8)]);
    let row = of_type(&report, "activation");
    let estimates = [
        row.reuse_distance.estimate,
        row.bandwidth.estimate,
        row.hot_cold.estimate,
        row.read_age.estimate,
        row.endurance.estimate,
    ];
    assert_eq!(estimates, [Some(Estimate::NotEstimable); 5]);
    assert_eq!((row.reuse_distance.p50_bytes, row.endurance.stores_per_byte.max), (None, None));
    assert!(report.requested_tables().is_empty());
}

#[test]
fn what_nobody_asked_for_is_nowhere() {
    let report = dwell(&[store(0, 0, 8), load(S, 0, 8)]);
    assert_eq!(of_type(&report, "activation").endurance, Default::default());
    assert!(report.requested_tables().is_empty());
    let header = report.metrics_csv().lines().next().unwrap().to_owned();
    assert!(!header.contains("reuse_") && !header.contains("stores_per_byte"), "{header}");
    let json = serde_json::to_string(&report).unwrap();
    assert!(!json.contains("reuse") && !json.contains("endurance"), "{json}");

    let asked = Options { requested: RequestedMetrics::among(&[Metric::ReadAge]), ..Options::default() };
    let report = analyse(asked, None, &[store(0, 0, 8), load(S, 0, 8)]);
    let header = report.metrics_csv().lines().next().unwrap().to_owned();
    assert!(header.contains("read_age_max_s") && !header.contains("reuse_"), "{header}");
}

#[test]
fn times_are_withheld_where_there_are_none() {
    let mut report = report(&[store(0, 0, 8), load(S, 0, 8)]);
    report.withhold_times("accesses");
    let tables: Vec<&str> = report.requested_tables().into_iter().map(|(name, _)| name).collect();
    assert_eq!(tables, ["reuse_distance.csv", "hot_cold.csv"]);
    let csv = report.metrics_csv();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (names, fields) = (lines.next().unwrap(), lines.next().unwrap());
    let field = |name: &str| fields[names.iter().position(|known| *known == name).unwrap()];
    assert_eq!((field("stores_per_byte_max"), field("stores_per_byte_s_max")), ("1", ""));
    assert_eq!((field("read_mean_bytes_per_s"), field("read_age_max_s")), ("", ""));
}

#[test]
fn options_are_written_as_they_were_before_where_nothing_is_asked_for() {
    let written = serde_json::to_value(Options::default()).unwrap();
    assert_eq!((written.get("requested"), written.get("window_ns")), (None, None));
    let asked = Options { requested: RequestedMetrics::among(&[Metric::HotCold]), window_ns: 5, ..Options::default() };
    let written = serde_json::to_value(asked).unwrap();
    assert_eq!(written["requested"], serde_json::json!(["hot_cold"]));
    assert_eq!(serde_json::from_value::<Options>(written).unwrap(), asked);
}
