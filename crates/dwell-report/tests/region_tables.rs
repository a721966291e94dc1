//! What the summary of a run says of its memory, for a trace whose figures can be told by hand.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_analysis::{Analyser, Options};
use dwell_events::schema::trace::{TraceBuilder, TraceRow};
use dwell_events::{OpType, RegionType};
use dwell_metadata::Generation;
use dwell_report::RegionsSummary;
use dwell_report::text::region_tables;

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

region      needed p99  steps p99  stays p50   open  unread   once  suitability
activation           –          –     1.00 s  9.1 %     0 %  0.000      low_mrm
weight        > 550 ms       > 11   > 11.2 s  100 %     0 %  1.000    not_rated
observed over 11.2 s, 11 steps, definitions of dwell; each access counts its
bytes once
needed: store to last load before the next store, at 20.0 tokens/s
(--at-tokens-per-sec); stays: store to overwriting or eviction, in this run;
open: lives that had not ended; unread: never loaded; once: stored once; >: at
least, as far as the run shows
suitability for managed-retention memory (MRM): high if 80 % of what is stored
stays 10.0 s and p99 is needed 10.0 s, medium if 50 % stays 1.00 s and p50 is
needed 1.00 s
not rated, because the run ended first: weight; 201 steps would decide
";
    assert_eq!(text, expected);
}

#[test]
fn a_run_that_is_long_enough_is_rated() {
    let text = tables(201, Some(&generation()), 80);
    assert!(text.contains("> 201") && text.contains("high_mrm") && !text.contains("would decide"), "{text}");
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
