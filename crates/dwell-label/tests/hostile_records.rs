//! Records that nobody should write: the labeller counts them as lost and goes on.

use dwell_label::{Labeller, Output};
use dwell_records::testing::{GraphBuilder, Memory};
use dwell_records::{CaptureForm, Frame, Graph, Kind, split_frame};
use proptest::prelude::*;

/// A cache, row numbers, and a store into the one at the other.
fn graph() -> Graph {
    let mut graph = GraphBuilder::new(7);
    let cache = graph.leaf("cache_k_l0", "f32", [8, 4], Memory::Any);
    let indices = graph.leaf("indices", "f32", [8, 4], Memory::Any);
    graph.op_into("SET_ROWS", cache, &[cache, indices]);
    graph.capture(indices, CaptureForm::Indices);
    graph.build()
}

#[test]
fn a_graph_comes_back_from_its_bytes() {
    let graph = graph();
    assert_eq!(Graph::decode(&graph.encode()), Ok(graph));
}

#[test]
fn an_index_that_points_outside_the_graph_is_refused() {
    let mut graph = graph();
    graph.tensors[2].sources = vec![0, 99];
    assert!(Graph::decode(&graph.encode()).is_err());
}

#[test]
fn a_step_of_an_unknown_graph_is_counted_as_lost() {
    let mut labeller = Labeller::new(&[]);
    let mut out = Output::new("run");
    let payload = [0u8; 40];
    labeller.frame(&Frame { kind: Kind::Step as u16, sequence: 0, time_ns: 1, payload: &payload }, &mut out);
    let labelled = labeller.finish(&mut out);
    let losses: Vec<_> = labelled.loss.iter().map(|row| (row.kind.name(), row.count, row.bytes)).collect();
    assert_eq!(losses, [("undecodable_records", 1, Some(40))]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_bytes_make_the_labeller_panic(kind in 0u16..8, payload in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut labeller = Labeller::new(&[]);
        let mut out = Output::new("run");
        labeller.frame(&Frame { kind, sequence: 0, time_ns: 1, payload: &payload }, &mut out);
        labeller.finish(&mut out);
    }

    #[test]
    fn no_damage_to_a_graph_makes_the_labeller_panic(
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
        step in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut payload = graph().encode();
        let at = at.index(payload.len());
        payload[at] = value;
        let mut labeller = Labeller::new(&[]);
        let mut out = Output::new("run");
        labeller.frame(&Frame { kind: Kind::Graph as u16, sequence: 0, time_ns: 1, payload: &payload }, &mut out);
        let mut step_payload = 7u32.to_le_bytes().to_vec();
        step_payload.extend(step);
        labeller.frame(&Frame { kind: Kind::Step as u16, sequence: 1, time_ns: 2, payload: &step_payload }, &mut out);
        labeller.finish(&mut out);
    }

    #[test]
    fn no_bytes_make_the_frame_splitter_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut rest = &bytes[..];
        while let Ok(Some((_, after))) = split_frame(rest) {
            rest = after;
        }
    }
}
