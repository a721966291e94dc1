//! Several processes of one run: the same addresses, other memory; and phases by the graphs alone.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_events::Phase;
use dwell_events::engine::EngineEvent;
use dwell_label::{Labelled, Labeller, Output};
use dwell_records::{Buffer, Frame, Graph, Hello, Kind, NONE, TensorShape, Unit, ValueType, WIRE_VERSION};

const USAGE_COMPUTE: u8 = 2;

fn tensor(name: &str, op: u16, place: u32, sources: Vec<u32>) -> TensorShape {
    TensorShape {
        name: name.to_owned(),
        value_type: 0,
        op,
        ne: [8, 4, 1, 1],
        nb: [4, 32, 128, 128],
        address: 0x10_000 * u64::from(place + 1),
        root: place,
        buffer: 0,
        op_params: [0; 5],
        sources,
    }
}

/// A tensor times a number, into another one.
fn graph() -> Vec<u8> {
    let buffer =
        Buffer { base: 0x1000, size_bytes: 1 << 20, usage: USAGE_COMPUTE, is_host: true, name: "CPU".to_owned() };
    let graph = Graph {
        id: 7,
        buffers: vec![buffer],
        types: vec![ValueType { name: "f32".to_owned(), block_values: 1, block_bytes: 4 }],
        op_names: vec!["NONE".to_owned(), "SCALE".to_owned()],
        tensors: vec![tensor("in", 0, 0, vec![]), tensor("out", 1, 1, vec![0])],
        units: vec![Unit { node: 1, fused: NONE }],
        captures: vec![],
        stamped_units: vec![0],
    };
    graph.encode()
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

fn hello(pid: u32, wire_version: u16) -> Vec<u8> {
    let hello = Hello {
        wire_version,
        pid,
        resolution: 2,
        way_in: "preloaded".to_owned(),
        program: "/usr/bin/python3".to_owned(),
    };
    hello.encode()
}

/// Labels records of processes, each at the next time.
fn label(records: &[(u8, Kind, Vec<u8>)]) -> (Labelled, u64) {
    let (mut labeller, mut out) = (Labeller::new(&[]), Output::new("run"));
    for (time_ns, (process, kind, payload)) in (1..).zip(records) {
        labeller.frame_of(*process, &Frame { kind: *kind as u16, sequence: 0, time_ns, payload }, &mut out);
    }
    let labelled = labeller.finish(&mut out);
    (labelled, out.trace.total_rows())
}

#[test]
fn two_processes_with_the_same_addresses_have_regions_of_their_own() {
    let records = [
        (0, Kind::Hello, hello(100, WIRE_VERSION)),
        (0, Kind::Graph, graph()),
        (1, Kind::Hello, hello(200, WIRE_VERSION)),
        (0, Kind::Step, step()),
        (1, Kind::Graph, graph()),
        (1, Kind::Step, step()),
        (1, Kind::Step, step()),
    ];
    let (labelled, rows) = label(&records);
    assert_eq!((rows, labelled.graphs, labelled.steps), (6, 2, 3));
    let mut regions: Vec<(u64, &str, u64)> =
        labelled.regions.iter().map(|row| (row.address, row.tensor.as_str(), row.access_count)).collect();
    regions.sort_unstable();
    let second = 1 << 56;
    let expected =
        [(0x10_000, "in", 1), (0x20_000, "out", 1), (second | 0x10_000, "in", 2), (second | 0x20_000, "out", 2)];
    assert_eq!(regions, expected);
    let processes: Vec<(u8, u32)> = labelled.processes.iter().map(|process| (process.process, process.pid)).collect();
    assert_eq!(processes, [(0, 100), (1, 200)]);
}

#[test]
fn a_process_whose_records_cannot_be_read_does_not_silence_the_others() {
    let records = [
        (1, Kind::Hello, hello(200, WIRE_VERSION + 1)),
        (1, Kind::Graph, graph()),
        (0, Kind::Graph, graph()),
        (0, Kind::Step, step()),
        (1, Kind::Step, step()),
    ];
    let (labelled, rows) = label(&records);
    assert_eq!((rows, labelled.graphs), (2, 1));
    assert!(labelled.outcome.refused.unwrap().contains("version"));
}

#[test]
fn without_a_word_of_the_engine_loading_lasts_until_the_first_graph() {
    let ended = serde_json::to_vec(&EngineEvent::PhaseBegins { phase: Phase::Teardown }).unwrap();
    let status = EngineEvent::ProgramEnded { exit_code: None, exit_signal: Some(9) };
    let records = [
        (0, Kind::Hello, hello(100, WIRE_VERSION)),
        (0, Kind::Graph, graph()),
        (0, Kind::Step, step()),
        (0, Kind::Engine, ended),
        (0, Kind::Engine, serde_json::to_vec(&status).unwrap()),
    ];
    let (labelled, _) = label(&records);
    let phases: Vec<_> = labelled.phases.iter().map(|span| (span.phase, span.begin_ns, span.end_ns)).collect();
    assert_eq!(phases, [(Phase::WeightLoad, 1, 2), (Phase::Generation, 2, 4), (Phase::Teardown, 4, 5)]);
    let server = labelled.outcome.server.unwrap();
    assert_eq!((server.exit_code, server.exit_signal), (None, Some(9)));
}
