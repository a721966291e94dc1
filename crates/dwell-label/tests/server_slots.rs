//! Requests to a server that computes several at once and does not say which: tokens, steps, KV cells, phases.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use dwell_events::engine::EngineEvent;
use dwell_events::schema::tokens::TokenRow;
use dwell_events::schema::trace::TraceColumns;
use dwell_events::server::{RequestTimings, ServerDescription};
use dwell_events::{Basis, Phase, PhaseSpan};
use dwell_label::{Labelled, Labeller, Output};
use dwell_records::testing::{GraphBuilder, Memory, RecordBuilder};
use dwell_records::{CaptureForm, Graph, IndexRuns, Step};

const WIDTH: i64 = 4;
const CELLS: i64 = 16;
/// Bytes of a cell: the key of a token, in one layer.
const CELL: u64 = 4 * WIDTH as u64;

/// A graph that stores the keys of some tokens and picks some results; its number says how many of each.
fn graph(tokens: usize, outputs: usize, streams: i64) -> Graph {
    let mut graph = GraphBuilder::new(graph_id(tokens, outputs));
    let count = tokens as i64;
    let cache = graph.leaf("cache_k_l0", "f32", [WIDTH, CELLS], Memory::Any);
    let table = graph.leaf("token_embd.weight", "f32", [WIDTH, 32], Memory::Weights);
    let ids = graph.leaf("inp_tokens", "i32", [count, 1], Memory::Compute);
    let positions = graph.leaf("inp_pos", "i32", [count, 1], Memory::Compute);
    let cells = graph.leaf("k_idxs", "i64", [count, 1], Memory::Compute);
    let embedded = graph.op("GET_ROWS", "embd", [WIDTH, count], &[table, ids]);
    let rotated = graph.op("ROPE", "Kcur_rope-0", [WIDTH, count], &[embedded, positions]);
    graph.op_into("SET_ROWS", cache, &[rotated, cells]);
    let picked = graph.leaf("leaf_7", "i32", [outputs as i64, 1], Memory::Compute);
    graph.op("GET_ROWS", "picked", [WIDTH, outputs as i64], &[rotated, picked]);
    for tensor in [ids, positions, cells, picked] {
        graph.capture(tensor, CaptureForm::Indices);
    }
    let mut graph = graph.build();
    graph.tensors[cache as usize].ne = [WIDTH, CELLS / streams, streams, 1];
    graph
}

fn graph_id(tokens: usize, outputs: usize) -> u32 {
    (tokens * 10 + outputs) as u32
}

/// A computation of tokens at positions, in cells, with the rows whose result is picked.
fn step(begin_ns: u64, tokens: &[(i64, i64)], outputs: &[i64]) -> Step {
    let column = |of: fn(&(i64, i64)) -> i64| IndexRuns::encode(&tokens.iter().map(of).collect::<Vec<_>>());
    Step {
        graph: graph_id(tokens.len(), outputs.len()),
        thread: 1,
        begin_ns,
        end_ns: begin_ns + 4,
        status: 0,
        nodes_done: 4,
        times_ns: (begin_ns + 1..=begin_ns + 4).collect(),
        captures: vec![column(|_| 7), column(|token| token.0), column(|token| token.1), IndexRuns::encode(outputs)],
        work: Vec::new(),
    }
}

/// What a program recorded and its driver told, in the order of their times.
struct Story {
    records: RecordBuilder,
    graphs: Vec<u32>,
    streams: i64,
}

impl Story {
    fn new(streams: i64) -> Self {
        Self { records: RecordBuilder::new().hello(1), graphs: Vec::new(), streams }
    }

    fn tell(mut self, time_ns: u64, event: EngineEvent) -> Self {
        self.records = self.records.engine(time_ns, &serde_json::to_vec(&event).unwrap());
        self
    }

    fn phase(self, time_ns: u64, phase: Phase) -> Self {
        self.tell(time_ns, EngineEvent::PhaseBegins { phase })
    }

    fn slots(self, time_ns: u64, slots: u32) -> Self {
        let server = ServerDescription { slots: Some(slots), ..ServerDescription::default() };
        self.tell(time_ns, EngineEvent::Serving { server: Box::new(server) })
    }

    fn asks(self, time_ns: u64, sequence: i32) -> Self {
        self.tell(time_ns, EngineEvent::RequestBegins { request: 0, sequence })
    }

    fn token(self, time_ns: u64, sequence: i32, step: u32) -> Self {
        self.tell(time_ns, EngineEvent::Token { step, sequence, position: None, id: None, text: "x".to_owned() })
    }

    fn answered(self, time_ns: u64, sequence: i32, prompt: u64, generated: u64) -> Self {
        let timings = RequestTimings {
            prompt_tokens: Some(prompt),
            generated_tokens: Some(generated),
            ..RequestTimings::default()
        };
        self.tell(time_ns, EngineEvent::RequestEnds { request: 0, sequence, timings })
    }

    fn computes(mut self, begin_ns: u64, tokens: &[(i64, i64)], outputs: &[i64]) -> Self {
        let id = graph_id(tokens.len(), outputs.len());
        if !self.graphs.contains(&id) {
            self.graphs.push(id);
            self.records = self.records.graph(begin_ns, &graph(tokens.len(), outputs.len(), self.streams));
        }
        self.records = self.records.step(begin_ns + 4, &step(begin_ns, tokens, outputs));
        self
    }

    fn end(self) -> (Labelled, Output) {
        let (mut labeller, mut out) = (Labeller::new(&[]), Output::new("run"));
        self.records.frames().for_each(|frame| labeller.frame(&frame, &mut out));
        (labeller.finish(&mut out), out)
    }
}

/// Step and KV cells of the tokens of a sequence, in their order.
fn told(rows: &[TokenRow], sequence: i32) -> Vec<(u32, u64)> {
    let of_it = rows.iter().filter(|row| row.sequence == sequence);
    of_it.map(|row| (row.step, row.kv_bytes.unwrap() / CELL)).collect()
}

/// Step and phase of every computation, by its time.
fn steps(out: &mut Output) -> Vec<(u64, Option<u32>, &'static str)> {
    let batch = out.trace.finish_batch();
    let columns = TraceColumns::of(&batch).unwrap();
    let rows = (0..columns.len()).map(|row| columns.row(row).unwrap()).filter(|row| row.symbol == "SET_ROWS");
    let mut found: Vec<_> =
        rows.map(|row| (row.timestamp_ns - 3, row.step, row.phase.map_or("", Phase::name))).collect();
    found.dedup();
    found
}

/// When the lives of KV blocks ended, and why; without those that lived to the end.
fn ends(out: &mut Output) -> Vec<(i64, String, i32)> {
    let blocks = out.blocks.finish_batch();
    let causes = blocks["end_cause"].as_dictionary::<Int32Type>();
    let names = causes.values().as_string::<i32>();
    let evicted = blocks["evict_ns"].as_primitive::<Int64Type>();
    let positions = blocks["first_position"].as_primitive::<Int32Type>();
    let rows = (0..blocks.num_rows()).map(|row| {
        let cause = names.value(causes.keys().value(row) as usize).to_owned();
        (evicted.value(row), cause, positions.value(row))
    });
    rows.filter(|(_, cause, _)| cause != "teardown").collect()
}

/// Two answers: the prompt of the second is computed together with a token of the first, the last alone.
fn side_by_side(streams: i64, second: i64) -> Story {
    Story::new(streams)
        .phase(2, Phase::WeightLoad)
        // The runtime's own warm-up, which it forgets.
        .computes(5, &[(0, 0), (1, 1)], &[1])
        .slots(15, 2)
        .phase(20, Phase::Generation)
        .asks(21, 0)
        .asks(22, 1)
        .computes(30, &[(0, 0), (1, 1), (2, 2)], &[2])
        .computes(40, &[(3, 3), (0, second), (1, second + 1)], &[0, 2])
        .computes(50, &[(4, 4), (2, second + 2)], &[0, 1])
        .computes(60, &[(3, second + 3)], &[0])
        // They arrive when they like.
        .token(61, 0, 0)
        .token(62, 1, 0)
        .token(63, 0, 1)
        .token(64, 0, 2)
        .token(65, 1, 1)
        .answered(66, 0, 3, 3)
        .token(67, 1, 2)
        .answered(68, 1, 2, 3)
}

#[test]
fn every_token_has_the_step_and_the_cells_of_its_own_sequence() {
    for (streams, second) in [(2, 8), (1, 5)] {
        let (labelled, mut out) = side_by_side(streams, second).end();
        assert_eq!(told(&out.tokens, 0), [(0, 3), (1, 6), (2, 8)], "{streams} streams");
        assert_eq!(told(&out.tokens, 1), [(0, 6), (2, 8), (3, 9)], "{streams} streams");
        let indices: Vec<u32> = out.tokens.iter().map(|row| row.token_index).collect();
        assert_eq!(indices, [0, 1, 2, 3, 4, 5], "in the order of their arrival");
        assert_eq!(labelled.decoded_tokens, 4);
        let numbers: Vec<_> = steps(&mut out).into_iter().map(|(_, step, _)| step).collect();
        assert_eq!(numbers, [Some(0), Some(0), Some(1), Some(2), Some(3)]);
    }
}

#[test]
fn a_computation_begins_before_its_token_arrives() {
    let (_, out) = side_by_side(2, 8).end();
    let times: Vec<_> = out.tokens.iter().map(|row| (row.sequence, row.begin_ns, row.end_ns)).collect();
    assert_eq!(times, [(0, 30, 61), (1, 40, 62), (0, 40, 63), (0, 50, 64), (1, 50, 65), (1, 60, 67)]);
}

#[test]
fn the_same_prompt_in_two_slots_is_told_apart_by_slot() {
    // Both prompts have two tokens and both answers two; slot 1 was computed first.
    let (_, out) = Story::new(2)
        .slots(15, 2)
        .phase(20, Phase::Generation)
        .asks(21, 0)
        .asks(22, 1)
        .computes(30, &[(0, 8), (1, 9)], &[1])
        .computes(40, &[(2, 10)], &[0])
        .computes(50, &[(0, 0), (1, 1)], &[1])
        .computes(60, &[(2, 2)], &[0])
        .token(71, 0, 0)
        .token(72, 1, 0)
        .token(73, 0, 1)
        .token(74, 1, 1)
        .answered(75, 0, 2, 2)
        .answered(76, 1, 2, 2)
        .end();
    assert_eq!(told(&out.tokens, 0), [(0, 5), (2, 6)]);
    assert_eq!(told(&out.tokens, 1), [(0, 2), (1, 3)]);
}

#[test]
fn a_token_that_came_before_a_computation_is_not_of_it() {
    // Nothing but the times tells which slot answers which request.
    let (_, out) = Story::new(2)
        .slots(15, 2)
        .phase(20, Phase::Generation)
        .asks(21, 0)
        .asks(22, 1)
        .computes(30, &[(0, 8), (1, 9)], &[1])
        .token(35, 0, 0)
        .computes(40, &[(2, 10)], &[0])
        .token(45, 0, 1)
        .answered(46, 0, 2, 2)
        .computes(50, &[(0, 0), (1, 1)], &[1])
        .computes(60, &[(2, 2)], &[0])
        .token(72, 1, 0)
        .token(74, 1, 1)
        .answered(76, 1, 2, 2)
        .end();
    assert_eq!(told(&out.tokens, 0), [(0, 2), (1, 3)]);
    assert_eq!(told(&out.tokens, 1), [(0, 5), (2, 6)]);
}

#[test]
fn a_prompt_that_is_cut_into_pieces_is_no_answer() {
    let (labelled, mut out) = Story::new(1)
        .slots(15, 1)
        .phase(20, Phase::Generation)
        .asks(21, 0)
        .computes(30, &[(0, 0), (1, 1)], &[])
        .computes(40, &[(2, 2)], &[0])
        .computes(50, &[(3, 3)], &[0])
        .token(61, 0, 0)
        .token(62, 0, 1)
        .answered(63, 0, 3, 2)
        .end();
    let numbers: Vec<_> = steps(&mut out).into_iter().map(|(_, step, _)| step).collect();
    assert_eq!(numbers, [Some(0), Some(0), Some(1)]);
    assert_eq!(told(&out.tokens, 0), [(0, 3), (1, 4)]);
    assert_eq!(labelled.outcome.requests[0].reused_tokens, Some(0));
}

#[test]
fn cells_that_a_server_gives_up_are_gone_and_reused_ones_are_marked() {
    // The second prompt has the first three tokens of the first, and one more.
    let (labelled, mut out) = Story::new(1)
        .slots(15, 1)
        .phase(20, Phase::Generation)
        .asks(21, 0)
        .computes(30, &[(0, 0), (1, 1), (2, 2), (3, 3)], &[3])
        .computes(40, &[(4, 4)], &[0])
        .computes(50, &[(5, 5)], &[0])
        .token(61, 0, 0)
        .token(62, 0, 1)
        .token(63, 0, 2)
        .answered(64, 0, 4, 3)
        .asks(70, 0)
        .computes(80, &[(3, 3)], &[0])
        .computes(90, &[(4, 4)], &[0])
        .token(95, 0, 0)
        .token(96, 0, 1)
        .answered(97, 0, 4, 2)
        .end();
    assert_eq!(told(&out.tokens, 0), [(0, 4), (1, 5), (2, 6), (0, 4), (3, 5)]);
    let removed = |position| (80, "removed".to_owned(), position);
    assert_eq!(ends(&mut out), [removed(3), removed(4), removed(5)]);
    let reused: Vec<_> = labelled.outcome.requests.iter().map(|one| (one.reused_tokens, one.reused_basis)).collect();
    assert_eq!(reused, [(Some(0), Some(Basis::Exact)), (Some(3), Some(Basis::Exact))]);
    assert_eq!(labelled.outcome.requests[1].computed_prompt_tokens(), Some(1));
}

#[test]
fn a_prompt_in_one_slot_leaves_the_cells_of_another() {
    let (_, mut out) = Story::new(2)
        .slots(15, 2)
        .phase(20, Phase::Generation)
        .asks(21, 0)
        .computes(30, &[(0, 0), (1, 1)], &[1])
        .token(41, 0, 0)
        .answered(42, 0, 2, 1)
        .asks(50, 1)
        .computes(60, &[(0, 8), (1, 9)], &[1])
        .token(71, 1, 0)
        .answered(72, 1, 2, 1)
        .end();
    assert_eq!(told(&out.tokens, 1), [(0, 4)]);
    assert_eq!(ends(&mut out), []);
}

#[test]
fn what_dwell_asks_for_itself_has_no_step() {
    let (labelled, mut out) = Story::new(1)
        .phase(2, Phase::WeightLoad)
        .slots(10, 1)
        .phase(20, Phase::Setup)
        .computes(30, &[(0, 0), (1, 1)], &[1])
        .computes(40, &[(2, 2)], &[0])
        .phase(50, Phase::Generation)
        .asks(51, 0)
        .computes(60, &[(0, 0), (1, 1)], &[1])
        .computes(70, &[(2, 2)], &[0])
        .token(81, 0, 0)
        .token(82, 0, 1)
        .answered(83, 0, 2, 2)
        .end();
    let expected = [(30, None, "setup"), (40, None, "setup"), (60, Some(0), "generation"), (70, Some(1), "generation")];
    assert_eq!(steps(&mut out), expected);
    assert_eq!(told(&out.tokens, 0), [(0, 2), (1, 3)]);
    assert_eq!(labelled.decoded_tokens, 1);
}

#[test]
fn a_program_that_is_started_with_its_request_generates_from_its_prompt_on() {
    // It warms up and computes before its driver sees that the model is loaded.
    let (labelled, mut out) = Story::new(1)
        .phase(2, Phase::WeightLoad)
        .asks(3, 0)
        .computes(10, &[(0, 0), (1, 1)], &[1])
        .computes(20, &[(0, 0), (1, 1), (2, 2)], &[2])
        .computes(30, &[(3, 3)], &[0])
        .phase(35, Phase::Generation)
        .token(36, 0, 0)
        .token(37, 0, 1)
        .answered(38, 0, 3, 2)
        .phase(40, Phase::Teardown)
        .end();
    let span = |phase, begin_ns, end_ns| PhaseSpan { phase, begin_ns, end_ns };
    let expected = [span(Phase::WeightLoad, 2, 20), span(Phase::Generation, 20, 40), span(Phase::Teardown, 40, 40)];
    assert_eq!(labelled.phases, expected);
    let numbered: Vec<_> = steps(&mut out).into_iter().map(|(_, step, phase)| (step, phase)).collect();
    assert_eq!(numbered, [(Some(0), "weight_load"), (Some(0), "generation"), (Some(1), "generation")]);
    assert_eq!(told(&out.tokens, 0), [(0, 3), (1, 4)], "the warm-up is forgotten");
    let request = labelled.outcome.requests[0];
    assert_eq!((request.begin_ns, request.first_token_ns), (20, Some(36)), "loading is no part of the wait");
}

#[test]
fn a_request_that_is_told_late_changes_nothing() {
    // Raw streams of versions that told of a request when their driver came to it.
    let (_, out) = Story::new(1)
        .phase(2, Phase::WeightLoad)
        .phase(15, Phase::Generation)
        .computes(20, &[(0, 0), (1, 1), (2, 2)], &[2])
        .computes(30, &[(3, 3)], &[0])
        .asks(35, 0)
        .computes(40, &[(4, 4)], &[0])
        .token(45, 0, 0)
        .token(46, 0, 1)
        .token(47, 0, 2)
        .answered(48, 0, 3, 3)
        .end();
    assert_eq!(told(&out.tokens, 0), [(0, 3), (1, 4), (2, 5)]);
}

#[test]
fn tokens_of_a_request_without_an_end_have_their_steps_too() {
    let (_, out) = Story::new(1)
        .phase(15, Phase::Generation)
        .asks(16, 0)
        .computes(20, &[(0, 0), (1, 1), (2, 2)], &[2])
        .computes(30, &[(3, 3)], &[0])
        .token(41, 0, 0)
        .token(42, 0, 1)
        .token(43, 0, 2)
        .end();
    // The last computation was not recorded any more.
    assert_eq!(told(&out.tokens, 0), [(0, 3), (1, 4), (2, 4)]);
}
