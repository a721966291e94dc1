//! Single operations whose kernels do not touch all of their operands: exactly these bytes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_events::OpType::{self, Load, Store};
use dwell_events::schema::trace::TraceColumns;
use dwell_label::{Labelled, Labeller, Output};
use dwell_records::testing::{GraphBuilder, Memory, RecordBuilder};
use dwell_records::{CaptureForm, Graph, IndexRuns, NONE, Step, VisibleCells};

/// Load or store, tensor, first byte in it, bytes.
type Access = (OpType, String, i64, u64);

/// Labels one computation of a graph that brings these values.
fn label(graph: &Graph, captures: Vec<Vec<u8>>) -> (Vec<Access>, Labelled) {
    let step = Step {
        graph: graph.id,
        thread: 1,
        begin_ns: 20,
        end_ns: 30,
        status: 0,
        nodes_done: graph.units.len() as u32,
        times_ns: vec![30; graph.units.len()],
        captures,
    };
    let records = RecordBuilder::new().hello(1).graph(10, graph).step(30, &step);
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
    ((0..columns.len()).map(access).collect(), labelled)
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
    let (cells, indices) = (graph.leaf("cells", "i64", [2, 1], Memory::Compute), [1, 2]);
    let rows = graph.leaf("rows", "f32", [6, 2], Memory::Compute);
    graph.op_into("SET_ROWS", cache, &[rows, cells]);
    let keys = graph.view(cache, 0, [6, 8, 1, 1], [4, 24, 192, 192]);
    let values = graph.view(cache, 0, [4, 8, 1, 1], [4, 24, 192, 192]);
    graph.op("FLASH_ATTN_EXT", "attention", [4, 1], &[queries, keys, values, mask]);
    graph.capture(cells, CaptureForm::Indices);
    graph.capture(mask, CaptureForm::VisibleCells);
    let visible = VisibleCells { cells: 8, words: vec![0b110] };
    let step = vec![IndexRuns::encode(&indices), visible.encode()];
    let graph = graph.build();
    let (accesses, _) = label(&graph, step);
    assert_eq!(of(&accesses, Load, "cache_k_l0"), [(24, 48)]);
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
