//! Rules on the way of exact accesses: overrides, unknown memory, and the policy for it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

use dwell_events::RegionType;
use dwell_label::{Labelled, Labeller, Output, RuleSet, UnknownPolicy, UnlabelledAccess};
use dwell_records::testing::{GraphBuilder, Memory};
use dwell_records::{Frame, Graph, Kind, NONE, Step};

/// One sum: a tensor of compute memory and one in memory that no buffer names, into compute memory.
fn graph() -> Graph {
    let mut graph = GraphBuilder::new(7);
    let sources = ["known", "nobodys"].map(|name| graph.leaf(name, "f32", [8, 4], Memory::Compute));
    graph.op("ADD", "sum", [8, 4], &sources);
    let mut graph = graph.build();
    graph.tensors[sources[1] as usize].buffer = NONE;
    graph
}

/// A step of that graph, whose one operation ended at 15.
fn step() -> Vec<u8> {
    let step = Step {
        graph: 7,
        thread: 1,
        begin_ns: 10,
        end_ns: 20,
        status: 0,
        nodes_done: 1,
        times_ns: vec![15],
        captures: Vec::new(),
        work: Vec::new(),
    };
    step.encode()
}

fn label(rules: &str, policy: UnknownPolicy) -> (u64, Labelled, Option<UnlabelledAccess>) {
    let rules = RuleSet::from_yaml(&format!("version: 1\nrules:\n{rules}"), Path::new("rules.yaml")).unwrap();
    let mut labeller = Labeller::new(&[]).with_rules(rules, policy);
    let mut out = Output::new("run");
    let (graph, step) = (graph().encode(), step());
    for (kind, payload) in [(Kind::Graph, &graph), (Kind::Step, &step), (Kind::Step, &step)] {
        labeller.frame(&Frame { kind: kind as u16, sequence: 0, time_ns: 1, payload }, &mut out);
    }
    let unlabelled = labeller.unlabelled().cloned();
    assert_eq!(unlabelled.is_some(), policy == UnknownPolicy::Error);
    let labelled = labeller.finish(&mut out);
    (out.trace.total_rows(), labelled, unlabelled)
}

/// Tensor, type and rows of each region.
fn regions(labelled: &Labelled) -> Vec<(&str, RegionType, u64)> {
    labelled.regions.iter().map(|row| (row.tensor.as_str(), row.region_type, row.access_count)).collect()
}

#[test]
fn an_override_splits_a_region_by_type() {
    use RegionType::{Activation, Runtime, Unknown};
    let (rows, labelled, _) = label("- {op: store, region: runtime, applies_to: all}\n", UnknownPolicy::Keep);
    assert_eq!(rows, 6);
    assert_eq!(regions(&labelled), [("known", Activation, 2), ("nobodys", Unknown, 2), ("sum", Runtime, 2)]);
}

#[test]
fn a_rule_labels_memory_that_no_buffer_names() {
    use RegionType::{Activation, Weight};
    let (rows, labelled, _) = label("- {symbol: ^add$, region: weight}\n", UnknownPolicy::Skip);
    assert_eq!(rows, 6);
    let mut found = regions(&labelled);
    found.sort();
    assert_eq!(found, [("known", Activation, 2), ("nobodys", Weight, 2), ("sum", Activation, 2)]);
}

#[test]
fn skip_counts_and_error_names_what_nothing_could_label() {
    let (rows, labelled, _) = label("- {symbol: none, region: weight}\n", UnknownPolicy::Skip);
    assert_eq!(rows, 4);
    let loss = labelled.loss.iter().find(|row| row.kind.name() == "unlabelled_accesses").unwrap();
    assert_eq!((loss.count, loss.bytes), (2, Some(256)));

    let (rows, _, unlabelled) = label("- {symbol: none, region: weight}\n", UnknownPolicy::Error);
    let access = unlabelled.unwrap();
    assert_eq!((rows, access.address, access.symbol.as_str()), (6, 0x300_1000, "ADD"));
}
