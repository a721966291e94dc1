//! What kernels keep in the work buffer, against what the shape of the operation says.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_events::OpType::{self, Load, Store};
use dwell_events::RegionType;
use dwell_events::schema::trace::TraceColumns;
use dwell_label::{Labelled, Labeller, Output};
use dwell_records::testing::{GraphBuilder, Memory, RecordBuilder};
use dwell_records::{CaptureForm, Graph, Step, TensorShape, ValueType, VisibleCells, WorkBuffer};

const BASE: u64 = 0x7000_0000;

/// Load or store, first byte, bytes.
type Access = (OpType, u64, u64);

/// Labels one computation of a graph with a work buffer, and gives the accesses to that.
fn label(graph: &Graph, captures: Vec<Vec<u8>>, size_bytes: u64, threads: u32) -> (Vec<Access>, Labelled) {
    label_with(graph, captures, vec![WorkBuffer { first_unit: 0, address: BASE, size_bytes, threads }])
}

/// The same with several.
fn label_with(graph: &Graph, captures: Vec<Vec<u8>>, work: Vec<WorkBuffer>) -> (Vec<Access>, Labelled) {
    let step = Step {
        graph: graph.id,
        thread: 1,
        begin_ns: 20,
        end_ns: 30,
        status: 0,
        nodes_done: graph.units.len() as u32,
        times_ns: vec![30; graph.units.len()],
        captures,
        work,
    };
    let records = RecordBuilder::new().hello(1).graph(10, graph).step(30, &step);
    let (mut labeller, mut out) = (Labeller::new(&[]), Output::new("run"));
    records.frames().for_each(|frame| labeller.frame(&frame, &mut out));
    let labelled = labeller.finish(&mut out);
    let batch = out.trace.finish_batch();
    let columns = TraceColumns::of(&batch).unwrap();
    let rows = (0..columns.len()).map(|row| columns.row(row).unwrap());
    let of_work = rows.filter(|row| row.region_type == RegionType::WorkBuffer);
    (of_work.map(|row| (row.op_type, row.address - BASE, row.size_bytes)).collect(), labelled)
}

fn product(matrix_type: &str, input_type: &str) -> Graph {
    let mut graph = GraphBuilder::new(1);
    let matrix = graph.leaf("blk.0.ffn_up.weight", "f16", [256, 4], Memory::Weights);
    let input = graph.leaf("input", input_type, [256, 3], Memory::Compute);
    graph.op("MUL_MAT", "product", [4, 3], &[matrix, input]);
    let mut graph = graph.build();
    // Only its name tells what it is multiplied with.
    let (block_values, block_bytes) = (1, 2);
    graph.tensors[matrix as usize].value_type = graph.types.len() as u16;
    graph.types.push(ValueType { name: matrix_type.to_owned(), block_values, block_bytes });
    graph
}

#[test]
fn an_input_is_stored_and_loaded_in_the_type_that_is_multiplied() {
    // Three rows of 256 values, in blocks of 32 values and 34 or 36 bytes, or of 256 values and 292 bytes.
    let sizes = [("f16", 3 * 512), ("q8_0", 3 * 8 * 34), ("q4_0", 3 * 8 * 34), ("q4_1", 3 * 8 * 36), ("q4_K", 3 * 292)];
    for (matrix_type, size_bytes) in sizes {
        let (accesses, labelled) = label(&product(matrix_type, "f32"), Vec::new(), 4096, 2);
        assert_eq!(accesses, [(Store, 0, size_bytes), (Load, 0, size_bytes)], "{matrix_type}");
        let region = labelled.regions.iter().find(|region| region.region_type == RegionType::WorkBuffer).unwrap();
        assert_eq!((region.address, region.size_bytes, &*region.tensor), (BASE, 4096, "work_buffer"));
    }
}

#[test]
fn an_input_that_has_the_type_is_not_converted() {
    assert_eq!(label(&product("f32", "f32"), Vec::new(), 4096, 2).0, []);
    assert_eq!(label(&product("f16", "f16"), Vec::new(), 4096, 2).0, []);
}

#[test]
fn a_product_without_values_converts_nothing() {
    let mut graph = product("f16", "f32");
    let is_of_product = |tensor: &&mut TensorShape| ["input", "product"].contains(&&*tensor.name);
    graph.tensors.iter_mut().filter(is_of_product).for_each(|tensor| tensor.ne[1] = 0);
    assert_eq!(label(&graph, Vec::new(), 4096, 2).0, []);
}

#[test]
fn what_would_not_fit_into_the_buffer_is_counted() {
    let (accesses, labelled) = label(&product("f16", "f32"), Vec::new(), 1000, 2);
    assert_eq!(accesses, [(Store, 0, 1000), (Load, 0, 1000)]);
    let outside = labelled.loss.iter().find(|row| row.kind.name() == "rows_outside_tensor").unwrap();
    assert_eq!((outside.count, outside.bytes), (2, Some(2 * 536)));
}

/// Attention of one token with two heads of 4 values over 600 cells.
fn attention(query_tokens: i64) -> Graph {
    let mut graph = GraphBuilder::new(1);
    let query = graph.leaf("query", "f32", [4, 2], Memory::Compute);
    let keys = graph.leaf("cache_k_l0", "f16", [4, 600], Memory::Any);
    let values = graph.leaf("cache_v_l0", "f16", [4, 600], Memory::Any);
    let mask = graph.leaf("mask", "f16", [600, 1], Memory::Compute);
    graph.op("FLASH_ATTN_EXT", "attention", [4, 2], &[query, keys, values, mask]);
    graph.capture(mask, CaptureForm::VisibleCells);
    let mut graph = graph.build();
    graph.tensors[query as usize].ne = [4, query_tokens, 2, 1];
    graph
}

fn visible(cells: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    let mut visible = VisibleCells { cells: 600, words: vec![0; 10] };
    cells.for_each(|cell| visible.words[cell / 64] |= 1 << (cell % 64));
    vec![visible.encode()]
}

#[test]
fn sums_of_threads_that_see_no_cell_are_not_loaded() {
    // Behind what three threads keep for themselves: 4 values of the query, two times 4 of the result, 16 between.
    let first = 3 * (4 + 2 * 4 + 16) * 4;
    // The largest product, the sum of the weights, and 4 values.
    let sum = 6 * 4;
    let (accesses, _) = label(&attention(1), visible(0..250), 1 << 20, 3);
    let loads = [(Load, first, 2 * sum + 8), (Load, first + 3 * sum, 2 * sum + 8)];
    assert_eq!(accesses, [&[(Store, first, 6 * sum)][..], &loads].concat());
    let (accesses, _) = label(&attention(1), visible(0..600), 1 << 20, 3);
    assert_eq!(accesses, [(Store, first, 6 * sum), (Load, first, 6 * sum)]);
}

#[test]
fn attention_of_several_tokens_keeps_no_sums() {
    assert_eq!(label(&attention(2), visible(0..600), 1 << 20, 3).0, []);
}

#[test]
fn a_thread_without_cells_stores_that_it_has_no_sum() {
    // 600 cells for 400 threads are 300 parts of two.
    let (accesses, _) = label(&attention(1), visible(0..600), 1 << 20, 400);
    let first = 400 * (4 + 2 * 4 + 16) * 4;
    let (head, sum) = (8, 6 * 4);
    assert_eq!(accesses[0], (Store, first, 300 * sum + head));
    assert_eq!(accesses[1], (Store, first + 301 * sum, head));
    let loads: Vec<_> = accesses.iter().filter(|access| access.0 == Load).collect();
    assert_eq!(loads, [&(Load, first, 300 * sum), &(Load, first + 400 * sum, 300 * sum)]);
}

#[test]
fn a_graph_that_is_computed_in_parts_has_the_buffer_of_each() {
    let mut graph = GraphBuilder::new(1);
    let matrix = graph.leaf("blk.0.ffn_up.weight", "f16", [256, 4], Memory::Weights);
    let input = graph.leaf("input", "f32", [256, 1], Memory::Compute);
    graph.op("MUL_MAT", "first", [4, 1], &[matrix, input]);
    graph.op("MUL_MAT", "second", [4, 1], &[matrix, input]);
    let at = |first_unit: u32, address: u64| WorkBuffer { first_unit, address, size_bytes: 4096, threads: 2 };
    let (accesses, _) = label_with(&graph.build(), Vec::new(), vec![at(0, BASE), at(1, BASE + 8192)]);
    assert_eq!(accesses, [(Store, 0, 512), (Load, 0, 512), (Store, 8192, 512), (Load, 8192, 512)]);
}
