//! Rules, ranges and pages against known truths.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

use dwell_events::schema::trace::TraceRow;
use dwell_events::{Hint, LossKind, OpType, Phase, RegionType};
use dwell_label::rules::{DecidedBy, Label, RegisteredRange};
use dwell_label::{RuleLabeller, RuleSet, RulesError, UnknownPolicy};

use RegionType::{Activation, KvCache, Runtime, Unknown, Weight};

const PAGE: u64 = 4096;
const SECOND_NS: u64 = 1_000_000_000;

fn parse(rules: &str) -> Result<RuleSet, RulesError> {
    RuleSet::from_yaml(&format!("version: 1\n{rules}"), Path::new("rules.yaml"))
}

fn labeller(rules: &str) -> RuleLabeller {
    RuleLabeller::new(parse(rules).unwrap(), UnknownPolicy::Keep)
}

fn at(time_s: u64, address: u64, symbol: &str) -> TraceRow<'_> {
    TraceRow {
        timestamp_ns: time_s * SECOND_NS,
        address,
        size_bytes: 8,
        op_type: OpType::Load,
        phase: Some(Phase::Generation),
        symbol,
        dso: "libggml.so",
        source: "perf_mem",
        ..TraceRow::EMPTY
    }
}

fn label(labeller: &mut RuleLabeller, access: &TraceRow<'_>) -> Label {
    labeller.label(access).unwrap().unwrap()
}

fn types(labeller: &mut RuleLabeller, accesses: &[TraceRow<'_>]) -> Vec<RegionType> {
    accesses.iter().map(|access| label(labeller, access).region_type).collect()
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = "rules:\n- {symbol: kv, region: kv_cache}\n- {symbol: kv_weight, region: weight}\n";
    assert_eq!(label(&mut labeller(rules), &at(0, 0, "my_kv_weight")).region_type, KvCache);
    let rules = "rules:\n- {symbol: kv_weight, region: weight}\n- {symbol: kv, region: kv_cache}\n";
    assert_eq!(label(&mut labeller(rules), &at(0, 0, "my_kv_weight")).region_type, Weight);
}

#[test]
fn every_matcher_has_to_match() {
    let all = "symbol: ^foo$, dso: ggml, phase: generation, op: load, source: perf_mem";
    let rules = format!("rules:\n- {{{all}, region: weight}}\n");
    let fits = at(0, 0, "foo");
    let found = |access| label(&mut labeller(&rules), &access).region_type;
    assert_eq!(found(fits), Weight);
    assert_eq!(found(TraceRow { symbol: "FOO", dso: "/usr/lib/LibGGML.so", ..fits }), Weight, "case does not matter");
    assert_eq!(found(TraceRow { symbol: "food", ..fits }), Unknown);
    assert_eq!(found(TraceRow { dso: "libc.so", ..fits }), Unknown);
    assert_eq!(found(TraceRow { phase: Some(Phase::WeightLoad), ..fits }), Unknown);
    assert_eq!(found(TraceRow { phase: None, ..fits }), Unknown);
    assert_eq!(found(TraceRow { op_type: OpType::Store, ..fits }), Unknown);
    assert_eq!(found(TraceRow { source: "perf_mem_2", ..fits }), Unknown);
}

#[test]
fn labelled_accesses_keep_their_label_unless_the_rule_applies_to_all() {
    let labelled = TraceRow { region_type: Activation, region_id: 7, ..at(0, 0, "foo") };
    let keeping = label(&mut labeller("rules:\n- {symbol: foo, region: weight}\n"), &labelled);
    assert_eq!((keeping.region_type, keeping.decided_by), (Activation, DecidedBy::Input));
    let overriding = "rules:\n- {symbol: foo, region: weight, applies_to: all}\n";
    let overridden = label(&mut labeller(overriding), &labelled);
    assert_eq!((overridden.region_type, overridden.decided_by), (Weight, DecidedBy::Override));
    let shadowed = "rules:\n- {symbol: fo, region: runtime}\n- {symbol: foo, region: weight, applies_to: all}\n";
    assert_eq!(label(&mut labeller(shadowed), &labelled).region_type, Activation, "the first match is not for it");
}

#[test]
fn a_rule_for_unknown_stops_the_search_and_lets_pages_tell() {
    let rules = "rules:\n- {symbol: gemm, region: unknown}\n- {symbol: '', op: load, region: runtime}\n- {op: store, region: weight}\n";
    let mut labeller = labeller(rules);
    let store = TraceRow { op_type: OpType::Store, ..at(1, PAGE, "loader") };
    let found = types(&mut labeller, &[at(0, PAGE, "gemm"), store, at(2, PAGE + 8, "gemm"), at(3, 9 * PAGE, "gemm")]);
    assert_eq!(found, [Unknown, Weight, Weight, Unknown]);
}

#[test]
fn a_page_that_is_freed_and_used_again_changes_its_label() {
    let rules = "rules:\n- {symbol: load, region: weight}\n- {symbol: silu, region: activation}\n";
    let mut labeller = labeller(rules);
    let (loaded, read) = (at(0, 5 * PAGE, "load"), at(10, 5 * PAGE + 64, "?"));
    assert_eq!(types(&mut labeller, &[loaded, read]), [Weight, Weight]);
    labeller.memory_freed(5 * PAGE, PAGE, 11 * SECOND_NS);
    let later = [at(11, 5 * PAGE, "?"), at(12, 5 * PAGE, "silu"), at(13, 5 * PAGE + 8, "?")];
    assert_eq!(types(&mut labeller, &later), [Unknown, Activation, Activation]);
    let labels = labeller.finish();
    let regions: Vec<_> =
        labels.regions.iter().map(|row| (row.region_id, row.region_type, row.access_count, row.freed_ns)).collect();
    assert_eq!(regions, [(1, Weight, 2, Some(11 * SECOND_NS)), (2, Activation, 2, None)]);
}

#[test]
fn memory_that_is_handed_out_again_is_not_what_it_was() {
    let mut labeller = labeller("rules:\n- {symbol: load, region: weight}\n");
    assert_eq!(label(&mut labeller, &at(0, PAGE, "load")).region_type, Weight);
    labeller.memory_allocated(PAGE, 64, SECOND_NS);
    assert_eq!(types(&mut labeller, &[at(2, PAGE, "?"), at(2, PAGE + 64, "?")]), [Unknown, Weight]);
}

#[test]
fn a_range_labels_its_bytes_while_it_is_valid() {
    let rules = "ranges:\n- {region: weight, address: 0x10000, size_bytes: 8192, from_ns: 1000000000, to_ns: 10000000000, name: w}\n\
                 - {region: kv_cache, address: 0x11000, size_bytes: 64, from_ns: 10000000000}\n";
    let mut labeller = labeller(rules);
    let accesses = [
        at(0, 0x10000, "?"),
        at(1, 0x10000, "?"),
        at(9, 0x11ff8, "?"),
        at(9, 0x12000, "?"),
        at(10, 0x10000, "?"),
        at(11, 0x11000, "?"),
        at(11, 0x11040, "?"),
    ];
    // After its end, the page of a range says nothing; bytes beside the second range are on its page.
    let expected = [Unknown, Weight, Weight, Unknown, Unknown, KvCache, KvCache];
    assert_eq!(types(&mut labeller, &accesses), expected);
    let labels = labeller.finish();
    let found: Vec<_> = labels.regions.iter().map(|row| (row.address, row.size_bytes, row.freed_ns)).collect();
    assert_eq!(found, [(0x10000, 8192, Some(10 * SECOND_NS)), (0x11000, 72, None)]);
    assert_eq!(labels.regions[0].tensor, "w");
}

#[test]
fn the_end_of_a_range_ends_what_was_inferred_from_it() {
    let rules = "rules:\n- {symbol: silu, region: activation}\n\
                 ranges:\n- {region: weight, address: 0x10000, size_bytes: 4096, to_ns: 5000000000}\n";
    let mut labeller = labeller(rules);
    // The second is typed by a rule elsewhere, so that the end of the range lies before the last change.
    let accesses = [at(1, 0x10000, "?"), at(6, 0x90000, "silu"), at(7, 0x10000, "?")];
    assert_eq!(types(&mut labeller, &accesses), [Weight, Activation, Unknown]);
}

#[test]
fn ranges_that_contradict_each_other_are_named() {
    let conflict = "ranges:\n- {region: weight, address: 0x1000, size_bytes: 4096, name: first}\n\
                    - {region: kv_cache, address: 0x1fff, size_bytes: 1, from_ns: 5}\n";
    let error = parse(conflict).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, RulesError::RangeConflict { .. }), "{message}");
    assert!(message.contains("\"first\" (weight at 0x1000") && message.contains("kv_cache at 0x1fff"), "{message}");
    let fine = [
        "- {region: weight, address: 0x1000, size_bytes: 4096, to_ns: 5}\n- {region: kv_cache, address: 0x1000, size_bytes: 1, from_ns: 5}\n",
        "- {region: weight, address: 0x1000, size_bytes: 4096}\n- {region: kv_cache, address: 0x2000, size_bytes: 1}\n",
        "- {region: weight, address: 0x1000, size_bytes: 4096}\n- {region: weight, address: 0x1000, size_bytes: 1, from_ns: 7}\n",
    ];
    for ranges in fine {
        parse(&format!("ranges:\n{ranges}")).unwrap();
    }
    let range =
        |size_bytes, to_ns| RegisteredRange { region: Weight, address: 8, size_bytes, from_ns: 3, to_ns, name: None };
    let with = |range| RuleSet::default_rules().with_ranges(vec![range]).map(|_| ()).unwrap_err();
    assert!(matches!(with(range(0, None)), RulesError::EmptyRange { .. }));
    assert!(matches!(with(range(u64::MAX, None)), RulesError::EmptyRange { .. }));
    assert!(matches!(with(range(1, Some(3))), RulesError::RangeWithoutTime { .. }));
}

#[test]
fn unknown_accesses_are_kept_dropped_or_an_error() {
    let rules = parse("rules:\n- {symbol: silu, region: activation}\n").unwrap();
    let accesses = [at(0, 0, "silu"), at(1, 9 * PAGE, "?"), at(2, 9 * PAGE, "?")];
    let mut keeping = RuleLabeller::new(rules.clone(), UnknownPolicy::Keep);
    assert_eq!(types(&mut keeping, &accesses), [Activation, Unknown, Unknown]);
    assert!(keeping.finish().loss.is_none());

    let mut skipping = RuleLabeller::new(rules.clone(), UnknownPolicy::Skip);
    let kept: Vec<bool> = accesses.iter().map(|access| skipping.label(access).unwrap().is_some()).collect();
    assert_eq!(kept, [true, false, false]);
    let labels = skipping.finish();
    let loss = labels.loss.unwrap();
    assert_eq!((loss.kind, loss.count, loss.bytes), (LossKind::UnlabelledAccesses, 2, Some(16)));
    assert_eq!((labels.counts.rows_in, labels.counts.dropped), (3, 2));

    let mut failing = RuleLabeller::new(rules, UnknownPolicy::Error);
    assert!(failing.label(&accesses[0]).is_ok());
    let error = failing.label(&accesses[1]).unwrap_err();
    assert_eq!((error.address, error.symbol.as_str()), (9 * PAGE, "?"));
}

#[test]
fn an_access_that_comes_late_neither_asks_nor_tells_pages() {
    let mut labeller = labeller("rules:\n- {symbol: load, region: weight}\n- {symbol: silu, region: activation}\n");
    let accesses = [at(5, PAGE, "load"), at(4, PAGE, "?"), at(3, PAGE, "silu"), at(5, PAGE, "?")];
    assert_eq!(types(&mut labeller, &accesses), [Weight, Unknown, Activation, Weight]);
    assert_eq!(labeller.finish().counts.late, 2);
}

#[test]
fn a_mistake_in_a_rules_file_is_named_with_its_line() {
    let message = |rules: &str| {
        let error = parse(rules).unwrap_err();
        format!("{error} | {}", error.hints().join(" "))
    };
    let key = message("rules:\n- symbol: foo\n  regoin: weight\n");
    assert!(key.contains("\"regoin\" at line 4") && key.contains("did you mean `region`"), "{key}");
    let value = message("rules:\n- symbol: foo\n  region: weights\n");
    assert!(value.contains("\"weights\" at line 4") && value.contains("did you mean `weight`"), "{value}");
    let missing = message("rules:\n- symbol: foo\n");
    assert!(missing.contains("region") && missing.contains("line 3"), "{missing}");
    let pattern = message("rules:\n- name: x\n  symbol: 'foo('\n  region: weight\n");
    assert!(pattern.contains("rule \"x\" at line 3, key symbol") && pattern.contains("unclosed group"), "{pattern}");
    let early = message("rules:\n- {region: weight}\n- {symbol: a, region: weight}\n");
    assert!(early.contains("the rule at line 3, which matches everything"), "{early}");
    let twice = message("rules:\n- {name: a, symbol: b, region: weight}\n- {name: a, symbol: c, region: weight}\n");
    assert!(twice.contains("\"a\" at line 3 and again at line 4"), "{twice}");
    let syntax = message("rules: [\n");
    assert!(syntax.contains("line "), "{syntax}");
    let version = RuleSet::from_yaml("version: 2\n", Path::new("f")).unwrap_err();
    assert!(version.to_string().contains("version 2, and version 1 was needed"));
    assert!(parse("rules:\n- {symbol: a, region: weight}\n- {region: runtime}\n").is_ok(), "a catch-all may be last");
}

#[test]
fn no_pattern_can_hang_or_fill_memory() {
    let nested = "rules:\n- {symbol: '(a+)+(a*)*$', region: weight}\n";
    let symbol = "a".repeat(100_000) + "!";
    assert_eq!(label(&mut labeller(nested), &at(0, 0, &symbol)).region_type, Unknown);
    let huge = parse("rules:\n- {symbol: '((a{100}){100}){100}', region: weight}\n").unwrap_err();
    assert!(huge.to_string().contains("size limit"), "{huge}");
    let many: String = (0..1001).map(|number| format!("- {{symbol: a{number}, region: weight}}\n")).collect();
    assert!(matches!(parse(&format!("rules:\n{many}")), Err(RulesError::TooMany { .. })));
    let nested =
        (0..3000u64).map(|at| format!("- {{region: weight, address: {}, size_bytes: {}}}\n", 1 + at, 10_000 - 2 * at));
    assert!(matches!(
        parse(&format!("ranges:\n{}", nested.collect::<String>())),
        Err(RulesError::TooManyOverlaps { .. })
    ));
}

#[test]
fn thousands_of_pages_of_one_owner_are_one_region() {
    let mut labeller = labeller("rules:\n- {symbol: load, region: weight}\n- {symbol: silu, region: runtime}\n");
    for page in 0..20_000u64 {
        label(&mut labeller, &at(page, page * PAGE, "load"));
    }
    label(&mut labeller, &at(30_000, 100 * PAGE, "silu"));
    label(&mut labeller, &at(30_001, 100 * PAGE, "load"));
    let found: Vec<_> = labeller.finish().regions.iter().map(|row| (row.region_type, row.access_count)).collect();
    assert_eq!(found, [(Weight, 20_001), (Runtime, 1)]);
}
