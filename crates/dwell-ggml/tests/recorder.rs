//! The recorder against a made-up ggml: what it sends of which graph, and what of each computation.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod made_up_ggml;

use std::path::PathBuf;
use std::sync::Arc;

use dwell_ggml::abi::FLAG_OUTPUT;
use dwell_ggml::{OpenTransfer, Recorder, RecorderOptions, after_node};
use dwell_records::{
    CaptureForm, Graph, Hello, IndexRuns, Kind, NONE, Placement, Refusal, Resolution, Step, Transfer, Transferred,
    VisibleCells, WeightPlaced, split_frame,
};
use dwell_ring::{Consumer, RecordSender, file_name};
use made_up_ggml::{Buffer, MadeUpGraph, Memory, api, api_with_another_layout};

/// A recorder of this process, with a ring of its own.
struct Recording {
    recorder: Recorder,
    folder: PathBuf,
}

impl Recording {
    fn start(name: &str, resolution: Resolution) -> Self {
        Self::start_with(name, resolution, api())
    }

    fn start_with(name: &str, resolution: Resolution, api: dwell_ggml::abi::Api) -> Self {
        let folder = std::env::temp_dir().join(format!("dwell-recorder-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let sender = Arc::new(RecordSender::create(&folder, std::process::id(), 1 << 20).unwrap());
        let options = RecorderOptions { sender, resolution, way_in: "linked", fork: None };
        Self { recorder: Recorder::start(api, options), folder }
    }

    /// Computes a graph: ggml calls back after this many operations.
    fn compute(&self, graph: &mut MadeUpGraph, calls: usize) {
        let scheduler = std::ptr::without_provenance_mut(1);
        // SAFETY: the graph lives, its tensors have the known layout, and its inputs hold their values.
        unsafe { self.recorder.begin_graph(scheduler, graph.pointer()) };
        (0..calls).for_each(|_| after_node());
        self.recorder.end_graph(0);
    }

    /// Kind and payload of everything that was sent.
    fn records(&self) -> Vec<(Kind, Vec<u8>)> {
        let mut bytes = Vec::new();
        Consumer::open(&self.folder.join(file_name(std::process::id()))).unwrap().peek(0, &mut bytes);
        let (mut rest, mut records) = (&bytes[..], Vec::new());
        while let Some((frame, after)) = split_frame(rest).unwrap() {
            assert_eq!(frame.sequence, records.len() as u64);
            records.push((Kind::from_number(frame.kind).unwrap(), frame.payload.to_vec()));
            rest = after;
        }
        records
    }

    fn kinds(&self) -> Vec<Kind> {
        self.records().into_iter().map(|(kind, _)| kind).collect()
    }

    fn of_kind(&self, kind: Kind) -> Vec<Vec<u8>> {
        self.records().into_iter().filter(|(found, _)| *found == kind).map(|(_, payload)| payload).collect()
    }

    fn graphs(&self) -> Vec<Graph> {
        self.of_kind(Kind::Graph).iter().map(|payload| Graph::decode(payload).unwrap()).collect()
    }

    fn steps(&self) -> Vec<Step> {
        self.of_kind(Kind::Step).iter().map(|payload| Step::decode(payload).unwrap()).collect()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A key is scaled and stored into a cell of a cache: two operations.
fn store_of_a_key(cell: i64) -> MadeUpGraph {
    let mut graph = MadeUpGraph::new();
    let key = graph.leaf("key", "f32", [4, 1], Memory::Compute);
    let cells = graph.leaf_with("k_idxs", "i64", [1, 1], Memory::Compute, &cell.to_le_bytes());
    let cache = graph.leaf("cache_k_l0", "f32", [4, 8], Memory::Any);
    let scaled = graph.op("SCALE", "Kcur-0", [4, 1], &[key]);
    graph.op_into("SET_ROWS", cache, &[scaled, cells]);
    graph
}

#[test]
fn a_graph_is_stored_once_and_each_computation_is_a_step_with_its_values() {
    let recording = Recording::start("once", Resolution::Op);
    let mut graph = store_of_a_key(3);
    recording.compute(&mut graph, 2);
    graph.set("k_idxs", &5i64.to_le_bytes());
    recording.compute(&mut graph, 2);
    assert_eq!(recording.kinds(), [Kind::Hello, Kind::Graph, Kind::Step, Kind::Step]);

    let hello = Hello::decode(&recording.of_kind(Kind::Hello)[0]).unwrap();
    assert_eq!((hello.pid, hello.resolution, hello.way_in.as_str()), (std::process::id(), 2, "linked"));
    let [stored] = &recording.graphs()[..] else { panic!("one graph") };
    let executed: Vec<&str> =
        stored.units.iter().map(|unit| stored.op_name(&stored.tensors[unit.node as usize])).collect();
    assert_eq!(executed, ["SCALE", "SET_ROWS"]);
    assert_eq!(stored.stamped_units, [0, 1]);
    let cache = stored.tensors.iter().find(|tensor| tensor.name == "cache_k_l0").unwrap();
    assert_eq!((cache.ne, cache.nb, cache.address), ([4, 8, 1, 1], [4, 16, 128, 128], graph.address("cache_k_l0")));
    let view = &stored.tensors[stored.units[1].node as usize];
    assert_eq!((stored.tensors[view.root as usize].name.as_str(), view.address), ("cache_k_l0", cache.address));
    let [capture] = stored.captures[..] else { panic!("one capture") };
    assert_eq!(stored.tensors[capture.tensor as usize].name, "k_idxs");
    assert_eq!(capture.form, CaptureForm::Indices);

    let cells: Vec<Vec<i64>> =
        recording.steps().iter().map(|step| IndexRuns::decode(&step.captures[0]).unwrap().values().collect()).collect();
    assert_eq!(cells, [[3], [5]]);
    for step in recording.steps() {
        assert_eq!((step.graph, step.status, step.nodes_done), (stored.id, 0, 2));
        assert_eq!(step.times_ns.len(), 2);
        assert!(step.times_ns.is_sorted() && step.begin_ns <= step.times_ns[0] && step.times_ns[1] <= step.end_ns);
    }
}

#[test]
fn a_graph_that_changed_is_stored_again_and_one_that_comes_back_is_known() {
    let recording = Recording::start("changed", Resolution::Step);
    let (mut first, mut second) = (store_of_a_key(0), store_of_a_key(1));
    for graph in [&mut first, &mut second] {
        recording.recorder.graph_allocated(std::ptr::without_provenance_mut(1));
        recording.compute(graph, 2);
    }
    recording.recorder.graph_allocated(std::ptr::without_provenance_mut(1));
    recording.compute(&mut first, 2);
    assert_eq!(recording.graphs().iter().map(|graph| graph.id).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(recording.steps().iter().map(|step| step.graph).collect::<Vec<_>>(), [0, 1, 0]);
    assert!(recording.steps().iter().all(|step| step.times_ns.is_empty()), "steps are timed by begin and end alone");
}

#[test]
fn calls_that_do_not_match_the_operations_leave_a_step_without_times() {
    let recording = Recording::start("calls", Resolution::Op);
    recording.compute(&mut store_of_a_key(3), 1);
    let [step] = &recording.steps()[..] else { panic!("one step") };
    assert_eq!((step.nodes_done, step.times_ns.len()), (1, 0));
    let cells = IndexRuns::decode(&step.captures[0]).unwrap();
    assert_eq!(cells.values().collect::<Vec<_>>(), [3], "inputs were read before the computation");
}

#[test]
fn a_norm_and_its_product_are_one_unit_unless_the_norm_is_wanted() {
    let graph = |flags: i32| {
        let mut graph = MadeUpGraph::new();
        let input = graph.leaf("input", "f32", [8, 1], Memory::Compute);
        let weight = graph.leaf("blk.0.attn_norm.weight", "f32", [8, 1], Memory::Weights);
        let norm = graph.op("RMS_NORM", "norm-0", [8, 1], &[input]);
        graph.add_flags(norm, flags);
        graph.op("MUL", "attn_norm-0", [8, 1], &[norm, weight]);
        graph
    };
    let recording = Recording::start("fused", Resolution::Op);
    recording.compute(&mut graph(0), 1);
    recording.compute(&mut graph(FLAG_OUTPUT), 2);
    let units: Vec<Vec<bool>> =
        recording.graphs().iter().map(|graph| graph.units.iter().map(|unit| unit.fused != NONE).collect()).collect();
    assert_eq!(units, [vec![true], vec![false, false]]);
}

#[test]
fn the_mask_of_attention_says_which_cells_are_visible() {
    const HIDDEN: [u8; 4] = f32::NEG_INFINITY.to_le_bytes();
    const VISIBLE: [u8; 4] = 0f32.to_le_bytes();
    let mut graph = MadeUpGraph::new();
    let query = graph.leaf("query", "f32", [4, 2], Memory::Compute);
    let cache = graph.leaf("cache_k_l0", "f32", [4, 4], Memory::Any);
    // Two queries: the first sees cell 0, the second cells 0 and 2.
    let rows = [[VISIBLE, HIDDEN, HIDDEN, HIDDEN], [VISIBLE, HIDDEN, VISIBLE, HIDDEN]];
    let mask = graph.leaf_with("kq_mask", "f32", [4, 2], Memory::Compute, rows.concat().concat().as_slice());
    graph.op("FLASH_ATTN_EXT", "kqv_out-0", [4, 2], &[query, cache, cache, mask]);
    let recording = Recording::start("mask", Resolution::Op);
    recording.compute(&mut graph, 1);
    let visible = VisibleCells::decode(&recording.steps()[0].captures[0]).unwrap();
    assert_eq!((visible.cells, visible.words), (4, vec![0b101]));
}

#[test]
fn only_weights_are_reported_when_tensors_get_their_memory() {
    let mut graph = MadeUpGraph::new();
    let weight = graph.leaf("blk.1.ffn_up.weight", "f32", [4, 4], Memory::Weights);
    let other = graph.leaf("cache_v_l1", "f32", [4, 4], Memory::Any);
    let recording = Recording::start("placed", Resolution::Op);
    for (tensor, memory) in [(weight, Memory::Weights), (other, Memory::Any)] {
        // SAFETY: tensor and buffer live.
        unsafe { recording.recorder.tensor_placed(tensor, Buffer::of(memory), Placement::Mapped) };
    }
    let [placed] = &recording.of_kind(Kind::WeightPlaced)[..] else { panic!("one weight") };
    let placed = WeightPlaced::decode(placed).unwrap();
    assert_eq!((placed.name.as_str(), placed.size_bytes, placed.buffer.as_str()), ("blk.1.ffn_up.weight", 64, "CPU"));
    assert_eq!((placed.placement, placed.address), (Placement::Mapped, graph.address("blk.1.ffn_up.weight")));
}

#[test]
fn what_is_read_of_a_result_is_told_with_the_tensor_that_owns_it() {
    let mut graph = MadeUpGraph::new();
    let result = graph.leaf("result_output", "f32", [8, 2], Memory::Compute);
    let recording = Recording::start("read", Resolution::Op);
    // SAFETY: the tensor lives.
    unsafe {
        recording.recorder.tensor_read(result, 32, 16);
        recording.recorder.tensor_read(result, 0, 0);
    }
    let [read] = &recording.of_kind(Kind::Transferred)[..] else {
        panic!("one read; nothing was read the second time")
    };
    let read = Transferred::decode(read).unwrap();
    let address = graph.address("result_output");
    assert_eq!((read.transfer, read.address, read.size_bytes), (Transfer::Read, address + 32, 16));
    assert_eq!((read.tensor.as_str(), read.tensor_address, read.tensor_size_bytes), ("result_output", address, 64));
    assert_eq!(read.usage, Memory::Compute as u8);
}

#[test]
fn a_buffer_that_is_cleared_is_told_tensor_by_tensor() {
    let mut graph = MadeUpGraph::new();
    let keys = graph.leaf("cache_k_l0", "f32", [4, 4], Memory::Any);
    let values = graph.leaf("cache_v_l0", "f32", [4, 4], Memory::Any);
    let recording = Recording::start("cleared", Resolution::Op);
    let buffer = Buffer::of(Memory::Any);
    // SAFETY: tensors and buffer live.
    unsafe {
        recording.recorder.buffer_cleared(buffer);
        recording.recorder.tensor_placed(keys, buffer, Placement::Mapped);
        recording.recorder.tensor_placed(keys, buffer, Placement::Mapped);
        recording.recorder.tensor_placed(values, buffer, Placement::Mapped);
        recording.recorder.buffer_cleared(buffer);
    }
    let cleared = recording.of_kind(Kind::Transferred);
    let cleared: Vec<Transferred> = cleared.iter().map(|payload| Transferred::decode(payload).unwrap()).collect();
    let told: Vec<_> = cleared.iter().map(|record| (record.transfer, record.tensor.as_str(), record.address)).collect();
    let expected = ["cache_k_l0", "cache_v_l0"].map(|name| (Transfer::Cleared, name, graph.address(name)));
    assert_eq!(told, expected);
    assert!(cleared.iter().all(|record| record.size_bytes == 64 && record.tensor_size_bytes == 64));
}

#[test]
fn a_transfer_that_is_part_of_another_is_not_one_of_its_own() {
    let outer = OpenTransfer::begin();
    assert!(outer.is_some() && OpenTransfer::begin().is_none() && OpenTransfer::begin().is_none());
    assert!(std::thread::spawn(|| OpenTransfer::begin().is_some()).join().unwrap());
    drop(outer);
    assert!(OpenTransfer::begin().is_some());
}

#[test]
fn a_ggml_with_another_layout_is_left_alone_with_the_reason() {
    let recording = Recording::start_with("layout", Resolution::Op, api_with_another_layout());
    recording.compute(&mut store_of_a_key(3), 2);
    assert_eq!(recording.kinds(), [Kind::Hello, Kind::Refusal]);
    let refusal = Refusal::decode(&recording.of_kind(Kind::Refusal)[0]).unwrap();
    assert!(refusal.reason.contains("ggml_get_name disagrees"), "{}", refusal.reason);
    assert!(!recording.recorder.is_active());
}
