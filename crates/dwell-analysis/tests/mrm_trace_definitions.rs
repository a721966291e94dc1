//! Worked examples of every table by the definitions of mrm-trace, which gives the same numbers for them.

mod support;

use dwell_analysis::{Definitions, MrmTraceFrames, Options, RowOrder, SuitabilityClass};
use dwell_events::RegionType;
use dwell_events::schema::trace::TraceRow;
use support::{S, analyse, load, mrm_trace, of_type, store};

fn frames(rows: &[TraceRow<'_>]) -> MrmTraceFrames {
    mrm_trace(rows).mrm_trace.expect("these definitions were asked for")
}

fn in_region(region_id: u32, row: TraceRow<'static>) -> TraceRow<'static> {
    TraceRow { region_id, ..row }
}

#[test]
fn retention_goes_from_the_first_store_to_the_last_load_of_a_region_whatever_is_stored_between() {
    let rows = [store(S, 0x1000, 8), load(2 * S, 0x1000, 8), store(5 * S, 0x1000, 8), load(9 * S, 0x1008, 8)];
    assert_eq!(frames(&rows).retention_per_region[0].retention_s, 8.0);
}

#[test]
fn a_region_without_stores_is_kept_from_its_first_load_and_one_without_loads_not_at_all() {
    let rows =
        [in_region(2, load(S, 0x1000, 8)), in_region(3, store(2 * S, 0x2000, 8)), in_region(2, load(4 * S, 0x1000, 8))];
    let frames = frames(&rows);
    assert_eq!(frames.retention_per_region[0].retention_s, 3.0);
    assert_eq!(frames.retention_per_region[1].retention_s, 0.0);
    let summary = &frames.retention_summary[0];
    assert_eq!((summary.n_regions, summary.retention_p50_s, summary.retention_p90_s), (2, 1.5, 2.7));
    assert!((summary.retention_p99_s - 2.97).abs() < 1e-12);
    assert_eq!(summary.retention_mean_s, 1.5);
}

#[test]
fn a_load_before_the_first_store_gives_no_negative_retention() {
    assert_eq!(frames(&[load(5 * S, 0x1000, 8), store(10 * S, 0x1000, 8)]).retention_per_region[0].retention_ns, 0);
}

#[test]
fn write_once_counts_exact_addresses_of_stores_and_leaves_out_regions_without_any() {
    let rows = [
        store(0, 0x1000, 8),
        store(1, 0x1004, 8),
        store(2, 0x1004, 8),
        load(3, 0x1008, 8),
        in_region(3, load(4, 0x1000, 8)),
        in_region(4, store(5, 0x1000, 8)),
    ];
    let write_once = frames(&rows).write_once;
    assert_eq!(write_once.iter().map(|row| row.region_id).collect::<Vec<_>>(), [2, 4]);
    assert_eq!((write_once[0].n_written_addresses, write_once[0].n_write_once_addresses), (2, 1));
    assert_eq!((write_once[0].write_once_ratio, write_once[1].write_once_ratio), (0.5, 1.0));
}

#[test]
fn read_frequency_is_zero_reads_per_write_where_nothing_was_written() {
    let rows = [store(0, 0x1000, 8), load(1, 0x1000, 8), load(2, 0x1000, 8), in_region(3, load(3, 0x2000, 8))];
    let read_freq = frames(&rows).read_freq;
    assert_eq!((read_freq[0].read_fraction, read_freq[0].reads_per_write), (2.0 / 3.0, 2.0));
    assert_eq!((read_freq[1].read_fraction, read_freq[1].reads_per_write), (1.0, 0.0));
    assert_eq!(of_type(&mrm_trace(&rows), "activation").read_frequency.reads_per_write, Some(1.0));
}

#[test]
fn the_working_set_counts_the_page_of_the_address_for_every_region() {
    let rows = [load(0, 0x1000, 0x4000), load(1, 0x1fff, 1), in_region(3, load(2, 0x1000, 1)), load(3, 0x3000, 1)];
    let frames = frames(&rows);
    assert_eq!(frames.working_set_per_region[0].unique_pages, 2);
    let summary = &frames.working_set_summary[0];
    assert_eq!((summary.total_pages, summary.total_bytes), (3, 3 * 4096));
    assert_eq!((summary.mean_pages_per_region, summary.max_pages_per_region), (1.5, 2));
}

#[test]
fn locality_is_the_distance_of_consecutive_addresses_of_a_region() {
    let rows =
        [load(0, 0x1000, 8), load(1, 0x1010, 8), load(2, 0x1010, 8), load(3, 0x3010, 8), in_region(3, load(4, 0, 1))];
    let frames = frames(&rows);
    let region = &frames.locality_per_region[0];
    assert_eq!((region.n_accesses, region.mean_stride_bytes), (4, (16.0 + 8192.0) / 3.0));
    assert_eq!((region.median_stride_bytes, region.same_page_fraction), (16.0, 2.0 / 3.0));
    let alone = &frames.locality_per_region[1];
    assert_eq!((alone.mean_stride_bytes, alone.same_page_fraction), (0.0, 0.0));
    assert_eq!(frames.locality_summary[0].median_stride_bytes, 8.0);
}

#[test]
fn intervals_are_between_rows_of_one_address_and_type_and_are_cut_to_whole_numbers() {
    let weight = TraceRow { region_type: RegionType::Weight, region_id: 1, ..load(6, 0x1000, 8) };
    let rows =
        [load(0, 0x1000, 8), load(5, 0x1000, 8), weight, load(5, 0x1000, 8), load(7, 0x1000, 8), load(8, 0x1001, 8)];
    let iai = frames(&rows).iai;
    assert_eq!(iai.len(), 1);
    assert_eq!((iai[0].n_intervals, iai[0].iai_mean_ns), (2, 3.5));
    assert_eq!((iai[0].iai_p50_ns, iai[0].iai_p90_ns, iai[0].iai_p99_ns), (3, 4, 4));
}

#[test]
fn suitability_takes_a_missing_ratio_for_zero_and_rates_unknown_memory() {
    let weight = |row| TraceRow { region_type: RegionType::Weight, region_id: 1, ..row };
    let unknown = |row| TraceRow { region_type: RegionType::Unknown, region_id: 0, ..row };
    let rows = [
        weight(load(0, 0x1000, 8)),
        unknown(store(0, 0x9000, 8)),
        weight(load(59 * S, 0x1000, 8)),
        unknown(load(59 * S, 0x9000, 8)),
    ];
    let suitability = frames(&rows).suitability;
    assert_eq!((&*suitability[0].region_type, suitability[0].suitability), ("unknown", SuitabilityClass::HighMrm));
    assert_eq!((&*suitability[1].region_type, suitability[1].suitability), ("weight", SuitabilityClass::LowMrm));
    assert_eq!(suitability[1].write_once_ratio_mean, 0.0);
}

#[test]
fn rows_in_any_order_are_followed_by_time() {
    let options = Options { definitions: Definitions::MrmTrace, row_order: RowOrder::Any, ..Options::default() };
    let rows = [load(7, 0x1000, 8), store(0, 0x1000, 8), load(5, 0x1010, 8), load(5, 0x1000, 8)];
    let sorted = [rows[1], rows[2], rows[3], rows[0]];
    assert_eq!(analyse(options, None, &rows).mrm_trace, mrm_trace(&sorted).mrm_trace);
}

#[test]
fn a_second_type_or_region_at_an_address_is_followed_apart() {
    let weight = |row| TraceRow { region_type: RegionType::Weight, region_id: 1, ..row };
    let rows = [store(0, 0x1000, 8), weight(store(3, 0x1000, 8)), weight(store(10, 0x1000, 8)), store(20, 0x1000, 8)];
    let frames = frames(&rows);
    assert_eq!((&*frames.iai[0].region_type, frames.iai[0].iai_p50_ns), ("activation", 20));
    assert_eq!((&*frames.iai[1].region_type, frames.iai[1].iai_p50_ns), ("weight", 7));
    assert!(frames.write_once.iter().all(|row| row.write_once_ratio == 0.0));
}

#[test]
fn intervals_are_exact_however_many_rows_there_are_and_however_far_apart() {
    let close = (0..40_000).map(|row| load(row, 0x1000, 8));
    let apart = [load(3_600 * S, 0x1000, 8), load(3_599 * S, 0x1000, 8), load(7_200 * S, 0x1000, 8)];
    let rows: Vec<_> = close.chain(apart).collect();
    let intervals = &frames(&rows).iai[0];
    // All but the one that would run backwards.
    assert_eq!((intervals.n_intervals, intervals.iai_p50_ns), (40_001, 1));
    let sum_ns = 39_999 + (3_600 * S - 39_999) + 3_601 * S;
    assert_eq!(intervals.iai_mean_ns, sum_ns as f64 / 40_001.0);
}

#[test]
fn extreme_addresses_and_times_do_not_overflow() {
    let rows = [load(0, 0, 1), store(u64::MAX, u64::MAX, u64::MAX), load(u64::MAX, 0, 1)];
    let frames = frames(&rows);
    assert_eq!(frames.locality_per_region[0].median_stride_bytes, u64::MAX as f64);
    assert_eq!(frames.iai[0].iai_p50_ns, u64::MAX);
}

#[test]
fn an_empty_trace_gives_empty_tables() {
    let report = mrm_trace(&[]);
    assert_eq!(report.mrm_trace, Some(MrmTraceFrames::default()));
    assert_eq!((report.metrics_csv().lines().count(), report.regions_csv().lines().count()), (1, 1));
}
