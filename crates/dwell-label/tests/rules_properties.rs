//! What holds for all rules and all traces.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::HashMap;
use std::path::Path;

use dwell_events::schema::region_map::RegionRow;
use dwell_events::schema::trace::TraceRow;
use dwell_events::{OpType, Phase, RegionType};
use dwell_label::regions::KnownRegion;
use dwell_label::rules::RuleLabels;
use dwell_label::{RuleLabeller, RuleSet, UnknownPolicy};
use proptest::prelude::*;

const SYMBOLS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];

/// An access, or memory given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Access(TraceRow<'static>),
    Freed { address: u64, size_bytes: u64, time_ns: u64 },
}

fn region() -> impl Strategy<Value = RegionType> {
    prop::sample::select(RegionType::ALL.to_vec())
}

prop_compose! {
    fn access()(
        time_ns in 0u64..200,
        address in 0u64..40_000,
        size_bytes in prop::sample::select(vec![0, 1, 8, 5000]),
        is_store in any::<bool>(),
        symbol in prop::sample::select(SYMBOLS.to_vec()),
        region_type in prop_oneof![3 => Just(RegionType::Unknown), 1 => region()],
        region_id in 0u32..3,
    ) -> Event {
        Event::Access(TraceRow {
            timestamp_ns: time_ns,
            address,
            size_bytes,
            op_type: if is_store { OpType::Store } else { OpType::Load },
            phase: Some(Phase::Generation),
            symbol,
            region_type,
            region_id,
            ..TraceRow::EMPTY
        })
    }
}

fn event() -> impl Strategy<Value = Event> {
    let freed = (0u64..40_000, 1u64..9000, 0u64..200).prop_map(|(address, size_bytes, time_ns)| Event::Freed {
        address,
        size_bytes,
        time_ns,
    });
    prop_oneof![9 => access(), 1 => freed]
}

fn rule() -> impl Strategy<Value = String> {
    (prop::sample::select(SYMBOLS.to_vec()), prop::sample::select(vec!["", ", op: load"]), region(), any::<bool>())
        .prop_map(|(symbol, op, region, is_all)| {
            let applies_to = if is_all { "all" } else { "unknown" };
            format!("- {{symbol: {symbol}{op}, region: {}, applies_to: {applies_to}}}\n", region.name())
        })
}

/// One range after the other in space, so that none contradicts another.
fn ranges() -> impl Strategy<Value = String> {
    let range = (region(), 1u64..9000, 0u64..100, prop::option::of(1u64..100));
    prop::collection::vec(range, 0..4).prop_map(|ranges| {
        let line = |(place, (region, size_bytes, from_ns, lasts_ns)): (u64, (RegionType, u64, u64, Option<u64>))| {
            let to_ns = lasts_ns.map_or_else(|| "null".to_owned(), |lasts_ns| (from_ns + lasts_ns).to_string());
            let (address, region) = (place * 10_000, region.name());
            format!("- {{region: {region}, address: {address}, size_bytes: {size_bytes}, from_ns: {from_ns}, to_ns: {to_ns}}}\n")
        };
        (0u64..).zip(ranges).map(line).collect()
    })
}

fn rule_set(rules: &[String], ranges: &str) -> RuleSet {
    let part = |name: &str, lines: String| if lines.is_empty() { String::new() } else { format!("{name}:\n{lines}") };
    let text = format!("version: 1\n{}{}", part("rules", rules.concat()), part("ranges", ranges.to_owned()));
    RuleSet::from_yaml(&text, Path::new("rules.yaml")).unwrap()
}

fn known(regions: &[RegionRow]) -> HashMap<u32, KnownRegion> {
    let fields = |row: &RegionRow| KnownRegion {
        address: row.address,
        size_bytes: row.size_bytes,
        tensor: row.tensor.clone(),
        layer: row.layer,
        origin: row.origin,
        file_offset: row.file_offset,
        freed_ns: row.freed_ns,
    };
    regions.iter().map(|row| (row.region_id, fields(row))).collect()
}

fn label(events: &[Event], labeller: RuleLabeller) -> (Vec<Event>, RuleLabels) {
    let mut labeller = labeller;
    let mut labelled = Vec::new();
    for &event in events {
        match event {
            Event::Access(access) => {
                if let Some(label) = labeller.label(&access).unwrap() {
                    let (region_type, region_id) = (label.region_type, label.region_id);
                    labelled.push(Event::Access(TraceRow { region_type, region_id, ..access }));
                }
            }
            Event::Freed { address, size_bytes, time_ns } => {
                labeller.memory_freed(address, size_bytes, time_ns);
                labelled.push(event);
            }
        }
    }
    (labelled, labeller.finish())
}

fn accesses(events: &[Event]) -> Vec<TraceRow<'static>> {
    events.iter().filter_map(|event| if let Event::Access(access) = event { Some(*access) } else { None }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn labelling_twice_is_labelling_once(
        rules in prop::collection::vec(rule(), 0..5),
        ranges in ranges(),
        mut events in prop::collection::vec(event(), 0..60),
        is_in_order in any::<bool>(),
        policy in prop::sample::select(vec![UnknownPolicy::Keep, UnknownPolicy::Skip]),
    ) {
        if is_in_order {
            events.sort_by_key(|event| match event {
                Event::Access(access) => access.timestamp_ns,
                Event::Freed { time_ns, .. } => *time_ns,
            });
        }
        let rules = rule_set(&rules, &ranges);
        let (once, labels) = label(&events, RuleLabeller::new(rules.clone(), policy));
        let (rows_in, rows_out) = (accesses(&events).len() as u64, accesses(&once).len() as u64);
        prop_assert_eq!(rows_in, labels.counts.rows_in);
        prop_assert_eq!(rows_in, rows_out + labels.counts.dropped, "every row is kept or counted");
        prop_assert_eq!(labels.counts.by_decision.iter().sum::<u64>(), rows_in);
        prop_assert_eq!(labels.loss.map_or(0, |row| row.count), labels.counts.dropped);
        if policy == UnknownPolicy::Skip {
            prop_assert!(accesses(&once).iter().all(|access| access.region_type != RegionType::Unknown));
        }
        let again = RuleLabeller::new(rules, policy).with_known_regions(known(&labels.regions));
        let (twice, labels_again) = label(&once, again);
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(labels.regions, labels_again.regions);
    }

    #[test]
    fn skip_drops_only_what_keep_leaves_unknown(
        rules in prop::collection::vec(rule(), 0..5),
        ranges in ranges(),
        events in prop::collection::vec(event(), 0..60),
    ) {
        let rules = rule_set(&rules, &ranges);
        let (kept, _) = label(&events, RuleLabeller::new(rules.clone(), UnknownPolicy::Keep));
        let (skipped, _) = label(&events, RuleLabeller::new(rules, UnknownPolicy::Skip));
        let types = |events: &[Event]| accesses(events).iter().map(|access| access.region_type).collect::<Vec<_>>();
        let mut expected = types(&kept);
        expected.retain(|&region_type| region_type != RegionType::Unknown);
        prop_assert_eq!(expected, types(&skipped));
    }

    #[test]
    fn rules_that_cannot_both_match_may_stand_in_any_order(
        regions in prop::array::uniform4(region()),
        order in Just([0usize, 1, 2, 3]).prop_shuffle(),
        events in prop::collection::vec(event(), 0..60),
    ) {
        let rule = |at: usize| format!("- {{symbol: ^{}$, region: {}}}\n", SYMBOLS[at], regions[at].name());
        let in_order = rule_set(&[0, 1, 2, 3].map(rule), "");
        let shuffled = rule_set(&order.map(rule), "");
        let (one, _) = label(&events, RuleLabeller::new(in_order, UnknownPolicy::Keep));
        let (other, _) = label(&events, RuleLabeller::new(shuffled, UnknownPolicy::Keep));
        prop_assert_eq!(one, other);
    }

    #[test]
    fn every_row_is_in_a_region_of_its_type(
        rules in prop::collection::vec(rule(), 0..5),
        ranges in ranges(),
        events in prop::collection::vec(event(), 0..60),
    ) {
        let (labelled, labels) = label(&events, RuleLabeller::new(rule_set(&rules, &ranges), UnknownPolicy::Keep));
        let mut counts = vec![0u64; labels.regions.len()];
        for access in accesses(&labelled) {
            let Some(at) = (access.region_id as usize).checked_sub(1) else {
                prop_assert_eq!(access.region_type, RegionType::Unknown);
                continue;
            };
            let row = &labels.regions[at];
            prop_assert_eq!(row.region_type, access.region_type);
            prop_assert!(row.address <= access.address);
            prop_assert!(access.address + access.size_bytes <= row.address + row.size_bytes);
            counts[at] += 1;
        }
        let stated: Vec<u64> = labels.regions.iter().map(|row| row.access_count).collect();
        prop_assert_eq!(stated, counts);
    }
}
