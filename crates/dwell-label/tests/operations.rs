//! Single operations whose kernels do not touch all of their operands: exactly these bytes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use dwell_events::OpType::{self, Load, Store};
use dwell_events::schema::trace::TraceColumns;
use dwell_label::{Labelled, Labeller, Output};
use dwell_records::testing::{GraphBuilder, Memory, RecordBuilder};
use dwell_records::{CaptureForm, Graph, IndexRuns, NONE, Step, VisibleCells};

/// Load or store, tensor, first byte in it, bytes.
type Access = (OpType, String, i64, u64);

/// Labels one computation of a graph that brings these values.
fn label(graph: &Graph, captures: Vec<Vec<u8>>) -> (Vec<Access>, Labelled) {
    let (accesses, labelled, _) = label_with_blocks(graph, captures);
    (accesses, labelled)
}

/// A recorder that does not tell of inputs: here it is about operations alone.
fn hello() -> RecordBuilder {
    RecordBuilder::new().hello_of_version(1, 1)
}

/// The same, with how often each block of the KV cache was read.
fn label_with_blocks(graph: &Graph, captures: Vec<Vec<u8>>) -> (Vec<Access>, Labelled, Vec<Option<i64>>) {
    let step = Step {
        graph: graph.id,
        thread: 1,
        begin_ns: 20,
        end_ns: 30,
        status: 0,
        nodes_done: graph.units.len() as u32,
        times_ns: vec![30; graph.units.len()],
        captures,
        work: Vec::new(),
    };
    let records = hello().graph(10, graph).step(30, &step);
    let (mut labeller, mut out) = (Labeller::new(&[]), Output::new("run"));
    records.frames().for_each(|frame| labeller.frame(&frame, &mut out));
    let labelled = labeller.finish(&mut out);
    let batch = out.trace.finish_batch();
    let columns = TraceColumns::of(&batch).unwrap();
    let address_of = |name: &str| graph.tensors.iter().find(|tensor| tensor.name == name).unwrap().address as i64;
    let access = |row: usize| {
        let row = columns.row(row).unwrap();
        (row.op_type, row.tensor.to_owned(), row.address as i64 - address_of(row.tensor), row.size_bytes)
    };
    let blocks = out.blocks.finish_batch();
    let reads = blocks.column_by_name("total_reads").unwrap().as_primitive::<Int64Type>().iter().collect();
    ((0..columns.len()).map(access).collect(), labelled, reads)
}

fn of<'a>(accesses: &'a [Access], op_type: OpType, tensor: &str) -> Vec<(i64, u64)> {
    let wanted = |access: &&'a Access| access.0 == op_type && access.1 == tensor;
    accesses.iter().filter(wanted).map(|access| (access.2, access.3)).collect()
}

fn counted(labelled: &Labelled, kind: &str) -> Option<(u64, Option<u64>)> {
    labelled.loss.iter().find(|row| row.kind.name() == kind).map(|row| (row.count, row.bytes))
}

#[test]
fn every_expert_of_every_token_names_a_row_of_the_one_table() {
    let mut graph = GraphBuilder::new(1);
    let input = graph.leaf("input", "f32", [4, 6], Memory::Compute);
    let table = graph.leaf("blk.0.ffn_up_exps.bias", "f32", [4, 8], Memory::Weights);
    let chosen = graph.leaf("chosen", "i32", [2, 3], Memory::Compute);
    graph.op("ADD_ID", "biased", [4, 6], &[input, table, chosen]);
    graph.capture(chosen, CaptureForm::Indices);
    // Two experts for each of three tokens.
    let (accesses, labelled) = label(&graph.build(), vec![IndexRuns::encode(&[7, 0, 3, 7, 4, 0])]);
    assert_eq!(of(&accesses, Load, "blk.0.ffn_up_exps.bias"), [(0, 16), (48, 32), (112, 16)]);
    assert_eq!(counted(&labelled, "rows_outside_tensor"), None);
}

#[test]
fn rows_are_gathered_plane_by_plane() {
    let mut graph = GraphBuilder::new(1);
    // Three tables of four rows, and two indices into each.
    let whole = graph.leaf("tables", "f32", [4, 12], Memory::Weights);
    let tables = graph.view(whole, 0, [4, 4, 3, 1], [4, 16, 64, 192]);
    let indices = graph.leaf("indices", "i32", [2, 3], Memory::Compute);
    graph.op("GET_ROWS", "gathered", [4, 6], &[tables, indices]);
    graph.capture(indices, CaptureForm::Indices);
    let (accesses, labelled) = label(&graph.build(), vec![IndexRuns::encode(&[0, 2, 3, 3, 1, 0])]);
    assert_eq!(of(&accesses, Load, "tables"), [(0, 16), (32, 16), (112, 48)]);
    assert_eq!(counted(&labelled, "rows_outside_tensor"), None);
}

#[test]
fn indices_of_one_plane_store_rows_of_all_planes() {
    let mut graph = GraphBuilder::new(1);
    let rows = graph.leaf("rows", "f32", [4, 6], Memory::Compute);
    let indices = graph.leaf("indices", "i64", [2, 1], Memory::Compute);
    let target = graph.leaf("target", "f32", [4, 12], Memory::Any);
    let stored = graph.op_into("SET_ROWS", target, &[rows, indices]);
    graph.capture(indices, CaptureForm::Indices);
    let mut graph = graph.build();
    let shape = &mut graph.tensors[stored as usize];
    (shape.ne, shape.nb) = ([4, 4, 3, 1], [4, 16, 64, 192]);
    let (accesses, _) = label(&graph, vec![IndexRuns::encode(&[3, 1])]);
    assert_eq!(of(&accesses, Store, "target"), [16, 48, 80, 112, 144, 176].map(|offset| (offset, 16)));
}

#[test]
fn a_row_outside_its_tensor_is_left_out_and_counted() {
    let mut graph = GraphBuilder::new(1);
    let table = graph.leaf("token_embd.weight", "f32", [4, 8], Memory::Weights);
    let ids = graph.leaf("inp_tokens", "i32", [2, 1], Memory::Compute);
    graph.op("GET_ROWS", "embd", [4, 2], &[table, ids]);
    graph.capture(ids, CaptureForm::Indices);
    let graph = graph.build();
    let (accesses, labelled) = label(&graph, vec![IndexRuns::encode(&[1, 8])]);
    assert_eq!(of(&accesses, Load, "token_embd.weight"), [(16, 16)]);
    assert_eq!(counted(&labelled, "rows_outside_tensor"), Some((1, Some(16))));
    let detail = labelled.loss.iter().find(|row| row.kind.name() == "rows_outside_tensor").unwrap().detail.clone();
    assert_eq!(detail, "operation GET_ROWS, tensor token_embd.weight");
    // Rows 7 and 8 are one range, half of it inside.
    let (accesses, labelled) = label(&graph, vec![IndexRuns::encode(&[7, 8])]);
    assert_eq!(of(&accesses, Load, "token_embd.weight"), [(112, 16)]);
    assert_eq!(counted(&labelled, "rows_outside_tensor"), Some((1, Some(16))));
}

#[test]
fn an_operation_without_values_is_not_computed() {
    let mut graph = GraphBuilder::new(1);
    let matrix = graph.leaf("output.weight", "f32", [4, 8], Memory::Weights);
    let input = graph.leaf("none", "f32", [4, 0], Memory::Compute);
    let factor = graph.leaf("output_norm.weight", "f32", [4, 1], Memory::Weights);
    let normed = graph.op("MUL", "normed", [4, 0], &[input, factor]);
    graph.op("MUL_MAT", "result_output", [8, 0], &[matrix, normed]);
    let (accesses, labelled) = label(&graph.build(), Vec::new());
    assert_eq!(accesses, []);
    assert_eq!(counted(&labelled, "generic_op_rule"), None);
}

#[test]
fn sorting_reads_its_result_after_it_was_stored() {
    let mut graph = GraphBuilder::new(1);
    let input = graph.leaf("probabilities", "f32", [8, 3], Memory::Compute);
    graph.op("ARGSORT", "order", [8, 3], &[input]);
    let (accesses, labelled) = label(&graph.build(), Vec::new());
    let access = |op_type, tensor: &str| (op_type, tensor.to_owned(), 0, 96);
    assert_eq!(accesses, [access(Load, "probabilities"), access(Store, "order"), access(Load, "order")]);
    assert_eq!(counted(&labelled, "generic_op_rule"), None);
}

#[test]
fn one_value_is_sorted_without_being_read() {
    let mut graph = GraphBuilder::new(1);
    let input = graph.leaf("probabilities", "f32", [1, 3], Memory::Compute);
    graph.op("ARGSORT", "order", [1, 3], &[input]);
    let (accesses, _) = label(&graph.build(), Vec::new());
    assert_eq!(accesses, [(Store, "order".to_owned(), 0, 12)]);
}

#[test]
fn values_that_are_part_of_the_keys_are_read_once() {
    let mut graph = GraphBuilder::new(1);
    let queries = graph.leaf("queries", "f32", [6, 1], Memory::Compute);
    let cache = graph.leaf("cache_k_l0", "f32", [6, 8], Memory::Any);
    let mask = graph.leaf("kq_mask", "f32", [8, 1], Memory::Compute);
    let cells = graph.leaf("cells", "i64", [1, 1], Memory::Compute);
    let rows = graph.leaf("rows", "f32", [6, 1], Memory::Compute);
    graph.op_into("SET_ROWS", cache, &[rows, cells]);
    let keys = graph.view(cache, 0, [6, 8, 1, 1], [4, 24, 192, 192]);
    let values = graph.view(cache, 0, [4, 8, 1, 1], [4, 24, 192, 192]);
    graph.op("FLASH_ATTN_EXT", "attention", [4, 1], &[queries, keys, values, mask]);
    graph.capture(cells, CaptureForm::Indices);
    graph.capture(mask, CaptureForm::VisibleCells);
    let visible = VisibleCells { cells: 8, words: vec![0b110] };
    let step = vec![IndexRuns::encode(&[1]), visible.encode()];
    let graph = graph.build();
    let (accesses, _, reads) = label_with_blocks(&graph, step);
    assert_eq!(of(&accesses, Load, "cache_k_l0"), [(24, 48)]);
    assert_eq!(reads, [Some(1)]);
}

#[test]
fn a_tensor_multiplied_with_itself_is_read_once_and_two_halves_are_two_rows() {
    let mut graph = GraphBuilder::new(1);
    let input = graph.leaf("input", "f32", [8, 1], Memory::Compute);
    let [gate, up] = [0, 16].map(|offset| graph.view(input, offset, [4, 1, 1, 1], [4, 16, 16, 16]));
    graph.op("MUL", "square", [8, 1], &[input, input]);
    graph.op("GLU", "gated", [4, 1], &[gate, up, NONE]);
    let (accesses, _) = label(&graph.build(), Vec::new());
    assert_eq!(of(&accesses, Load, "input"), [(0, 32), (0, 16), (16, 16)]);
}

/// A tensor with this shape, dense.
fn shaped(graph: &mut GraphBuilder, name: &str, ne: [i64; 4], memory: Memory) -> u32 {
    let whole = graph.leaf(name, "f32", [ne[0], ne[1] * ne[2] * ne[3]], memory);
    let mut nb = [4; 4];
    (1..4).for_each(|dim| nb[dim] = nb[dim - 1] * ne[dim - 1] as u64);
    graph.view(whole, 0, ne, nb)
}

/// A scan of two sequences, two heads of three values and a state of four values for each, with this many tokens each,
/// over a cache with five slots.
fn scan(tokens: i64, snapshots: i32) -> Graph {
    let mut graph = GraphBuilder::new(1);
    let states = shaped(&mut graph, "cache_s_l0", [4, 3, 2, 5], Memory::Any);
    let input = shaped(&mut graph, "x", [3, 2, tokens, 2], Memory::Compute);
    let steps = shaped(&mut graph, "dt", [2, tokens, 2, 1], Memory::Compute);
    let decay = graph.leaf("blk.0.ssm_a", "f32", [1, 2], Memory::Weights);
    let [b, c] = ["B", "C"].map(|name| shaped(&mut graph, name, [4, 1, tokens, 2], Memory::Compute));
    let slots = graph.leaf("s_copy", "i32", [2, 1], Memory::Compute);
    let values = 3 * 2 * tokens * 2 + i64::from(snapshots) * 24 * 2;
    let node = graph.op("SSM_SCAN", "scanned", [values, 1], &[states, input, steps, decay, b, c, slots]);
    graph.capture(slots, CaptureForm::Indices);
    let mut graph = graph.build();
    graph.tensors[node as usize].op_params[0] = snapshots;
    graph
}

#[test]
fn a_scan_reads_the_states_of_its_sequences_and_no_others() {
    let (accesses, labelled) = label(&scan(1, 1), vec![IndexRuns::encode(&[3, 1])]);
    // A state takes 24 values.
    assert_eq!(of(&accesses, Load, "cache_s_l0"), [(96, 96), (288, 96)]);
    assert_eq!(of(&accesses, Store, "scanned"), [(0, 48 + 192)]);
    assert_eq!(of(&accesses, Load, "scanned"), []);
    assert_eq!(counted(&labelled, "generic_op_rule"), None);
    let types: Vec<&str> = labelled.regions.iter().map(|region| region.region_type.name()).collect();
    assert!(types.contains(&"recurrent_state") && !types.contains(&"kv_cache"), "{types:?}");
}

#[test]
fn a_scan_goes_on_from_the_states_in_its_result() {
    let (accesses, _) = label(&scan(5, 1), vec![IndexRuns::encode(&[0, 1])]);
    assert_eq!(of(&accesses, Load, "cache_s_l0"), [(0, 192)]);
    assert_eq!(of(&accesses, Store, "scanned"), [(0, 240 + 192)]);
    assert_eq!(of(&accesses, Load, "scanned"), [(240, 192)]);
}

#[test]
fn snapshots_of_tokens_that_were_not_computed_are_not_written() {
    let (accesses, _) = label(&scan(2, 4), vec![IndexRuns::encode(&[0, 1])]);
    assert_eq!(of(&accesses, Store, "scanned"), [(0, 96 + 2 * 192)]);
}

#[test]
fn a_scan_whose_slots_were_not_recorded_may_have_read_them_all() {
    let mut graph = scan(1, 1);
    graph.captures.clear();
    let (accesses, labelled) = label(&graph, Vec::new());
    assert_eq!(of(&accesses, Load, "cache_s_l0"), [(0, 480)]);
    assert_eq!(counted(&labelled, "generic_op_rule"), Some((1, None)));
}

#[test]
fn a_delta_net_works_on_the_states_in_its_result() {
    let mut graph = GraphBuilder::new(1);
    // Three values in each of two heads, four tokens, one sequence.
    let [q, k, v] = ["q", "k", "v"].map(|name| shaped(&mut graph, name, [3, 2, 4, 1], Memory::Compute));
    let [gate, beta] = ["g", "b"].map(|name| shaped(&mut graph, name, [1, 2, 4, 1], Memory::Compute));
    let state = shaped(&mut graph, "state", [3, 3, 2, 1], Memory::Compute);
    let node = graph.op("GATED_DELTA_NET", "gdn", [6, 4 + 3], &[q, k, v, gate, beta, state]);
    let mut graph = graph.build();
    graph.tensors[node as usize].op_params[0] = 1;
    let (accesses, labelled) = label(&graph, Vec::new());
    assert_eq!(of(&accesses, Load, "state"), [(0, 72)]);
    assert_eq!((of(&accesses, Store, "gdn"), of(&accesses, Load, "gdn")), (vec![(0, 96 + 72)], vec![(96, 72)]));
    assert_eq!(counted(&labelled, "generic_op_rule"), None);
}

/// One token of each of two sequences, or four of one: operands before the state, and the bytes read of the result.
fn wkv(op: &str, operands: usize, [tokens, sequences]: [i64; 2]) -> Vec<(i64, u64)> {
    let mut graph = GraphBuilder::new(1);
    let mut operand =
        |place: usize| shaped(&mut graph, &format!("operand {place}"), [2, 3, tokens, 1], Memory::Compute);
    let mut sources: Vec<u32> = (0..operands).map(&mut operand).collect();
    sources.push(graph.leaf("state", "f32", [2 * 2 * 3, sequences], Memory::Compute));
    graph.op(op, "wkv", [6, tokens + 2 * sequences], &sources);
    let (accesses, labelled) = label(&graph.build(), Vec::new());
    assert_eq!(of(&accesses, Load, "state"), [(0, 48 * sequences as u64)], "{op}");
    assert_eq!(of(&accesses, Store, "wkv"), [(0, 24 * (tokens + 2 * sequences) as u64)], "{op}");
    assert_eq!(counted(&labelled, "generic_op_rule"), None, "{op}");
    of(&accesses, Load, "wkv")
}

#[test]
fn sums_that_grow_in_place_and_states_of_the_token_before_are_read_again() {
    for (op, operands) in [("RWKV_WKV6", 5), ("GATED_LINEAR_ATTN", 4)] {
        assert_eq!(wkv(op, operands, [2, 2]), [(0, 48)], "{op}");
        assert_eq!(wkv(op, operands, [4, 1]), [(0, 96 + 48)], "{op}");
    }
    assert_eq!(wkv("RWKV_WKV7", 6, [2, 2]), []);
    assert_eq!(wkv("RWKV_WKV7", 6, [4, 1]), [(96, 48)]);
}

#[test]
fn a_vector_without_a_name_that_results_are_copied_into_is_a_cache() {
    let mut graph = GraphBuilder::new(1);
    // Two layers of four positions of three values.
    let cache = graph.leaf("leaf_7", "f16", [24, 1], Memory::Any);
    let other = graph.leaf("leaf_8", "f16", [24, 1], Memory::Any);
    let key = graph.leaf("Kcur-1", "f32", [3, 1], Memory::Compute);
    let place = graph.view(cache, 2 * 12, [3, 1, 1, 1], [2, 6, 6, 6]);
    let stored = graph.op_into("CPY", place, &[key, place]);
    graph.op("MUL_MAT", "kq", [1, 1], &[stored, key]);
    graph.op("MUL_MAT", "kq", [1, 1], &[other, key]);
    let (accesses, labelled) = label(&graph.build(), Vec::new());
    assert_eq!(of(&accesses, Store, "leaf_7"), [(24, 6)]);
    let type_of =
        |name: &str| labelled.regions.iter().find(|region| &*region.tensor == name).unwrap().region_type.name();
    assert_eq!((type_of("leaf_7"), type_of("leaf_8")), ("kv_cache", "runtime"));
}

/// The steps that these computations of graphs count as, without an engine that says so.
fn steps(graphs: &[Graph], computations: &[(usize, Option<i64>)]) -> Vec<u32> {
    let mut records = hello();
    for graph in graphs {
        records = records.graph(10, graph);
    }
    for (at, &(graph, cell)) in (20u64..).step_by(10).zip(computations) {
        let ids = IndexRuns::encode(&vec![3; graphs[graph].tensors[0].ne[0] as usize]);
        let captures = [Some(ids), cell.map(|cell| IndexRuns::encode(&[cell]))].into_iter().flatten().collect();
        let step = Step {
            graph: graphs[graph].id,
            thread: 1,
            begin_ns: at,
            end_ns: at + 5,
            status: 0,
            nodes_done: graphs[graph].units.len() as u32,
            times_ns: vec![at + 5; graphs[graph].units.len()],
            captures,
            work: Vec::new(),
        };
        records = records.step(at + 5, &step);
    }
    let (mut labeller, mut out) = (Labeller::new(&[]), Output::new("run"));
    records.frames().for_each(|frame| labeller.frame(&frame, &mut out));
    labeller.finish(&mut out);
    let batch = out.trace.finish_batch();
    let columns = TraceColumns::of(&batch).unwrap();
    let mut steps: Vec<(u64, u32)> = (0..columns.len())
        .map(|row| columns.row(row).unwrap())
        .filter_map(|row| Some((row.timestamp_ns, row.step?)))
        .collect();
    steps.dedup();
    steps.into_iter().map(|(_, step)| step).collect()
}

#[test]
fn what_an_encoder_computes_and_the_first_token_of_its_decoder_are_a_prompt() {
    let mut encoder = GraphBuilder::new(1);
    let ids = encoder.leaf("inp_tokens", "i32", [2, 1], Memory::Compute);
    let table = encoder.leaf("token_embd.weight", "f32", [4, 16], Memory::Weights);
    encoder.op("GET_ROWS", "embd", [4, 2], &[table, ids]);
    encoder.capture(ids, CaptureForm::Indices);
    let mut decoder = GraphBuilder::new(2);
    let ids = decoder.leaf("inp_tokens", "i32", [1, 1], Memory::Compute);
    let table = decoder.leaf("token_embd.weight", "f32", [4, 16], Memory::Weights);
    let cells = decoder.leaf("k_idxs", "i64", [1, 1], Memory::Compute);
    let cache = decoder.leaf("cache_k_l0", "f32", [4, 8], Memory::Any);
    let embedded = decoder.op("GET_ROWS", "embd", [4, 1], &[table, ids]);
    decoder.op_into("SET_ROWS", cache, &[embedded, cells]);
    [ids, cells].into_iter().for_each(|tensor| decoder.capture(tensor, CaptureForm::Indices));
    let graphs = [encoder.build(), decoder.build()];
    // A warm-up of both, a prompt, and three tokens.
    let computations = [(0, None), (1, Some(0)), (0, None), (1, Some(0)), (1, Some(1)), (1, Some(2))];
    assert_eq!(steps(&graphs, &computations), [0, 0, 0, 0, 1, 2]);
}
