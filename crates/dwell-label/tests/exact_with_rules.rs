//! Rules on the way of exact accesses: overrides, unknown memory, and the policy for it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;

use dwell_events::RegionType;
use dwell_label::{Labelled, Labeller, Output, RuleSet, UnknownPolicy, UnlabelledAccess};
use dwell_records::{Buffer, Frame, Graph, Kind, NONE, TensorShape, Unit, ValueType};

const USAGE_COMPUTE: u8 = 2;

fn tensor(name: &str, op: u16, place: u32, buffer: u32, sources: Vec<u32>) -> TensorShape {
    let address = 0x10_000 * u64::from(place + 1);
    let (ne, nb) = ([8, 4, 1, 1], [4, 32, 128, 128]);
    TensorShape {
        name: name.to_owned(),
        value_type: 0,
        op,
        ne,
        nb,
        address,
        root: place,
        buffer,
        op_params: [0; 5],
        sources,
    }
}

/// One sum: a tensor of compute memory and one in memory that no buffer names, into compute memory.
fn graph() -> Graph {
    Graph {
        id: 7,
        buffers: vec![Buffer {
            base: 0,
            size_bytes: 1 << 20,
            usage: USAGE_COMPUTE,
            is_host: true,
            name: "CPU".to_owned(),
        }],
        types: vec![ValueType { name: "f32".to_owned(), block_values: 1, block_bytes: 4 }],
        op_names: vec!["NONE".to_owned(), "ADD".to_owned()],
        tensors: vec![
            tensor("known", 0, 0, 0, vec![]),
            tensor("nobodys", 0, 1, NONE, vec![]),
            tensor("sum", 1, 2, 0, vec![0, 1]),
        ],
        units: vec![Unit { node: 2, fused: NONE }],
        captures: vec![],
        stamped_units: vec![0],
    }
}

/// A step of that graph: graph, thread, begin, end, status, nodes, one time, no captures.
fn step() -> Vec<u8> {
    let mut payload = [7u32, 1].iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    payload.extend([10u64, 20].iter().flat_map(|value| value.to_le_bytes()));
    payload.extend([0u32, 1, 1].iter().flat_map(|value| value.to_le_bytes()));
    payload.extend(15u64.to_le_bytes());
    payload.extend(0u32.to_le_bytes());
    payload
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
    assert_eq!((rows, access.address, access.symbol.as_str()), (6, 0x20_000, "ADD"));
}
