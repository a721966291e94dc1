//! Worked examples of every metric by dwell's definitions.

mod support;

use dwell_analysis::quality::{Quality, QualityInput, QualityStatus};
use dwell_analysis::validity::{Validity, ValidityClass, ValidityInput};
use dwell_analysis::{
    Basis, Estimate, MetricsReport, NotRatedReason, Options, RowOrder, SuitabilityClass, SuitabilityThresholds,
};
use dwell_events::RegionType;
use dwell_events::schema::kv_block_lifecycle::{BeginCause, KvBlockRow as KvBlock};
use dwell_events::schema::trace::{CLEAR_SYMBOL, FILE_READ_SYMBOL, MAPPED_SYMBOL, TraceRow};
use support::{BLOCK, ROW, S, analyse, dwell, load, mrm_trace, of_type, store};

#[test]
fn a_life_goes_from_a_store_to_the_last_load_before_the_next_store() {
    let rows = [
        store(0, 0x1000, 8),
        load(S, 0x1000, 8),
        load(3 * S, 0x1000, 8),
        store(10 * S, 0x1000, 8),
        load(11 * S, 0x1000, 8),
    ];
    let report = dwell(&rows);
    let retention = &of_type(&report, "activation").retention;
    // The second life may go on: it counts among those that last a second, and says nothing of three.
    assert_eq!((retention.p50_s, retention.p99_s), (Some(3.0), Some(3.0)));
    assert_eq!(retention.mean_s, Some(3.0));
    assert_eq!(retention.max_s, Some(3.0));
    assert_eq!(retention.life_bytes, Some(16));
    assert_eq!((retention.censored_share, retention.estimate), (Some(0.5), Some(Estimate::Censored)));
    assert_eq!(retention.basis, Basis::Exact);
    // The first stayed until it was overwritten, the second for a second at least.
    assert_eq!((retention.residency_p50_s, retention.residency_p99_s), (Some(10.0), Some(10.0)));
}

#[test]
fn a_trace_in_which_every_life_ends_has_the_figures_of_a_list() {
    let mut rows = vec![];
    for life in 0..10u64 {
        rows.extend([store(life * 100 * S, 0x1000, 8), load((life * 100 + life + 1) * S, 0x1000, 8)]);
    }
    // A store that nothing follows in this type: the lives before have ended.
    rows.push(over(1_000 * S, 0x1000, 8));
    let retention = of_type(&dwell(&rows), "activation").retention.clone();
    assert_eq!((retention.p50_s, retention.p90_s, retention.p99_s), (Some(5.0), Some(9.0), Some(10.0)));
    assert_eq!((retention.p50_low_s, retention.p50_high_s), (Some(5.0), Some(5.0)));
    assert_eq!((retention.mean_s, retention.residency_p50_s), (Some(5.5), Some(100.0)));
    assert_eq!((retention.censored_share, retention.estimate), (Some(0.0), Some(Estimate::Exact)));
}

#[test]
fn figures_of_lives_that_go_on_do_not_grow_with_the_run() {
    // Memory that is read in every step and never rewritten, seen for 8 and for 64 steps.
    let rows = |steps: u64| -> Vec<TraceRow<'static>> {
        let weight = |row: TraceRow<'static>| TraceRow { region_type: RegionType::Weight, region_id: 1, ..row };
        let reads = (1..=steps).map(|step| TraceRow { step: Some(step as u32), ..load(step * S, 0x1000, 800) });
        std::iter::once(store(0, 0x1000, 800)).chain(reads).map(weight).collect()
    };
    for steps in [8, 64] {
        let report = dwell(&rows(steps));
        let retention = &of_type(&report, "weight").retention;
        assert_eq!((retention.p50_s, retention.p99_s, retention.p50_high_s), (None, None, None));
        assert_eq!((retention.p99_low_s, retention.p99_low_steps), (Some(steps as f64), Some(steps as f64)));
        assert_eq!((retention.estimate, retention.censored_share), (Some(Estimate::Censored), Some(1.0)));
        assert_eq!((retention.residency_p50_s, retention.residency_p99_low_s), (None, Some(steps as f64)));
    }
}

#[test]
fn steps_are_the_same_however_slow_they_are() {
    let rows = |step_ns: u64| -> Vec<TraceRow<'static>> {
        let at = |step: u64, row: TraceRow<'static>| TraceRow {
            timestamp_ns: step * step_ns,
            step: Some(step as u32),
            ..row
        };
        (0..40u64)
            .flat_map(|step| {
                let address = 0x1000 + step % 4 * 8;
                [at(step, load(0, address, 8)), at(step, store(0, address, 8))]
            })
            .collect()
    };
    let (fast, slow) = (dwell(&rows(1_000)), dwell(&rows(S / 2)));
    for report in [&fast, &slow] {
        let row = of_type(report, "activation");
        assert_eq!((row.retention.p50_steps, row.retention.p99_steps), (Some(4.0), Some(4.0)));
        assert_eq!((row.steps, row.suitability.tokens_per_s), (40, Some(20.0)));
    }
    assert_eq!(of_type(&fast, "activation").retention.p50_s, Some(4e-6));
    assert_eq!(of_type(&slow, "activation").retention.p50_s, Some(2.0));
    assert_eq!(of_type(&fast, "activation").suitability.class, of_type(&slow, "activation").suitability.class);
}

#[test]
fn a_class_holds_at_the_speed_that_was_asked_for() {
    // Half of the memory is written once and read for thirty steps, then something else takes its place.
    let step = |step: u64, row: TraceRow<'static>| TraceRow { step: Some(step as u32), ..row };
    let rows: Vec<TraceRow<'_>> = (0..31u64)
        .map(|number| step(number, if number == 0 { store(0, 0x1000, 8) } else { load(number, 0x1000, 8) }))
        .chain([step(31, over(31, 0x1000, 8))])
        .collect();
    let class_at = |tokens_per_s: f64| {
        let thresholds = SuitabilityThresholds { tokens_per_s, ..SuitabilityThresholds::default() };
        of_type(&analyse(Options { thresholds, ..Options::default() }, None, &rows), "activation").suitability
    };
    assert_eq!(class_at(1.0).class, SuitabilityClass::HighMrm, "30 s");
    assert_eq!(class_at(20.0).class, SuitabilityClass::MediumMrm, "1.5 s");
    assert_eq!(class_at(100.0).class, SuitabilityClass::LowMrm, "0.3 s");
    assert_eq!(class_at(100.0).tokens_per_s, Some(100.0));
}

#[test]
fn a_life_shorter_than_the_resolution_is_said_to_be_that() {
    // The store and the load of one operation have one time; operations are a second apart.
    let rows: Vec<TraceRow<'_>> =
        (0..10u64).flat_map(|second| [store(second * S, 0x1000, 8), load(second * S, 0x1000, 8)]).collect();
    let report = dwell(&rows);
    let row = of_type(&report, "activation");
    assert_eq!((row.retention.estimate, row.time_resolution_s), (Some(Estimate::BelowResolution), Some(1.0)));
    assert_eq!(
        (row.retention.p50_s, row.retention.p50_low_s, row.retention.p50_high_s),
        (Some(0.0), Some(0.0), Some(1.0))
    );
}

#[test]
fn a_trace_that_lacks_accesses_and_seconds_of_a_disturbed_run_rate_nothing() {
    let with_steps = |is_stepped: bool| {
        let step = |number: u32| is_stepped.then_some(number);
        let rows = [
            TraceRow { step: step(0), ..store(0, 0x1000, 8) },
            TraceRow { step: step(1), ..load(20 * S, 0x1000, 8) },
            TraceRow { step: step(2), ..store(30 * S, 0x1000, 8) },
        ];
        dwell(&rows)
    };
    let failed = Quality::of(&QualityInput { collector: "tensor_ops".to_owned(), ..QualityInput::default() });
    assert_eq!(failed.status, QualityStatus::Fail);
    let contaminated = Validity::of(&ValidityInput { baseline_cpu_pct: Some(99.0), ..ValidityInput::default() }, false);
    assert_eq!(contaminated.class, ValidityClass::Contaminated);
    let rated = |mut report: MetricsReport, quality: Option<&Quality>, validity: Option<&Validity>| {
        report.heed(quality, validity);
        of_type(&report, "activation").suitability.not_rated_because
    };
    assert_eq!(rated(with_steps(true), None, None), None);
    assert_eq!(rated(with_steps(true), Some(&failed), None), Some(NotRatedReason::IncompleteTrace));
    assert_eq!(
        rated(with_steps(true), None, Some(&contaminated)),
        None,
        "steps do not depend on what disturbed the run"
    );
    assert_eq!(rated(with_steps(false), None, Some(&contaminated)), Some(NotRatedReason::ContaminatedRun));
}

#[test]
fn lives_weigh_as_much_as_their_bytes() {
    let rows = [
        store(0, 0x1000, 900),
        store(0, 0x2000, 100),
        load(S, 0x1000, 900),
        load(9 * S, 0x2000, 100),
        over(10 * S, 0x1000, 900),
        over(10 * S, 0x2000, 100),
    ];
    let retention = of_type(&dwell(&rows), "activation").retention.clone();
    assert_eq!((retention.p50_s, retention.p90_s, retention.p99_s), (Some(1.0), Some(1.0), Some(9.0)));
    assert_eq!(retention.mean_s, Some(1.8));
}

#[test]
fn a_load_of_a_part_prolongs_the_life_of_that_part_only() {
    let rows = [store(0, 0x1000, 8), load(S, 0x1000, 8), load(5 * S, 0x1004, 2), over(6 * S, 0x1000, 8)];
    let retention = of_type(&dwell(&rows), "activation").retention.clone();
    assert_eq!(retention.mean_s, Some((6.0 + 2.0 * 5.0) / 8.0));
}

#[test]
fn bytes_that_are_stored_and_never_loaded_are_counted_apart() {
    let rows = [store(0, 0x1000, 8), store(S, 0x1000, 4), load(2 * S, 0x1000, 2)];
    let retention = of_type(&dwell(&rows), "activation").retention.clone();
    assert_eq!(retention.life_bytes, Some(12));
    assert_eq!((retention.never_read_bytes, retention.never_read_share), (Some(10), Some(10.0 / 12.0)));
    assert_eq!(retention.mean_s, Some(1.0));
}

#[test]
fn a_life_belongs_to_the_region_that_stored_it() {
    let rows = [
        TraceRow { region_id: 5, ..store(0, 0x1000, 8) },
        TraceRow { region_id: 6, ..load(S, 0x1000, 8) },
        TraceRow { region_id: 6, ..store(2 * S, 0x1000, 8) },
    ];
    let report = dwell(&rows);
    assert_eq!(report.regions[0].region_id, 5);
    assert_eq!(report.regions[0].retention.p50_s, Some(1.0));
    assert_eq!(report.regions[1].retention.p50_s, None);
    assert_eq!(report.regions[1].retention.never_read_bytes, Some(8));
    assert_eq!(report.regions[1].read_frequency.bytes_read, Some(8));
}

#[test]
fn memory_that_is_only_read_counts_as_written_once_when_first_seen() {
    let weight = TraceRow { region_type: RegionType::Weight, region_id: 1, ..ROW };
    let rows: Vec<_> = (0..13).map(|second| TraceRow { timestamp_ns: second * S, ..weight }).collect();
    let report = dwell(&rows);
    let row = of_type(&report, "weight");
    assert_eq!((row.retention.p50_s, row.retention.p99_low_s), (None, Some(12.0)));
    assert_eq!((row.retention.basis, row.retention.inferred_share), (Basis::Inferred, Some(1.0)));
    assert_eq!((row.write_once.ratio, row.write_once.basis), (Some(1.0), Basis::Inferred));
    assert_eq!(row.read_frequency.read_write_ratio, None);
    assert_eq!(row.read_frequency.basis, Basis::Exact);
    assert_eq!(row.suitability.class, SuitabilityClass::HighMrm);
}

#[test]
fn the_write_once_ratio_is_the_share_of_stored_bytes_that_were_stored_once() {
    let rows = [store(0, 0x1000, 8), store(1, 0x1006, 4), store(2, 0x1006, 1)];
    let write_once = of_type(&dwell(&rows), "activation").write_once.clone();
    assert_eq!((write_once.stored_bytes, write_once.stored_once_bytes), (Some(10), Some(8)));
    assert_eq!(write_once.ratio, Some(0.8));
}

#[test]
fn a_store_that_was_concluded_begins_an_inferred_life_and_is_no_seen_write() {
    for symbol in [MAPPED_SYMBOL, FILE_READ_SYMBOL] {
        let weight = |row| TraceRow { region_type: RegionType::Weight, region_id: 1, ..row };
        let rows = [weight(TraceRow { symbol, ..store(0, 0x1000, 8) }), weight(load(3 * S, 0x1000, 8))];
        let report = dwell(&rows);
        let row = of_type(&report, "weight");
        assert_eq!((row.retention.max_s, row.retention.inferred_share), (Some(3.0), Some(1.0)));
        assert_eq!((row.retention.basis, row.write_once.basis), (Basis::Inferred, Basis::Inferred));
        assert_eq!((row.write_once.ratio, row.write_once.stored_bytes), (Some(1.0), Some(8)));
        assert_eq!((row.read_frequency.basis, row.working_set.basis), (Basis::Exact, Basis::Exact));
    }
}

#[test]
fn what_is_read_before_it_is_stored_was_stored_before() {
    let rows = [load(0, 0x1000, 8), store(S, 0x1000, 8), load(2 * S, 0x1000, 8)];
    let report = dwell(&rows);
    let row = of_type(&report, "activation");
    assert_eq!((row.retention.inferred_share, row.retention.basis), (Some(0.5), Basis::Inferred));
    assert_eq!((row.write_once.ratio, row.write_once.basis), (Some(0.0), Basis::Inferred));
    assert_eq!((row.write_once.stored_bytes, row.write_once.stored_once_bytes), (Some(8), Some(0)));
}

#[test]
fn figures_of_the_whole_run_weigh_lives_by_bytes_not_by_type() {
    let weight = |row| TraceRow { region_type: RegionType::Weight, region_id: 1, ..row };
    let rows = [
        store(0, 0x1000, 1),
        weight(store(0, 0x2000, 999)),
        weight(load(2 * S, 0x2000, 999)),
        load(100 * S, 0x1000, 1),
        store(101 * S, 0x1000, 1),
        over(102 * S, 0x2000, 999),
    ];
    let report = dwell(&rows);
    assert_eq!((report.retention_p99_s(), report.write_once_ratio()), (Some(2.0), Some(1998.0 / 1999.0)));
    let by_type = mrm_trace(&rows);
    let p99s: Vec<f64> = by_type.region_types.iter().filter_map(|row| row.retention.p99_s).collect();
    assert_eq!(by_type.retention_p99_s(), Some(p99s.iter().sum::<f64>() / 3.0));
}

#[test]
fn a_clear_is_no_write() {
    let clear = TraceRow { symbol: CLEAR_SYMBOL, ..store(S, 0x1000, 16) };
    let rows = [clear, store(S, 0x1000, 8), load(3 * S, 0x1000, 8)];
    let report = dwell(&rows);
    let activation = of_type(&report, "activation");
    assert_eq!(activation.write_once.ratio, Some(1.0));
    assert_eq!((activation.retention.life_bytes, activation.retention.max_s), (Some(8), Some(2.0)));
    assert_eq!(activation.read_frequency.stores, 1);
    assert_eq!(activation.working_set.distinct_bytes, 8);
    let without_clear = |report: MetricsReport| of_type(&report, "activation").clone();
    assert_eq!(without_clear(report), without_clear(dwell(&rows[1..])));
    let counted = mrm_trace(&rows);
    assert_ne!(counted, mrm_trace(&rows[1..]), "mrm-trace's own code would count the row");
}

#[test]
fn memory_that_two_regions_store_is_stored_twice_for_their_type_and_once_for_each() {
    let rows = [TraceRow { region_id: 5, ..store(0, 0x1000, 8) }, TraceRow { region_id: 6, ..store(1, 0x1004, 8) }];
    let report = dwell(&rows);
    assert_eq!(of_type(&report, "activation").write_once.ratio, Some(8.0 / 12.0));
    assert!(report.regions.iter().all(|region| region.write_once.ratio == Some(1.0)));
}

#[test]
fn read_frequency_counts_rows_and_bytes_and_reads_of_a_life() {
    let rows = [store(0, 0x1000, 10), load(1, 0x1000, 10), load(2, 0x1000, 10), load(3, 0x1000, 5)];
    let frequency = of_type(&dwell(&rows), "activation").read_frequency.clone();
    assert_eq!((frequency.loads, frequency.stores), (3, 1));
    assert_eq!((frequency.bytes_read, frequency.bytes_written), (Some(25), Some(10)));
    assert_eq!(frequency.read_write_ratio, Some(2.5));
    assert_eq!(frequency.reads_per_write, Some(2.5));
}

#[test]
fn the_working_set_counts_bytes_and_pages_once() {
    let rows = [
        TraceRow { region_id: 5, ..store(0, 0x1000, 0x1800) },
        TraceRow { region_id: 6, ..load(1, 0x2000, 0x100) },
        TraceRow { region_id: 6, ..load(2, 0x2000, 0x900) },
    ];
    let report = dwell(&rows);
    let working_set = &of_type(&report, "activation").working_set;
    assert_eq!((working_set.distinct_bytes, working_set.distinct_pages), (0x1900, 2));
    assert_eq!(report.regions[1].working_set.distinct_bytes, 0x900);
}

#[test]
fn the_working_set_of_a_step_is_what_the_step_touched() {
    let step = |step, row: TraceRow<'static>| TraceRow { step: Some(step), ..row };
    let rows = [
        TraceRow { step: None, ..store(0, 0x1000, 4096) },
        step(0, load(1, 0x1000, 100)),
        step(0, load(2, 0x1032, 100)),
        step(1, load(3, 0x1000, 10)),
        step(1, store(4, 0x1000, 10)),
        step(2, load(5, 0x1000, 40)),
    ];
    let working_set = of_type(&dwell(&rows), "activation").working_set.clone();
    assert_eq!((working_set.step_median_bytes, working_set.step_max_bytes), (Some(40.0), Some(150)));
}

/// A store by another type of memory, which ends lives and begins one elsewhere.
fn over(timestamp_ns: u64, address: u64, size_bytes: u64) -> TraceRow<'static> {
    TraceRow { region_type: RegionType::Runtime, region_id: 7, ..store(timestamp_ns, address, size_bytes) }
}

/// Addresses of the second process of a run.
const SECOND: u64 = 1 << 56;

#[test]
fn steps_of_two_processes_in_turns_are_counted_once_each() {
    let step = |step, row: TraceRow<'static>| TraceRow { step: Some(step), ..row };
    let rows = [
        step(1, load(0, 0x1000, 100)),
        step(7, load(1, SECOND | 0x1000, 30)),
        step(1, load(2, 0x1000, 100)),
        step(7, load(3, SECOND | 0x1000, 30)),
        step(2, load(4, 0x1000, 60)),
        step(7, load(5, SECOND | 0x1000, 40)),
        step(2, load(6, 0x1000, 60)),
        step(2, load(7, SECOND | 0x1000, 40)),
    ];
    let working_set = of_type(&dwell(&rows), "activation").working_set.clone();
    // The same number in another process is another step: 100, 40, 60 and 40 bytes.
    assert_eq!((working_set.step_median_bytes, working_set.step_max_bytes), (Some(50.0), Some(100)));
}

#[test]
fn steps_that_two_threads_of_a_process_compute_at_once_are_counted_once_each() {
    let step = |step, row: TraceRow<'static>| TraceRow { step: Some(step), ..row };
    let in_turns = (0..8).map(|time_ns| step(1 + time_ns as u32 % 2, load(time_ns, 0x1000, 100)));
    let rows: Vec<TraceRow<'_>> =
        in_turns.chain([step(3, load(9, 0x1000, 20)), step(2, load(10, 0x1000, 100))]).collect();
    let working_set = of_type(&dwell(&rows), "activation").working_set.clone();
    assert_eq!((working_set.step_median_bytes, working_set.step_max_bytes), (Some(100.0), Some(100)));
}

#[test]
fn a_row_without_a_step_inside_of_one_changes_nothing() {
    let rows = [
        load(0, 0x1000, 100),
        TraceRow { step: None, ..store(1, 0x1010, 8) },
        TraceRow { step: None, ..store(2, 0x1000, 100) },
        load(3, 0x1000, 100),
        TraceRow { step: None, ..store(4, 0x0fc0, 200) },
        load(5, 0x1000, 50),
    ];
    let working_set = of_type(&dwell(&rows), "activation").working_set.clone();
    assert_eq!((working_set.step_median_bytes, working_set.step_max_bytes), (Some(100.0), Some(100)));
}

#[test]
fn steps_of_the_kv_cache_are_counted_once_each_whatever_comes_between() {
    let kv = |step, address: u64, size_bytes| TraceRow {
        region_type: RegionType::KvCache,
        region_id: 9,
        step: Some(step),
        ..load(1, address, size_bytes)
    };
    let rows = [
        kv(0, 0x1000, 300),
        kv(1, 0x1000, 100),
        kv(1, SECOND | 0x1000, 40),
        kv(2, 0x1000, 200),
        kv(1, 0x1000, 100),
        kv(1, SECOND | 0x1000, 40),
        kv(0, 0x1000, 300),
    ];
    let report = analyse(Options::default(), Some(&[BLOCK]), &rows);
    let working_set = &of_type(&report, "kv_cache").working_set;
    // 300 of the prompts, 100, 200, and 40 of the second process.
    assert_eq!((working_set.step_median_bytes, working_set.step_max_bytes), (Some(150.0), Some(300)));
}

#[test]
fn a_life_of_a_kv_block_that_was_inherited_is_inferred() {
    let blocks = [
        KvBlock { last_read_ns: Some(10), total_reads: 1, ..BLOCK },
        KvBlock {
            address: SECOND | 0x1000,
            write_ns: 8,
            last_read_ns: Some(10),
            total_reads: 1,
            begin_cause: BeginCause::Inherited,
            ..BLOCK
        },
    ];
    let kv = TraceRow { region_type: RegionType::KvCache, region_id: 9, ..load(10, 0x1000, 100) };
    let retention = of_type(&analyse(Options::default(), Some(&blocks), &[kv]), "kv_cache").retention.clone();
    assert_eq!((retention.inferred_share, retention.basis), (Some(0.5), Basis::Inferred));
}

#[test]
fn the_mean_interval_of_kv_blocks_is_not_cut_to_whole_nanoseconds() {
    let blocks = [
        KvBlock { write_ns: 0, last_read_ns: Some(10), total_reads: 3, ..BLOCK },
        KvBlock { address: 0x2000, write_ns: 5, last_read_ns: Some(6), total_reads: 2, ..BLOCK },
    ];
    let kv = TraceRow { region_type: RegionType::KvCache, region_id: 9, ..load(0, 0x1000, 100) };
    let interval =
        of_type(&analyse(Options::default(), Some(&blocks), &[kv]), "kv_cache").inter_access_interval.clone();
    assert_eq!((interval.mean_ns, interval.basis), (Some(11.0 / 5.0), Basis::Inferred));
}

#[test]
fn intervals_of_the_kv_cache_come_from_the_trace_where_it_has_them() {
    let block = KvBlock { write_ns: 0, last_read_ns: Some(30), total_reads: 2, ..BLOCK };
    let kv = |row: TraceRow<'static>| TraceRow { region_type: RegionType::KvCache, region_id: 9, ..row };
    let rows = [kv(store(0, 0x1000, 100)), kv(load(5, 0x1000, 100)), kv(load(30, 0x1000, 100))];
    let report = analyse(Options::default(), Some(&[block]), &rows);
    let interval = &of_type(&report, "kv_cache").inter_access_interval;
    assert_eq!((interval.p50_ns, interval.p99_ns, interval.mean_ns), (Some(5.0), Some(25.0), Some(15.0)));
    assert_eq!(interval.basis, Basis::Exact);
}

#[test]
fn locality_looks_at_consecutive_accesses_of_a_type() {
    let other = TraceRow { region_type: RegionType::Weight, region_id: 1, ..load(1, 0x9000, 64) };
    let rows = [load(0, 0x1000, 100), other, load(2, 0x1064, 300), load(3, 0x5000, 100)];
    let locality = of_type(&dwell(&rows), "activation").locality.clone();
    assert_eq!(locality.sequential_share, Some(0.75));
    assert_eq!(locality.same_page_share, Some(0.5));
    assert_eq!(locality.stride_mean_bytes, Some((100.0 + f64::from(0x5000 - 0x1064)) / 2.0));
    assert_eq!(locality.stride_median_bytes, Some(100.0));
    assert_eq!(of_type(&dwell(&rows), "weight").locality.sequential_share, None);
}

#[test]
fn intervals_are_between_accesses_of_the_same_bytes_weighted_by_them() {
    let rows = [store(0, 0x1000, 10), load(10, 0x1000, 10), load(40, 0x1000, 2)];
    let interval = of_type(&dwell(&rows), "activation").inter_access_interval.clone();
    assert_eq!((interval.p50_ns, interval.p90_ns), (Some(10.0), Some(30.0)));
    assert_eq!(interval.mean_ns, Some((10.0 * 10.0 + 2.0 * 30.0) / 12.0));
}

#[test]
fn lives_of_kv_blocks_come_from_their_table_when_it_is_given() {
    let kv = TraceRow { region_type: RegionType::KvCache, region_id: 9, ..load(8 * S, 0x1000, 300) };
    let blocks = [
        KvBlock { write_ns: 0, last_read_ns: Some(4 * S), evict_ns: Some(5 * S), total_reads: 2, ..BLOCK },
        KvBlock { write_ns: 5 * S, last_read_ns: Some(6 * S), total_reads: 1, ..BLOCK },
        KvBlock { address: 0x1064, write_ns: 0, last_read_ns: None, ..BLOCK },
        KvBlock { address: 0x10c8, write_ns: 0, last_read_ns: Some(8 * S), total_reads: 4, ..BLOCK },
    ];
    let report = analyse(Options::default(), Some(&blocks), &[kv]);
    let row = of_type(&report, "kv_cache");
    // One of three that were read ended, after 4 s; of the others one was followed for 1 s and one for 8 s.
    assert_eq!((row.retention.p50_s, row.retention.max_s), (Some(4.0), Some(8.0)));
    assert_eq!((row.retention.p99_s, row.retention.residency_p50_low_s), (None, Some(3.0)));
    assert_eq!((row.retention.life_bytes, row.retention.never_read_bytes), (Some(400), Some(100)));
    assert_eq!((row.retention.censored_share, row.retention.basis), (Some(0.75), Basis::Exact));
    assert_eq!((row.write_once.stored_bytes, row.write_once.ratio), (Some(300), Some(2.0 / 3.0)));
    assert_eq!(row.read_frequency.reads_per_write, Some(7.0 / 4.0));
    assert_eq!((row.inter_access_interval.p50_ns, row.inter_access_interval.basis), (Some(2e9), Basis::Inferred));
    assert_eq!((row.working_set.distinct_bytes, row.working_set.step_max_bytes), (300, Some(300)));
    assert_eq!(report.regions[0].retention, row.retention);
}

#[test]
fn kv_blocks_outside_of_any_region_still_count_for_the_type() {
    let block = KvBlock { last_read_ns: Some(S), total_reads: 1, ..BLOCK };
    let report = analyse(Options::default(), Some(&[block]), &[]);
    let row = of_type(&report, "kv_cache");
    assert_eq!((row.n_regions, row.retention.max_s), (0, Some(1.0)));
}

#[test]
fn suitability_needs_write_once_and_retention() {
    let weight = |row: TraceRow<'static>| TraceRow { region_type: RegionType::Weight, region_id: 1, ..row };
    let rows = [
        weight(store(0, 0x1000, 8)),
        store(0, 0x9000, 8),
        load(2 * S, 0x9000, 8),
        over(3 * S, 0x9000, 8),
        weight(load(20 * S, 0x1000, 8)),
    ];
    let report = dwell(&rows);
    assert_eq!(of_type(&report, "weight").suitability.class, SuitabilityClass::HighMrm, "however long it still lives");
    let activation = of_type(&report, "activation").suitability;
    assert_eq!((activation.class, activation.is_window_limited), (SuitabilityClass::MediumMrm, false));
    // Two of three stores are overwritten at once.
    let rewritten = [store(0, 0x9000, 8), store(1, 0x9000, 8), store(2, 0x9000, 8), load(20 * S, 0x9000, 8)];
    let suitability = of_type(&dwell(&rewritten), "activation").suitability;
    assert_eq!((suitability.class, suitability.is_window_limited), (SuitabilityClass::LowMrm, false));
}

#[test]
fn memory_that_outlives_a_short_trace_is_not_rated() {
    let suitability = of_type(&dwell(&[store(0, 0x1000, 8), load(3 * S, 0x1000, 8)]), "activation").suitability;
    assert_eq!(suitability.class, SuitabilityClass::NotRated);
    assert_eq!(suitability.not_rated_because, Some(NotRatedReason::WindowTooShort));
    assert!(suitability.is_window_limited);
    assert_eq!(suitability.window_s, 3.0);
}

#[test]
fn a_short_life_in_a_long_window_is_rated_though_another_is_open() {
    // A thousand lives of 1 µs in 27 hours, the last of them open.
    let lives =
        (0..1_000u64).flat_map(|life| [store(life * 100 * S, 0x1000, 8), load(life * 100 * S + 1_000, 0x1000, 8)]);
    // Other memory is written once, so that the write-once ratio alone does not decide.
    let once = (0..100u64).flat_map(|place| {
        let address = 0x9000 + place * 8;
        [store(place, address, 8), load(place + 1, address, 8), over(place + 2, address, 8)]
    });
    let rows: Vec<TraceRow<'_>> = once.chain(lives).collect();
    let suitability = of_type(&dwell(&rows), "activation").suitability;
    assert_eq!((suitability.class, suitability.is_window_limited), (SuitabilityClass::LowMrm, false));
}

#[test]
fn thresholds_can_be_set() {
    let thresholds = SuitabilityThresholds { high_retention_s: 3.0, ..SuitabilityThresholds::default() };
    let rows = [store(0, 0x1000, 8), load(3 * S, 0x1000, 8)];
    let report = analyse(Options { thresholds, ..Options::default() }, None, &rows);
    assert_eq!(of_type(&report, "activation").suitability.class, SuitabilityClass::HighMrm);
}

#[test]
fn unknown_memory_is_never_rated() {
    let unknown = |row: TraceRow<'static>| TraceRow { region_type: RegionType::Unknown, region_id: 0, ..row };
    let rows = [unknown(store(0, 0x1000, 8)), unknown(load(20 * S, 0x1000, 8))];
    assert_eq!(of_type(&dwell(&rows), "unknown").suitability.class, SuitabilityClass::NotRated);
}

#[test]
fn rows_that_go_back_in_time_make_no_negative_times_and_are_counted() {
    let rows = [store(10 * S, 0x1000, 8), load(5 * S, 0x1000, 8)];
    let report = dwell(&rows);
    assert_eq!(report.backward_rows, 1);
    let row = of_type(&report, "activation");
    assert_eq!(row.retention.max_s, Some(0.0));
    assert_eq!(row.inter_access_interval.mean_ns, Some(0.0));
    assert_eq!(row.suitability.window_s, 5.0);
}

#[test]
fn rows_in_any_order_give_the_same_as_rows_by_time() {
    let rows = [store(0, 0x1000, 8), load(1, 0x1000, 4), load(2, 0x1002, 6), store(3, 0x1000, 8), load(9, 0x1000, 8)];
    let mut shuffled = rows;
    shuffled.reverse();
    let any_order = Options { row_order: RowOrder::Any, ..Options::default() };
    let report = analyse(any_order, None, &shuffled);
    assert_eq!(report.region_types, dwell(&rows).region_types);
    assert_eq!(report.backward_rows, 4);
}

#[test]
fn sampled_and_page_rows_make_the_basis_weaker() {
    let sampled = [TraceRow { period: 4000, ..ROW }, ROW];
    assert_eq!(of_type(&dwell(&sampled), "activation").locality.basis, Basis::Sampled);
    let by_page = [TraceRow { source: "pages", ..store(0, 0x1000, 4096) }];
    assert_eq!(of_type(&dwell(&by_page), "activation").retention.basis, Basis::Page);
}

#[test]
fn ranges_at_the_ends_of_the_address_space_do_not_overflow() {
    let rows = [store(u64::MAX, u64::MAX - 1, u64::MAX), load(0, 0, u64::MAX), load(0, u64::MAX, 1), load(0, 5, 0)];
    let report = dwell(&rows);
    let row = of_type(&report, "activation");
    assert_eq!(row.working_set.distinct_bytes, u64::MAX);
    assert_eq!((row.read_frequency.loads, row.read_frequency.bytes_read), (3, Some(u64::MAX)));
}

#[test]
fn an_empty_trace_gives_an_empty_report() {
    let report = dwell(&[]);
    assert!(report.region_types.is_empty() && report.regions.is_empty() && report.window.is_none());
    assert_eq!(report.metrics_csv().lines().count(), 1);
}

#[test]
fn memory_that_was_placed_twice_was_not_written_once() {
    let placed = |timestamp_ns| TraceRow { symbol: MAPPED_SYMBOL, ..store(timestamp_ns, 0x1000, 8) };
    let ratio = |rows: &[TraceRow<'_>]| of_type(&dwell(rows), "activation").write_once.ratio;
    assert_eq!(ratio(&[placed(S), load(2 * S, 0x1000, 8), placed(3 * S), load(4 * S, 0x1000, 8)]), Some(0.0));
    assert_eq!(ratio(&[store(S, 0x1000, 8), load(2 * S, 0x1000, 8), placed(3 * S), load(4 * S, 0x1000, 8)]), Some(0.0));
    assert_eq!(ratio(&[placed(S), load(2 * S, 0x1000, 8)]), Some(1.0));
}

#[test]
fn bytes_that_were_never_read_and_had_not_ended_are_censored_in_the_histogram_too() {
    let report = dwell(&[store(S, 0x1000, 8), store(S, 0x2000, 24), load(2 * S, 0x1000, 8)]);
    let rows = report.retention_histogram(4);
    let sum = |of: fn(&dwell_analysis::HistogramRow) -> u64| rows.iter().map(of).sum::<u64>();
    assert_eq!((sum(|row| row.bytes), sum(|row| row.censored_bytes)), (32, 32));
    assert_eq!(rows.last().map(|row| row.to_s), of_type(&report, "activation").retention.max_s);
}

/// Steps of 50 ms: a KV cache whose cells serve one conversation after the other.
#[test]
fn cells_that_serve_another_conversation_later_are_no_worse_than_those_that_do_not() {
    let step = |number: u64, row: TraceRow<'static>| TraceRow {
        step: Some(number as u32),
        timestamp_ns: number * S / 20,
        ..row
    };
    let conversation = |from: u64| {
        let read = (from + 1..from + 250).map(move |number| step(number, load(0, 0x1000, 4096)));
        std::iter::once(step(from, store(0, 0x1000, 4096))).chain(read)
    };
    let class = |conversations: u64| {
        let rows: Vec<TraceRow<'_>> = (0..conversations).flat_map(|number| conversation(1 + number * 250)).collect();
        of_type(&dwell(&rows), "activation").suitability
    };
    for conversations in 1..4 {
        let found = class(conversations);
        assert_eq!(found.class, SuitabilityClass::HighMrm, "{conversations}: {found:?}");
    }
}

#[test]
fn a_life_of_exactly_the_threshold_reaches_it() {
    // 260 steps at 26 tokens/s are 10 s, though a step is no whole number of nanoseconds.
    let rows: Vec<TraceRow<'_>> = (0..=260u64)
        .map(|number| {
            let row = if number == 0 { store(0, 0x1000, 8) } else { load(0, 0x1000, 8) };
            TraceRow { step: Some(number as u32 + 1), timestamp_ns: number * S / 30, ..row }
        })
        .collect();
    let thresholds = SuitabilityThresholds { tokens_per_s: 26.0, ..SuitabilityThresholds::default() };
    let report = analyse(Options { thresholds, ..Options::default() }, None, &rows);
    let suitability = of_type(&report, "activation").suitability;
    assert_eq!(suitability.needed_p99_low_s, Some(10.0), "{suitability:?}");
    assert_eq!(suitability.class, SuitabilityClass::HighMrm);
}
