//! What the summary of a run says of its memory, for a trace whose figures can be told by hand.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

use dwell_analysis::{Analyser, Definitions, Options};
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, RegionType};
use dwell_metadata::{Generation, RunMetadata};
use dwell_report::text::{region_tables, summary_text};
use dwell_report::{RegionsSummary, RunSummary};
use serde_json::json;

const S: u64 = 1_000_000_000;

/// A weight that every step reads, and an activation that every step stores and reads a tenth of a second later.
fn rows(steps: u64) -> Vec<TraceRow<'static>> {
    let row = TraceRow { size_bytes: 1024, source: "tensor_ops", period: 1, ..TraceRow::EMPTY };
    let weight = TraceRow { address: 0x1000, region_type: RegionType::Weight, region_id: 1, ..row };
    let activation = TraceRow { address: 0x9000, region_type: RegionType::Activation, region_id: 2, ..row };
    let mut rows = vec![TraceRow { op_type: OpType::Store, ..weight }];
    for step in 0..steps {
        let at = |tenths: u64, op_type, row: TraceRow<'static>| TraceRow {
            timestamp_ns: (step + 1) * S + tenths * S / 10,
            op_type,
            step: Some(step as u32),
            ..row
        };
        rows.push(at(0, OpType::Load, weight));
        rows.push(at(1, OpType::Store, activation));
        rows.push(at(2, OpType::Load, activation));
    }
    rows
}

fn tables(steps: u64, generation: Option<&Generation>, width_chars: usize) -> String {
    let mut builder = TraceBuilder::new("run");
    rows(steps).iter().for_each(|row| builder.push(row));
    let mut analyser = Analyser::new(Options::default());
    analyser.push_trace(&builder.finish_batch()).unwrap();
    region_tables(&RegionsSummary::new(&analyser.finish(), generation), width_chars)
}

/// The lines of the summary of a run without a trace.
fn summary(metadata: serde_json::Value) -> String {
    let metadata: RunMetadata = serde_json::from_value(metadata).unwrap();
    let metrics = Analyser::new(Options::default()).finish();
    summary_text(&RunSummary::new(Path::new("run"), &metadata, &metrics, Vec::new()), 80)
}

#[test]
fn the_memory_of_the_observer_is_that_which_its_share_is_computed_from() {
    let text = summary(json!({
        "run_id": "run", "model_id": "tiny", "state": "complete",
        "observer_effect": {
            "worker": {"rss_peak_bytes": 100 << 20}, "observer": {"rss_peak_bytes": 18 << 20},
            "observer_peak_rss_bytes": 52 << 20, "observer_memory_share": 0.18,
        },
        "validity": {
            "class": "contaminated",
            "reasons": [{"what": "observer_memory_share", "found": 0.18, "limit": 0.15, "lowers_to": "contaminated"}],
        },
    }));
    assert!(text.contains("18.0 MiB of memory while recording") && !text.contains("52.0 MiB"), "{text}");
    assert!(text.contains("observer memory share 0.18 ≥ 0.15"), "{text}");
}

#[test]
fn a_run_that_ended_because_its_context_was_full_says_so() {
    let run = |reason: &str| {
        summary(json!({"run_id": "run", "model_id": "tiny", "state": "complete", "model": {"context_length": 256},
            "stops": [{"sequence": 0, "reason": reason}]}))
    };
    let line = "stopped   the context of 256 positions was full; --context-length sets a longer one\n";
    assert!(run("context_full").contains(line), "{}", run("context_full"));
    assert!(!run("max_tokens").contains("stopped"));
}

/// Ten steps after the prompt, one token a second.
fn generation() -> Generation {
    Generation { decode_ns: 10 * S, decode_tokens_per_s: Some(1.0), ..Generation::default() }
}

#[test]
fn the_tables_of_a_short_run_say_what_is_known_and_what_is_not() {
    let text = tables(11, Some(&generation()), 80);
    let expected = "\
region          size  read/token  written/token        read     written
activation  1.00 KiB    1.00 KiB       1.00 KiB  1.00 KiB/s  1.00 KiB/s
weight      1.00 KiB    1.00 KiB            0 B  1.00 KiB/s       0 B/s

region      needed p99  steps p99  stays p50   open     kept  suitability
activation           –          –    50.0 ms  9.1 %      0 %      low_mrm
weight        > 550 ms       > 11   > 550 ms  100 %  0–100 %    not_rated
observed over 11.2 s, 11 steps, definitions of dwell; each access counts its
bytes once
times at 20.0 tokens/s (--at-tokens-per-sec): needed: store to last load before
the next store; stays: store to overwriting or eviction; kept: share of what is
stored that stays 10.0 s; open: lives that had not ended; >: at least, as far as
the run shows
suitability for managed-retention memory (MRM): high if kept ≥ 80 % and needed
p99 ≥ 10.0 s, medium if stays p50 ≥ 1.00 s and needed p50 ≥ 1.00 s
–: more than 1 % of the lives were open, so p99 has no bound: activation
not rated, because the run ended first: weight; repeat with --max-tokens 201 or
more
";
    assert_eq!(text, expected);
}

#[test]
fn a_run_that_is_long_enough_is_rated() {
    let text = tables(201, Some(&generation()), 80);
    assert!(text.contains("> 201") && text.contains("high_mrm") && !text.contains("repeat with"), "{text}");
    // The number that decides is beside the class, on the clock of the rule.
    let of = |region: &str| text.lines().rfind(|line| line.starts_with(region)).unwrap().split_whitespace().collect();
    let (weight, activation): (Vec<&str>, Vec<&str>) = (of("weight"), of("activation"));
    assert_eq!(
        weight,
        ["weight", ">", "10.1", "s", ">", "201", ">", "10.1", "s", "100", "%", "0", "%", "100", "%", "high_mrm"]
    );
    assert_eq!(activation[..9], ["activation", "<", "50.0", "ms", "<", "1", "50.0", "ms", "0.5"]);
    assert!(text.contains("unread: never loaded") && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_run_that_nobody_can_repeat_is_told_what_would_decide() {
    assert!(tables(11, None, 80).contains("weight; 201 steps would decide"));
}

#[test]
fn the_definitions_of_mrm_trace_have_headings_and_a_legend_of_their_own() {
    let mut builder = TraceBuilder::new("run");
    rows(11).iter().for_each(|row| builder.push(row));
    let mut analyser = Analyser::new(Options { definitions: Definitions::MrmTrace, ..Options::default() });
    analyser.push_trace(&builder.finish_batch()).unwrap();
    let text = region_tables(&RegionsSummary::new(&analyser.finish(), None), 80);
    assert!(text.contains("\nregion      retention p50  retention p99   once  suitability\n"), "{text}");
    assert!(text.contains("retention: first store to last load of a region") && !text.contains("needed"), "{text}");
}

#[test]
fn a_wide_terminal_gets_more_columns_and_no_line_is_wider_than_it() {
    let (narrow, wide) = (tables(11, Some(&generation()), 80), tables(11, Some(&generation()), 200));
    let headers = |text: &str| text.lines().filter(|line| line.starts_with("region ")).collect::<String>();
    let extras = ["read:write", "all read", "all written", "p99 in this run", "because"];
    assert!(extras.iter().all(|column| headers(&wide).contains(column)), "{wide}");
    assert!(!extras[1..].iter().any(|column| headers(&narrow).contains(column)), "{narrow}");
    for (text, width) in [(&narrow, 80), (&wide, 200)] {
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}

#[test]
fn without_decoding_the_totals_are_shown() {
    let text = tables(11, None, 80);
    assert!(text.starts_with("region          size  all read  all written  read:write\n"), "{text}");
}
