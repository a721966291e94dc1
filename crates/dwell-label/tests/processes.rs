//! Several processes of one run: the same addresses, other memory; and phases by the graphs alone.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use dwell_events::engine::EngineEvent;
use dwell_events::schema::trace::TraceColumns;
use dwell_events::{OpType, Phase};
use dwell_label::{FileTensor, Labelled, Labeller, Output};
use dwell_records::testing::{GraphBuilder, Memory, SmallModel};
use dwell_records::{Fork, Frame, Hello, Kind, Placement, Refusal, Step, WIRE_VERSION, WeightPlaced};

/// A tensor times a number, into another one.
fn graph() -> Vec<u8> {
    let mut graph = GraphBuilder::new(7);
    let input = graph.leaf("in", "f32", [8, 4], Memory::Compute);
    graph.op("SCALE", "out", [8, 4], &[input]);
    graph.build().encode()
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

fn hello(pid: u32, wire_version: u16) -> Vec<u8> {
    hello_of(pid, wire_version, None)
}

fn hello_of(pid: u32, wire_version: u16, fork: Option<Fork>) -> Vec<u8> {
    let hello = Hello {
        wire_version,
        pid,
        resolution: 2,
        way_in: "preloaded".to_owned(),
        program: "/usr/bin/python3".to_owned(),
        fork,
    };
    hello.encode()
}

fn forked(pid: u32, parent_pid: u32, time_ns: u64) -> Vec<u8> {
    hello_of(pid, WIRE_VERSION, Some(Fork { parent_pid, time_ns }))
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
        (1, Kind::Hello, hello(200, WIRE_VERSION)),
        (0, Kind::Hello, hello(100, WIRE_VERSION)),
        (0, Kind::Graph, graph()),
        (0, Kind::Step, step()),
        (1, Kind::Graph, graph()),
        (1, Kind::Step, step()),
        (1, Kind::Step, step()),
    ];
    let (labelled, rows) = label(&records);
    assert_eq!((rows, labelled.graphs, labelled.steps), (9, 2, 3));
    let mut regions: Vec<(u64, &str, u64)> =
        labelled.regions.iter().map(|row| (row.address, row.tensor.as_str(), row.access_count)).collect();
    regions.sort_unstable();
    let second = 1 << 56;
    let expected = [
        (0x300_0000, "in", 2),
        (0x300_1000, "out", 1),
        (second | 0x300_0000, "in", 4),
        (second | 0x300_1000, "out", 2),
    ];
    assert_eq!(regions, expected);
    let processes: Vec<(u8, u32)> = labelled.processes.iter().map(|process| (process.process, process.pid)).collect();
    assert_eq!(processes, [(0, 100), (1, 200)], "by number, not by arrival");
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
fn a_process_that_becomes_another_program_has_the_name_of_that() {
    let mut became = Hello::decode(&hello(100, WIRE_VERSION)).unwrap();
    became.program = "/usr/bin/llama-cli".to_owned();
    let records =
        [(0, Kind::Hello, hello(100, WIRE_VERSION)), (0, Kind::Graph, graph()), (0, Kind::Hello, became.encode())];
    let (labelled, _) = label(&records);
    let names: Vec<_> = labelled.processes.iter().map(|process| (process.pid, process.program.as_str())).collect();
    assert_eq!(names, [(100, "/usr/bin/llama-cli")]);
}

#[test]
fn a_library_that_is_left_alone_does_not_silence_another_one_of_its_process() {
    let reason = "another layout".to_owned();
    let records = [
        (0, Kind::Hello, hello(100, WIRE_VERSION)),
        (0, Kind::Refusal, Refusal { reason: reason.clone() }.encode()),
        (0, Kind::Graph, graph()),
        (0, Kind::Step, step()),
    ];
    let (labelled, rows) = label(&records);
    assert_eq!((rows, labelled.steps, labelled.outcome.refused), (3, 1, Some(reason)));
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

/// What the addresses of process 1 have beside those of process 0.
const SECOND: u64 = 1 << 56;

/// Where the table of words lies in the model file.
const FILE_OFFSET: u64 = 640;

/// Labels records of processes of the small model, each with its time.
fn label_model(records: &[(u8, u64, Kind, Vec<u8>)]) -> (Labelled, Output) {
    let file = [FileTensor { name: "token_embd.weight".to_owned(), file_offset: FILE_OFFSET }];
    let (mut labeller, mut out) = (Labeller::new(&file), Output::new("run"));
    for (process, time_ns, kind, payload) in records {
        let frame = Frame { kind: *kind as u16, sequence: 0, time_ns: *time_ns, payload };
        labeller.frame_of(*process, &frame, &mut out);
    }
    (labeller.finish(&mut out), out)
}

fn placed(model: &SmallModel) -> Vec<u8> {
    let table = model.tensor("token_embd.weight");
    let (name, buffer) = (table.name.clone(), "CPU_Mapped".to_owned());
    let size_bytes = SmallModel::WORDS as u64 * SmallModel::ROW_BYTES;
    WeightPlaced { placement: Placement::Mapped, address: table.address, size_bytes, name, buffer }.encode()
}

/// A parent that maps one weight, reads the other, and computes two tokens; it forks a child after them and computes one
/// more. The child computes its own third token.
fn fork_after_two_tokens(model: &SmallModel) -> Vec<(u8, u64, Kind, Vec<u8>)> {
    vec![
        (0, 1, Kind::Hello, hello(100, WIRE_VERSION)),
        (0, 5, Kind::WeightPlaced, placed(model)),
        (0, 20, Kind::Graph, model.graph.encode()),
        (0, 30, Kind::Step, model.step(0, 7, 22..30).encode()),
        (0, 40, Kind::Step, model.step(1, 9, 32..40).encode()),
        // The child says hello with its first graph, and tells of the time at which it was forked.
        (1, 70, Kind::Hello, forked(200, 100, 50)),
        (0, 60, Kind::Step, model.step(2, 9, 52..60).encode()),
        (1, 71, Kind::Graph, model.graph.encode()),
        (1, 80, Kind::Step, model.step(2, 3, 72..80).encode()),
    ]
}

/// Time, tensor and symbol of the rows that put weights into memory.
fn weight_stores(out: &mut Output) -> Vec<(u64, u64, String)> {
    let batch = out.trace.finish_batch();
    let columns = TraceColumns::of(&batch).unwrap();
    let rows = (0..columns.len()).map(|row| columns.row(row).unwrap());
    let stores = rows.filter(|row| row.op_type == OpType::Store && row.region_type.name() == "weight");
    stores.map(|row| (row.timestamp_ns, row.address >> 56, row.symbol.to_owned())).collect()
}

#[test]
fn a_forked_process_has_its_weights_from_its_parent_and_stores_none() {
    let model = SmallModel::new();
    let (labelled, mut out) = label_model(&fork_after_two_tokens(&model));
    let weights: Vec<_> = labelled.regions.iter().filter(|row| row.region_type.name() == "weight").collect();
    let of_process = |process: u64| {
        let of_it = weights.iter().filter(move |row| row.address >> 56 == process);
        of_it.map(|row| (row.tensor.as_str(), row.address % SECOND, row.origin, row.file_offset)).collect::<Vec<_>>()
    };
    let expected = [("blk.0.attn_k.weight", "copied", None), ("token_embd.weight", "mapped", Some(FILE_OFFSET))];
    for process in [0, 1] {
        let mut found = of_process(process);
        found.sort_unstable();
        let expected = expected.map(|(name, origin, offset)| (name, model.tensor(name).address, origin, offset));
        assert_eq!(found, expected, "process {process}");
    }
    assert!(weights.iter().filter(|row| row.address >= SECOND).all(|row| row.bytes_written == 0));
    assert_eq!(weight_stores(&mut out), [(5, 0, "mmap".to_owned()), (20, 0, "read".to_owned())]);
}

#[test]
fn weights_that_a_parent_placed_after_the_fork_are_not_inherited() {
    let model = SmallModel::new();
    let records = [
        (0, 1, Kind::Hello, hello(100, WIRE_VERSION)),
        (1, 70, Kind::Hello, forked(200, 100, 4)),
        (0, 5, Kind::WeightPlaced, placed(&model)),
        (0, 20, Kind::Graph, model.graph.encode()),
        (1, 71, Kind::Graph, model.graph.encode()),
        (1, 80, Kind::Step, model.step(0, 3, 72..80).encode()),
    ];
    let (_, mut out) = label_model(&records);
    let read = |time_ns, process| (time_ns, process, "read".to_owned());
    // The child read its own, and had done so when it first computed, not when its parent had.
    assert_eq!(weight_stores(&mut out), [(5, 0, "mmap".to_owned()), read(20, 0), read(71, 1), read(71, 1)]);
}

#[test]
fn a_child_of_a_child_has_the_weights_of_the_first() {
    let model = SmallModel::new();
    let mut records = fork_after_two_tokens(&model);
    // Its parent said hello and computed nothing.
    records.truncate(6);
    records.extend([
        (2, 90, Kind::Hello, forked(300, 200, 85)),
        (2, 91, Kind::Graph, model.graph.encode()),
        (2, 99, Kind::Step, model.step(2, 3, 92..99).encode()),
    ]);
    let (labelled, mut out) = label_model(&records);
    assert_eq!(weight_stores(&mut out).len(), 2);
    let table =
        labelled.regions.iter().find(|row| row.tensor == "token_embd.weight" && row.address >> 56 == 2).unwrap();
    assert_eq!((table.origin, table.file_offset), ("mapped", Some(FILE_OFFSET)));
    assert_eq!(inherited_blocks(&out.blocks.finish_batch()), [(85, 1), (85, 1)]);
}

/// Begin and number of reads of the blocks that are inherited.
fn inherited_blocks(blocks: &RecordBatch) -> Vec<(i64, i64)> {
    let of = |column: &str| blocks[column].as_primitive::<Int64Type>().values().to_vec();
    let causes = words_of(blocks, "begin_cause");
    let rows = of("write_ns").into_iter().zip(of("total_reads")).zip(causes);
    rows.filter(|(_, cause)| cause == "inherited").map(|(row, _)| row).collect()
}

/// The values of a column of text.
fn words_of(batch: &RecordBatch, column: &str) -> Vec<String> {
    let words = batch[column].as_dictionary::<arrow_array::types::Int32Type>();
    let values = words.values().as_string::<i32>();
    words.keys().values().iter().map(|&key| values.value(key as usize).to_owned()).collect()
}

#[test]
fn kv_blocks_that_live_at_a_fork_have_lives_in_the_child_too() {
    let model = SmallModel::new();
    let (_, mut out) = label_model(&fork_after_two_tokens(&model));
    let blocks = out.blocks.finish_batch();
    // Three tokens of the parent; two of them, and one of its own, in the child.
    assert_eq!(blocks.num_rows(), 6);
    assert_eq!(inherited_blocks(&blocks), [(50, 1), (50, 1)]);
    let addresses = blocks["address"].as_primitive::<Int64Type>().values().to_vec();
    let cells = |process: i64| addresses.iter().filter(|address| *address >> 56 == process).count();
    assert_eq!((cells(0), cells(1)), (3, 3));
}

#[test]
fn a_block_that_the_child_writes_anew_ends_the_inherited_life() {
    let model = SmallModel::new();
    let mut records = fork_after_two_tokens(&model);
    records.push((1, 90, Kind::Step, model.step(0, 3, 82..90).encode()));
    let (_, mut out) = label_model(&records);
    let blocks = out.blocks.finish_batch();
    assert_eq!(blocks.num_rows(), 7);
    let ends = words_of(&blocks, "end_cause");
    let begins = words_of(&blocks, "begin_cause");
    let overwritten: Vec<&String> =
        ends.iter().zip(&begins).filter(|(end, _)| *end == "overwritten").map(|(_, begin)| begin).collect();
    assert_eq!(overwritten, ["inherited"]);
}
