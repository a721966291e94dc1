//! Patterns whose truth is known, seen through samplers: what is said of them is true, or it is not said.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::collections::BTreeSet;

use dwell_analysis::{Analyser, Estimate, MetricsReport, Obstacle, Options, RegionTypeRow, SuitabilityClass};
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, RegionType};
use support::{S, load, of_type, store};

const PERIODS: [u64; 13] = [2, 3, 5, 7, 10, 20, 50, 100, 200, 500, 1000, 2000, 4000];
const SEEDS: [u64; 2] = [1, 2];

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Time, address and direction of an access of 8 bytes.
type Event = (u64, u64, OpType);

fn address(block: u64) -> u64 {
    0x10_0000 + block * 64
}

/// Every address is written 200 times and read a microsecond later.
fn rewritten() -> Vec<Event> {
    let blocks = 500;
    let rounds = (0..200).flat_map(|round| (0..blocks).map(move |block| (round * 100 * MS + block * 10 * US, block)));
    rounds
        .flat_map(|(at, block)| [(at, address(block), OpType::Store), (at + US, address(block), OpType::Load)])
        .collect()
}

/// Blocks that are written once and read 200 times over 20 s.
fn written_once(blocks: u64, first_block: u64) -> Vec<Event> {
    let at = |block: u64, read: u64| block * US + read * 100 * MS;
    let blocks = first_block..first_block + blocks;
    let stores = blocks.clone().map(|block| (at(block, 0), address(block), OpType::Store));
    let loads =
        (1..=200).flat_map(|read| blocks.clone().map(move |block| (at(block, read), address(block), OpType::Load)));
    stores.chain(loads).collect()
}

/// Half of the addresses written once, half rewritten all the time.
fn half_rewritten() -> Vec<Event> {
    by_time([rewritten(), written_once(500, 1000)].concat())
}

/// Half of the addresses written once, half a second time after half of the trace.
fn half_written_twice() -> Vec<Event> {
    let again = (1000..2000).map(|block| (10 * S + block * US + 1, address(block), OpType::Store));
    by_time([written_once(2000, 0), again.collect()].concat())
}

/// Rewritten every millisecond and read a tenth of one later, for 30 s.
fn short_lives() -> Vec<Event> {
    let addresses = 4;
    let rounds = (0..30_000).flat_map(|round| (0..addresses).map(move |block| (round * MS + block * US, block)));
    let events = rounds
        .flat_map(|(at, block)| [(at, address(block), OpType::Store), (at + 100 * US, address(block), OpType::Load)]);
    by_time(events.collect())
}

/// A log that grows, and after each entry a store to a slot that chance chooses: an even period sees one or the other.
fn log_and_slots() -> Vec<Event> {
    let mut random = Random(99);
    let entry = |index: u64| {
        let at = index * 100 * US;
        let slot = 1_000_000 + random.next() % 1000;
        [(at, address(index), OpType::Store), (at + US, address(slot), OpType::Store)]
    };
    let mut events: Vec<Event> = (0..60_000).flat_map(entry).collect();
    let end = 30 * S;
    events.extend((0..60_000).map(|index| (end + index, address(index), OpType::Load)));
    events
}

/// Little that is written once, among memory that is rewritten: a sampler may see none of it.
fn hardly_any_written_once() -> Vec<Event> {
    let once = (1000..1030).map(|block| ((block - 1000) * S + 5 * US, address(block), OpType::Store));
    let rounds = (0..1000).flat_map(|round| (0..200).map(move |block| (round * 100 * MS + block * 10 * US, block)));
    by_time(rounds.map(|(at, block)| (at, address(block), OpType::Store)).chain(once).collect())
}

/// Memory that is rewritten, and more that was written before the trace and is only read in it.
fn rewritten_and_read() -> Vec<Event> {
    let reads = (0..20).flat_map(|read| (1000..2500).map(move |block| (read * S + block * US, address(block))));
    by_time(reads.map(|(at, address)| (at, address, OpType::Load)).chain(rewritten()).collect())
}

/// Written long before, then only read.
fn read_only() -> Vec<Event> {
    written_once(2000, 0).into_iter().filter(|event| event.2 == OpType::Load).collect()
}

fn by_time(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|event| event.0);
    events
}

/// A small generator; good enough to be out of step with anything here.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sampler {
    /// Every n-th, and the rows say n.
    Periodic,
    /// Each with chance 1 in n; the rows say how many went by.
    Random,
    /// After 1 to 2n − 1; the rows say how many went by.
    Jittered,
}

/// The events that a sampler sees, each with its period.
fn sampled(events: &[Event], sampler: Sampler, period: u64, seed: u64) -> Vec<(Event, u64)> {
    let mut random = Random(seed);
    let mut next_gap = || match sampler {
        Sampler::Periodic => period,
        Sampler::Random => (1..).find(|_| random.next().is_multiple_of(period)).unwrap_or(1),
        Sampler::Jittered => 1 + random.next() % (2 * period - 1),
    };
    // A periodic sampler starts anywhere in its period.
    let mut gap = if sampler == Sampler::Periodic { 1 + seed % period } else { next_gap() };
    let mut seen = Vec::new();
    let mut position = gap as usize;
    while let Some(&event) = events.get(position - 1) {
        seen.push((event, if sampler == Sampler::Periodic { period } else { gap }));
        gap = next_gap();
        position += gap as usize;
    }
    seen
}

fn analyse(events: &[(Event, u64)], options: Options) -> MetricsReport {
    let mut builder = TraceBuilder::new("run");
    for &((time_ns, address, op_type), period) in events {
        let row = if op_type == OpType::Load { load(time_ns, address, 8) } else { store(time_ns, address, 8) };
        builder.push(&TraceRow { period, ..row });
    }
    let mut analyser = Analyser::new(options);
    analyser.push_trace(&builder.finish_batch()).unwrap();
    analyser.finish()
}

fn row_of(events: &[Event], sampler: Sampler, period: u64, seed: u64) -> Option<RegionTypeRow> {
    analyse(&sampled(events, sampler, period, seed), Options::default()).region_types.pop()
}

/// Whether the truth is within what is said.
fn assert_true(truth: &RegionTypeRow, said: &RegionTypeRow, context: &str) {
    let is_within = |low: Option<f64>, truth: Option<f64>, high: Option<f64>| {
        low.unwrap() <= truth.unwrap() && truth.unwrap() <= high.unwrap()
    };
    let (said_once, true_once) = (&said.write_once, &truth.write_once);
    match said_once.estimate.unwrap() {
        Estimate::Exact | Estimate::Censored | Estimate::BelowResolution => panic!("{context}: a sample is not exact"),
        Estimate::Bounded => {
            assert!(
                is_within(said_once.low, true_once.ratio, said_once.high),
                "{context}: {said_once:?} of {true_once:?}"
            );
        }
        Estimate::NotEstimable => assert_eq!((said_once.low, said_once.high), (None, None), "{context}"),
    }
    assert_eq!(said_once.ratio, None, "{context}: no share of what was not seen");
    let (said_life, true_life) = (&said.retention, &truth.retention);
    match said_life.estimate.unwrap() {
        Estimate::Exact | Estimate::Censored | Estimate::BelowResolution => panic!("{context}: a sample is not exact"),
        Estimate::Bounded => {
            assert!(
                is_within(said_life.p50_low_s, true_life.p50_s, said_life.p50_high_s),
                "{context}: {said_life:?} of {true_life:?}"
            );
            assert!(
                is_within(said_life.p99_low_s, true_life.p99_s, said_life.p99_high_s),
                "{context}: {said_life:?} of {true_life:?}"
            );
        }
        Estimate::NotEstimable => {
            let figures = [said_life.p50_s, said_life.p90_s, said_life.p99_s, said_life.mean_s, said_life.max_s];
            assert_eq!(figures, [None; 5], "{context}");
            assert!(said_life.obstacle.is_some(), "{context}: no reason is given");
        }
    }
    let class = said.suitability.class;
    let is_true = class == truth.suitability.class || class == SuitabilityClass::NotEstimable;
    assert!(is_true, "{context}: {class:?} of {:?}", truth.suitability.class);
}

/// What was said in the end, over all samplers.
#[derive(Debug, Default)]
struct Said {
    bounded_retentions: Vec<u64>,
    low_mrm: Vec<u64>,
}

fn judge_all(events: &[Event], truth: &RegionTypeRow) -> Said {
    let mut said = Said::default();
    for period in PERIODS {
        for seed in SEEDS {
            for sampler in [Sampler::Periodic, Sampler::Random, Sampler::Jittered] {
                let Some(row) = row_of(events, sampler, period, seed) else { continue };
                assert_true(truth, &row, &format!("{sampler:?}, period {period}, seed {seed}"));
                if sampler == Sampler::Periodic {
                    assert_eq!(row.retention.obstacle, Some(Obstacle::FixedPeriod));
                }
                if row.retention.estimate == Some(Estimate::Bounded) {
                    said.bounded_retentions.push(period);
                }
                if row.suitability.class == SuitabilityClass::LowMrm {
                    said.low_mrm.push(period);
                }
            }
        }
    }
    said
}

/// The figures of every access of the pattern. In the end other memory takes its place, so that every life has ended.
fn whole_row(events: &[Event]) -> RegionTypeRow {
    let mut builder = TraceBuilder::new("run");
    let mut addresses = BTreeSet::new();
    for &(time_ns, address, op_type) in events {
        addresses.insert(address);
        builder.push(&if op_type == OpType::Load { load(time_ns, address, 8) } else { store(time_ns, address, 8) });
    }
    let end_ns = events.last().unwrap().0 + 1;
    for address in addresses {
        builder.push(&TraceRow { region_type: RegionType::Runtime, region_id: 99, ..store(end_ns, address, 8) });
    }
    let mut analyser = Analyser::new(Options::default());
    analyser.push_trace(&builder.finish_batch()).unwrap();
    of_type(&analyser.finish(), "activation").clone()
}

/// The figures of the whole pattern, which have to be its truth.
fn truth_of(events: &[Event], write_once: f64, p50_s: f64, p99_s: f64, class: SuitabilityClass) -> RegionTypeRow {
    let row = whole_row(events);
    assert_eq!(row.write_once.ratio, Some(write_once));
    assert_eq!((row.retention.p50_s, row.retention.p99_s), (Some(p50_s), Some(p99_s)));
    assert_eq!((row.write_once.estimate, row.retention.estimate), (Some(Estimate::Exact), Some(Estimate::Exact)));
    assert_eq!((row.write_once.low, row.write_once.high), (Some(write_once), Some(write_once)));
    assert_eq!((row.retention.p99_low_s, row.retention.p99_high_s), (Some(p99_s), Some(p99_s)));
    assert_eq!(row.suitability.class, class);
    row
}

#[test]
fn memory_that_is_always_rewritten() {
    let events = rewritten();
    let truth = truth_of(&events, 0.0, 1e-6, 1e-6, SuitabilityClass::LowMrm);
    let said = judge_all(&events, &truth);
    assert!(said.low_mrm.contains(&5) && said.low_mrm.contains(&10), "samples can refute: {said:?}");
    assert!(!said.low_mrm.contains(&1000), "a store or none of each address was seen: {said:?}");
    assert!(said.bounded_retentions.is_empty(), "{said:?}");
}

#[test]
fn blocks_that_are_written_once_and_read_for_20_s() {
    let events = written_once(5000, 0);
    let truth = truth_of(&events, 1.0, 20.0, 20.0, SuitabilityClass::HighMrm);
    let said = judge_all(&events, &truth);
    assert!(said.low_mrm.is_empty(), "{said:?}");
    let bounded = |period| said.bounded_retentions.iter().filter(|&&found| found == period).count();
    assert_eq!((bounded(2), bounded(5), bounded(10), bounded(100)), (4, 4, 4, 0), "{said:?}");
}

#[test]
fn half_of_the_memory_rewritten() {
    let events = half_rewritten();
    let truth = truth_of(&events, 0.5, 1e-6, 1e-6, SuitabilityClass::LowMrm);
    let said = judge_all(&events, &truth);
    assert!(said.bounded_retentions.is_empty(), "{said:?}");
}

#[test]
fn half_of_the_memory_written_twice() {
    let events = half_written_twice();
    let row = whole_row(&events);
    // Stored again after ten seconds and more.
    let class = SuitabilityClass::HighMrm;
    let truth = truth_of(&events, 0.5, row.retention.p50_s.unwrap(), 20.0, class);
    assert!((9.9..10.1).contains(&truth.retention.p50_s.unwrap()));
    let said = judge_all(&events, &truth);
    assert!(said.low_mrm.is_empty(), "{said:?}");
}

#[test]
fn memory_that_is_rewritten_every_millisecond_and_read_soon_after() {
    let events = short_lives();
    let truth = truth_of(&events, 0.0, 1e-4, 1e-4, SuitabilityClass::LowMrm);
    let said = judge_all(&events, &truth);
    assert!(said.bounded_retentions.is_empty(), "the lives look 30 s long: {said:?}");
}

#[test]
fn a_loop_that_an_even_period_sees_half_of() {
    let events = log_and_slots();
    let row = whole_row(&events);
    assert_eq!(row.write_once.ratio, Some(60_000.0 / 61_000.0));
    // The slots are stored to so often that half of what is stored does not stay for ten seconds.
    assert_eq!(row.suitability.class, SuitabilityClass::MediumMrm);
    let said = judge_all(&events, &row);
    assert!(said.low_mrm.is_empty(), "{said:?}");
}

#[test]
fn little_that_is_written_once_among_memory_that_is_rewritten() {
    let events = hardly_any_written_once();
    let truth = whole_row(&events);
    assert_eq!(truth.write_once.ratio, Some(30.0 / 230.0));
    let said = judge_all(&events, &truth);
    assert!(said.bounded_retentions.is_empty(), "{said:?}");
}

#[test]
fn memory_that_is_rewritten_beside_memory_that_is_only_read() {
    let events = rewritten_and_read();
    let truth = truth_of(&events, 0.75, 1e-6, 19.0, SuitabilityClass::LowMrm);
    let said = judge_all(&events, &truth);
    assert!(said.bounded_retentions.is_empty(), "{said:?}");
}

#[test]
fn memory_that_is_only_read() {
    let events = read_only();
    let truth = whole_row(&events);
    assert_eq!(truth.suitability.class, SuitabilityClass::HighMrm);
    let said = judge_all(&events, &truth);
    assert!(said.low_mrm.is_empty() && said.bounded_retentions.contains(&5), "{said:?}");
}

#[test]
fn a_weight_that_is_read_for_30_s_is_needed_for_30_s_at_least_by_both_definitions() {
    let rows: Vec<_> =
        std::iter::once(store(0, 0x1000, 4096)).chain((1..=300).map(|at| load(at * S / 10, 0x1000, 4096))).collect();
    assert_eq!(support::dwell(&rows).region_types[0].retention.p99_low_s, Some(30.0));
    assert_eq!(support::mrm_trace(&rows).region_types[0].retention.p99_s, Some(30.0));
}
