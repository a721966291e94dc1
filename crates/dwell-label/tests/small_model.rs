//! A made-up model of one layer, computed twice: exactly these rows, blocks, tokens and losses.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use dwell_events::engine::{BatchToken, EngineEvent};
use dwell_events::schema::trace::{TraceColumns, TraceRow};
use dwell_events::{OpType, Phase, RegionType};
use dwell_label::{FileTensor, Labelled, Labeller, Output};
use dwell_records::testing::{RecordBuilder, SmallModel};
use dwell_records::{Placement, Transfer, Transferred, WIRE_VERSION, WeightPlaced};

use OpType::{Load, Store};

const ROW: u64 = SmallModel::ROW_BYTES;

fn json(event: &EngineEvent) -> Vec<u8> {
    serde_json::to_vec(event).unwrap()
}

fn phase(phase: Phase) -> Vec<u8> {
    json(&EngineEvent::PhaseBegins { phase })
}

fn batch(step: u32, id: i32, position: i32) -> Vec<u8> {
    json(&EngineEvent::BatchBegins { step, tokens: vec![BatchToken { id, position, sequence: 0 }], outputs: 1 })
}

fn token(step: u32, id: i32, position: i32, text: &str) -> Vec<u8> {
    let (position, id, text) = (Some(position), Some(id), text.to_owned());
    json(&EngineEvent::Token { step, sequence: 0, position, id, text })
}

/// A tensor of the model that something is done to between graphs.
fn transferred(model: &SmallModel, transfer: Transfer, name: &str, usage: u8, bytes: u64) -> Transferred {
    let tensor = model.tensor(name);
    let (address, tensor) = (tensor.address, tensor.name.clone());
    let (size_bytes, tensor_size_bytes) = (bytes, bytes);
    Transferred { transfer, thread: 7, address, size_bytes, tensor, tensor_address: address, tensor_size_bytes, usage }
}

/// A prompt of one token, 7, and the decoding of one more, 9.
fn records(model: &SmallModel) -> RecordBuilder {
    records_of_version(model, WIRE_VERSION)
}

fn records_of_version(model: &SmallModel, wire_version: u16) -> RecordBuilder {
    let table = model.tensor("token_embd.weight");
    let placed = WeightPlaced {
        placement: Placement::Mapped,
        address: table.address,
        size_bytes: 16 * ROW,
        name: table.name.clone(),
        buffer: "CPU_Mapped".to_owned(),
    };
    RecordBuilder::new()
        .hello_of_version(1, wire_version)
        .engine(5, &phase(Phase::WeightLoad))
        .weight(6, &placed)
        .engine(10, &phase(Phase::Generation))
        .engine(11, &json(&EngineEvent::Prompt { tokens: vec![(7, "a".to_owned())] }))
        .engine(20, &batch(0, 7, 0))
        .graph(21, &model.graph)
        .step(30, &model.step(0, 7, 22..30))
        .engine(31, &json(&EngineEvent::BatchEnds { step: 0 }))
        .engine(32, &token(0, 9, 1, "b"))
        .engine(40, &batch(1, 9, 1))
        .step(50, &model.step(1, 9, 42..50))
        .engine(51, &json(&EngineEvent::BatchEnds { step: 1 }))
        .engine(52, &token(1, 3, 2, "c"))
        .engine(60, &phase(Phase::Teardown))
        .engine(65, &json(&EngineEvent::PeakMemory { rss_bytes: 4096 }))
}

fn label(records: &RecordBuilder) -> (Labelled, Output) {
    let file = [FileTensor { name: "token_embd.weight".to_owned(), file_offset: 640 }];
    let (mut labeller, mut out) = (Labeller::new(&file), Output::new("run"));
    records.frames().for_each(|frame| labeller.frame(&frame, &mut out));
    (labeller.finish(&mut out), out)
}

fn rows(batch: &RecordBatch) -> Vec<TraceRow<'_>> {
    let columns = TraceColumns::of(batch).unwrap();
    (0..columns.len()).map(|row| columns.row(row).unwrap()).collect()
}

/// Time, operation, load or store, tensor, first byte in it, bytes.
type Access<'a> = (u64, &'a str, OpType, &'a str, u64, u64);

fn accesses<'a>(model: &SmallModel, rows: &[TraceRow<'a>]) -> Vec<Access<'a>> {
    let access = |row: &TraceRow<'a>| {
        let offset = row.address - model.tensor(row.tensor).address;
        (row.timestamp_ns, row.symbol, row.op_type, row.tensor, offset, row.size_bytes)
    };
    rows.iter().map(access).collect()
}

/// What a step that begins and ends at these times touches.
fn expected_step(begin_ns: u64, end_ns: u64, id: u64, position: u64) -> Vec<Access<'static>> {
    vec![
        (begin_ns, "set_input", Store, "inp_tokens", 0, 4),
        (begin_ns, "set_input", Store, "inp_pos", 0, 4),
        (begin_ns, "set_input", Store, "k_idxs", 0, 8),
        (begin_ns, "set_input", Store, "kq_mask", 0, 32),
        (end_ns - 4, "GET_ROWS", Load, "token_embd.weight", id * ROW, ROW),
        (end_ns - 4, "GET_ROWS", Load, "inp_tokens", 0, 4),
        (end_ns - 4, "GET_ROWS", Store, "embd", 0, ROW),
        (end_ns - 3, "MUL_MAT", Load, "blk.0.attn_k.weight", 0, 4 * ROW),
        (end_ns - 3, "MUL_MAT", Load, "embd", 0, ROW),
        (end_ns - 3, "MUL_MAT", Store, "Kcur-0", 0, ROW),
        (end_ns - 2, "ROPE", Load, "Kcur-0", 0, ROW),
        (end_ns - 2, "ROPE", Load, "inp_pos", 0, 4),
        (end_ns - 2, "ROPE", Store, "Kcur_rope-0", 0, ROW),
        (end_ns - 1, "SET_ROWS", Load, "Kcur_rope-0", 0, ROW),
        (end_ns - 1, "SET_ROWS", Load, "k_idxs", 0, 8),
        (end_ns - 1, "SET_ROWS", Store, "cache_k_l0", position * ROW, ROW),
        (end_ns, "FLASH_ATTN_EXT", Load, "Kcur_rope-0", 0, ROW),
        (end_ns, "FLASH_ATTN_EXT", Load, "cache_k_l0", 0, (position + 1) * ROW),
        (end_ns, "FLASH_ATTN_EXT", Load, "kq_mask", 0, 32),
        (end_ns, "FLASH_ATTN_EXT", Store, "kqv_out-0", 0, ROW),
    ]
}

#[test]
fn every_access_of_a_graph_is_a_row() {
    let model = SmallModel::new();
    let (_, mut out) = label(&records(&model));
    let batch = out.trace.finish_batch();
    let rows = rows(&batch);
    let (loading, computing) = rows.split_at(2);
    // The second weight passed no function that is recorded: it was in place when loading ended.
    let placed =
        [(6, "mmap", Store, "token_embd.weight", 0, 16 * ROW), (10, "read", Store, "blk.0.attn_k.weight", 0, 4 * ROW)];
    assert_eq!(accesses(&model, loading), placed);
    assert!(loading.iter().all(|row| (row.phase, row.step) == (Some(Phase::WeightLoad), None)));
    let expected = [expected_step(22, 30, 7, 0), expected_step(42, 50, 9, 1)].concat();
    assert_eq!(accesses(&model, computing), expected);
    assert!(computing.iter().all(|row| (row.source, row.period, row.thread_id) == ("tensor_ops", 1, Some(7))));
}

#[test]
fn rows_know_their_step_and_token() {
    let (_, mut out) = label(&records(&SmallModel::new()));
    let batch = out.trace.finish_batch();
    let rows = rows(&batch);
    let moment = |row: &TraceRow<'_>| (row.phase, row.step, row.token_index, row.context_tokens);
    let generation = Some(Phase::Generation);
    assert!(rows[2..22].iter().all(|row| moment(row) == (generation, Some(0), None, Some(1))));
    assert!(rows[22..].iter().all(|row| moment(row) == (generation, Some(1), Some(2), Some(2))));
    let given = out.tokens.iter().find(|token| token.token_index == 2).unwrap();
    assert!(rows[22..].iter().all(|row| (given.begin_ns..=given.end_ns).contains(&row.timestamp_ns)));
}

#[test]
fn tokens_are_listed_with_the_bytes_in_the_cache() {
    let (labelled, out) = label(&records(&SmallModel::new()));
    let tokens: Vec<_> = out.tokens.iter().map(|row| (row.token_id, row.text.as_str(), row.step)).collect();
    assert_eq!(tokens, [(Some(7), "a", 0), (Some(9), "b", 0), (Some(3), "c", 1)]);
    let times: Vec<_> = out.tokens.iter().map(|row| (row.begin_ns, row.end_ns, row.kv_bytes)).collect();
    assert_eq!(times, [(20, 31, Some(ROW)), (20, 32, Some(ROW)), (40, 52, Some(2 * ROW))]);
    assert_eq!(out.tokens.iter().map(|row| row.is_generated).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(labelled.decoded_tokens, 1);
}

#[test]
fn a_block_lives_from_its_store_to_the_end_of_the_run() {
    let (_, mut out) = label(&records(&SmallModel::new()));
    let blocks = out.blocks.finish_batch();
    let column =
        |name: &str| blocks.column_by_name(name).unwrap().as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
    assert_eq!(column("write_ns"), [Some(29), Some(49)]);
    assert_eq!(column("last_read_ns"), [Some(50), Some(50)]);
    assert_eq!(column("total_reads"), [Some(2), Some(1)]);
    assert_eq!(column("evict_ns"), [None, None]);
    assert_eq!(column("lifetime_ns"), [Some(21), Some(1)], "to the last read, since nothing ended them before");
}

#[test]
fn regions_losses_and_phases_sum_up_the_run() {
    let (labelled, _) = label(&records(&SmallModel::new()));
    let find = |tensor: &str| labelled.regions.iter().find(|row| row.tensor == tensor).unwrap();
    let cache = find("cache_k_l0");
    assert_eq!((cache.region_type, cache.layer, cache.size_bytes), (RegionType::KvCache, Some(0), 8 * ROW));
    assert_eq!((cache.bytes_read, cache.bytes_written, cache.access_count), (3 * ROW, 2 * ROW, 4));
    assert_eq!((cache.origin, cache.freed_ns), ("computed", Some(60)));
    let table = find("token_embd.weight");
    assert_eq!((table.region_type, table.origin, table.file_offset), (RegionType::Weight, "mapped", Some(640)));
    assert_eq!((find("blk.0.attn_k.weight").origin, find("embd").region_type), ("copied", RegionType::Activation));

    let losses: Vec<_> = labelled.loss.iter().map(|row| (row.kind.name(), row.count, row.bytes)).collect();
    assert_eq!(losses, [("work_buffer", 2, None)]);
    let phases: Vec<_> = labelled.phases.iter().map(|span| (span.phase, span.begin_ns, span.end_ns)).collect();
    let expected = [(Phase::WeightLoad, 5, 10), (Phase::Generation, 10, 60), (Phase::Teardown, 60, 65)];
    assert_eq!(phases, expected);
    assert_eq!((labelled.graphs, labelled.steps, labelled.outcome.peak_rss_bytes), (1, 2, Some(4096)));
}

#[test]
fn removed_positions_end_lives_and_free_bytes() {
    let removed = json(&EngineEvent::KvRemoved { sequence: 0, from: 0, to: 1 });
    let (_, mut out) = label(&records(&SmallModel::new()).engine(70, &removed).engine(71, &token(2, 4, 3, "d")));
    assert_eq!(out.tokens.last().and_then(|row| row.kv_bytes), Some(ROW));
    let blocks = out.blocks.finish_batch();
    let ends = blocks.column_by_name("evict_ns").unwrap().as_primitive::<Int64Type>();
    assert_eq!(ends.iter().collect::<Vec<_>>(), [Some(70), None]);
}

#[test]
fn records_of_recorders_that_do_not_tell_of_inputs_count_them_as_unseen() {
    let (labelled, mut out) = label(&records_of_version(&SmallModel::new(), 1));
    let losses: Vec<_> = labelled.loss.iter().map(|row| (row.kind.name(), row.count, row.bytes)).collect();
    assert_eq!(losses, [("input_upload", 2, Some(2 * 48)), ("work_buffer", 2, None)]);
    let batch = out.trace.finish_batch();
    assert!(rows(&batch).iter().all(|row| row.symbol != "set_input"));
}

#[test]
fn what_is_read_after_a_step_belongs_to_it() {
    let model = SmallModel::new();
    let result = transferred(&model, Transfer::Read, "kqv_out-0", 2, ROW);
    let (_, mut out) = label(&records(&model).transferred(70, &result));
    let batch = out.trace.finish_batch();
    let rows = rows(&batch);
    let (read, stores) = rows.split_last().unwrap();
    assert_eq!(accesses(&model, &[*read]), [(70, "ggml_backend_tensor_get", Load, "kqv_out-0", 0, ROW)]);
    let store = stores.iter().find(|row| row.tensor == "kqv_out-0").unwrap();
    assert_eq!((read.region_type, read.region_id), (store.region_type, store.region_id));
    assert_eq!((read.step, read.token_index, read.thread_id), (Some(1), Some(2), Some(7)));
}

#[test]
fn a_clear_is_a_store_in_its_phase_and_ends_the_lives_of_blocks() {
    let model = SmallModel::new();
    let cleared = transferred(&model, Transfer::Cleared, "cache_k_l0", 0, 8 * ROW);
    let (labelled, mut out) = label(&records(&model).transferred(70, &cleared).engine(71, &token(2, 4, 3, "d")));
    let batch = out.trace.finish_batch();
    let rows = rows(&batch);
    let last = rows.last().unwrap();
    assert_eq!(accesses(&model, &[*last]), [(70, "ggml_backend_buffer_clear", Store, "cache_k_l0", 0, 8 * ROW)]);
    assert_eq!((last.phase, last.step, last.region_type), (Some(Phase::Teardown), None, RegionType::KvCache));
    let cache = labelled.regions.iter().find(|row| row.tensor == "cache_k_l0").unwrap();
    assert_eq!(cache.bytes_written, (2 + 8) * ROW);
    let blocks = out.blocks.finish_batch();
    let ends = blocks.column_by_name("evict_ns").unwrap().as_primitive::<Int64Type>();
    assert_eq!(ends.iter().collect::<Vec<_>>(), [Some(70), Some(70)]);
    assert_eq!(out.tokens.last().and_then(|row| row.kv_bytes), Some(0));
}
