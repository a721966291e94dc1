//! Small graphs, steps and streams of records, made in code.
//!
//! For tests of whatever reads records: labelling, building, recovery. [`SmallModel`] is a whole model in a few
//! tensors; [`GraphBuilder`] makes others.
//!
//! ```
//! use dwell_records::testing::{RecordBuilder, SmallModel};
//!
//! let model = SmallModel::new();
//! let records = RecordBuilder::new()
//!     .hello(10)
//!     .engine(20, br#"{"event":"phase_begins","phase":"generation"}"#)
//!     .graph(30, &model.graph)
//!     .step(40, &model.step(0, 7, 31..39));
//! assert_eq!(records.frames().count(), 4);
//! ```

use std::ops::Range;

use crate::{
    Buffer, Capture, CaptureForm, Frame, Graph, Hello, IndexRuns, Kind, NONE, Refusal, Step, TensorShape, Transferred,
    Unit, ValueType, VisibleCells, WIRE_VERSION, WeightPlaced, frame_header,
};

/// What a buffer is for, with the number that ggml gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Caches, and whatever else is neither of the others.
    Any = 0,
    /// Weights.
    Weights = 1,
    /// Inputs and results of graphs.
    Compute = 2,
}

/// Bytes between the beginnings of two tensors, and between two buffers.
const TENSOR_SPACING: u64 = 0x1000;
const BUFFER_SPACING: u64 = 0x100_0000;

/// Types that tensors can have: name and bytes of a value.
const TYPES: [(&str, u32); 4] = [("f32", 4), ("f16", 2), ("i32", 4), ("i64", 8)];

/// Makes a graph tensor by tensor. Every tensor begins a page of its own, in the buffer of its kind of memory.
pub struct GraphBuilder {
    graph: Graph,
}

impl GraphBuilder {
    /// An empty graph of this number, timed after each operation.
    pub fn new(id: u32) -> Self {
        let buffer = |usage: Memory| Buffer {
            base: BUFFER_SPACING * (usage as u64 + 1),
            size_bytes: BUFFER_SPACING,
            usage: usage as u8,
            is_host: true,
            name: "CPU".to_owned(),
        };
        let value_type =
            |(name, bytes): (&str, u32)| ValueType { name: name.to_owned(), block_values: 1, block_bytes: bytes };
        let graph = Graph {
            id,
            buffers: [Memory::Any, Memory::Weights, Memory::Compute].map(buffer).to_vec(),
            types: TYPES.map(value_type).to_vec(),
            op_names: vec!["NONE".to_owned()],
            tensors: Vec::new(),
            units: Vec::new(),
            captures: Vec::new(),
            stamped_units: Vec::new(),
        };
        Self { graph }
    }

    /// A tensor that no operation makes: a weight, a cache, an input.
    ///
    /// # Panics
    /// If there is no such type.
    pub fn leaf(&mut self, name: &str, value_type: &str, ne: [i64; 2], memory: Memory) -> u32 {
        self.add(name, value_type, ne, memory, 0)
    }

    /// An operation whose result has memory of its own.
    pub fn op(&mut self, op: &str, name: &str, ne: [i64; 2], sources: &[u32]) -> u32 {
        let op = self.op_number(op);
        let node = self.add(name, "f32", ne, Memory::Compute, op);
        self.execute(node, sources);
        node
    }

    /// An operation that writes into the memory of another tensor.
    pub fn op_into(&mut self, op: &str, target: u32, sources: &[u32]) -> u32 {
        let op = self.op_number(op);
        let whole = self.graph.tensors[target as usize].clone();
        let name = format!("{} (view)", whole.name);
        let node = self.graph.tensors.len() as u32;
        self.graph.tensors.push(TensorShape { name, op, ..whole });
        self.execute(node, sources);
        node
    }

    /// A part of another tensor, or all of it in another shape; nothing is executed. Strides are in bytes.
    pub fn view(&mut self, whole: u32, offset: u64, ne: [i64; 4], nb: [u64; 4]) -> u32 {
        let shape = self.graph.tensors[whole as usize].clone();
        let (name, op) = (format!("{} (view)", shape.name), self.op_number("VIEW"));
        let sources = vec![whole];
        self.graph.tensors.push(TensorShape { name, op, ne, nb, address: shape.address + offset, sources, ..shape });
        self.graph.tensors.len() as u32 - 1
    }

    /// Says that each step brings the values of an operand.
    pub fn capture(&mut self, tensor: u32, form: CaptureForm) {
        self.graph.captures.push(Capture { tensor, form });
    }

    /// First byte of a tensor.
    pub fn address(&self, tensor: u32) -> u64 {
        self.graph.tensors[tensor as usize].address
    }

    /// The graph.
    pub fn build(self) -> Graph {
        self.graph
    }

    fn op_number(&mut self, op: &str) -> u16 {
        let known = self.graph.op_names.iter().position(|name| name == op);
        known.unwrap_or_else(|| {
            self.graph.op_names.push(op.to_owned());
            self.graph.op_names.len() - 1
        }) as u16
    }

    fn add(&mut self, name: &str, value_type: &str, ne: [i64; 2], memory: Memory, op: u16) -> u32 {
        let index = self.graph.tensors.len() as u32;
        let type_index = TYPES.iter().position(|(known, _)| *known == value_type).expect("a type of the list");
        let row_bytes = ne[0] as u64 * u64::from(TYPES[type_index].1);
        let all_bytes = row_bytes * ne[1] as u64;
        self.graph.tensors.push(TensorShape {
            name: name.to_owned(),
            value_type: type_index as u16,
            op,
            ne: [ne[0], ne[1], 1, 1],
            nb: [TYPES[type_index].1.into(), row_bytes, all_bytes, all_bytes],
            address: self.graph.buffers[memory as usize].base + u64::from(index) * TENSOR_SPACING,
            root: index,
            buffer: memory as u32,
            op_params: [0; 5],
            sources: Vec::new(),
        });
        index
    }

    fn execute(&mut self, node: u32, sources: &[u32]) {
        self.graph.tensors[node as usize].sources = sources.to_vec();
        self.graph.stamped_units.push(self.graph.units.len() as u32);
        self.graph.units.push(Unit { node, fused: NONE });
    }
}

/// A model of one layer that computes one token at a time: it looks the token up, multiplies it with the weight of the
/// keys, rotates and stores the key, and attends over the keys that are visible.
pub struct SmallModel {
    /// The graph of a token. Units: `GET_ROWS`, `MUL_MAT`, `ROPE`, `SET_ROWS`, `FLASH_ATTN_EXT`.
    pub graph: Graph,
}

impl SmallModel {
    /// Values of a token's vector, all f32.
    pub const WIDTH: i64 = 4;
    /// Words in the vocabulary.
    pub const WORDS: i64 = 16;
    /// Cells of the KV cache.
    pub const CELLS: i64 = 8;
    /// Bytes of a token's vector, and of a block of the KV cache.
    pub const ROW_BYTES: u64 = 4 * Self::WIDTH as u64;

    /// The model; its graph has the number 1.
    pub fn new() -> Self {
        let mut graph = GraphBuilder::new(1);
        let tokens = graph.leaf("inp_tokens", "i32", [1, 1], Memory::Compute);
        let positions = graph.leaf("inp_pos", "i32", [1, 1], Memory::Compute);
        let cells = graph.leaf("k_idxs", "i64", [1, 1], Memory::Compute);
        let mask = graph.leaf("kq_mask", "f32", [Self::CELLS, 1], Memory::Compute);
        let table = graph.leaf("token_embd.weight", "f32", [Self::WIDTH, Self::WORDS], Memory::Weights);
        let weight = graph.leaf("blk.0.attn_k.weight", "f32", [Self::WIDTH, Self::WIDTH], Memory::Weights);
        let cache = graph.leaf("cache_k_l0", "f32", [Self::WIDTH, Self::CELLS], Memory::Any);
        let embedded = graph.op("GET_ROWS", "embd", [Self::WIDTH, 1], &[table, tokens]);
        let key = graph.op("MUL_MAT", "Kcur-0", [Self::WIDTH, 1], &[weight, embedded]);
        let rotated = graph.op("ROPE", "Kcur_rope-0", [Self::WIDTH, 1], &[key, positions]);
        let stored = graph.op_into("SET_ROWS", cache, &[rotated, cells]);
        graph.op("FLASH_ATTN_EXT", "kqv_out-0", [Self::WIDTH, 1], &[rotated, stored, NONE, mask]);
        for tensor in [tokens, positions, cells] {
            graph.capture(tensor, CaptureForm::Indices);
        }
        graph.capture(mask, CaptureForm::VisibleCells);
        Self { graph: graph.build() }
    }

    /// The tensor of this name.
    ///
    /// # Panics
    /// If there is none.
    pub fn tensor(&self, name: &str) -> &TensorShape {
        self.graph.tensors.iter().find(|tensor| tensor.name == name).expect("a tensor of the model")
    }

    /// The computation of the token with this id at this position, which is kept in the cell of that number and sees all
    /// cells up to it. Operations end one nanosecond after the other, the last at the end of `ns`.
    ///
    /// # Panics
    /// If the position is beyond the cache, or the time too short for five operations.
    pub fn step(&self, position: u32, id: i64, ns: Range<u64>) -> Step {
        assert!(i64::from(position) < Self::CELLS && ns.end - ns.start >= 5, "a step that fits");
        let visible = VisibleCells { cells: Self::CELLS as u32, words: vec![(1 << (position + 1)) - 1] };
        let indices = [id, position.into(), position.into()].map(|value| IndexRuns::encode(&[value]));
        Step {
            graph: self.graph.id,
            thread: 7,
            begin_ns: ns.start,
            end_ns: ns.end,
            status: 0,
            nodes_done: self.graph.units.len() as u32,
            times_ns: (ns.end - 4..=ns.end).collect(),
            captures: indices.into_iter().chain([visible.encode()]).collect(),
            work: Vec::new(),
        }
    }
}

impl Default for SmallModel {
    fn default() -> Self {
        Self::new()
    }
}

/// The frames of one process, numbered in the order in which they are added.
#[derive(Clone, Debug, Default)]
pub struct RecordBuilder {
    frames: Vec<(u16, u64, Vec<u8>)>,
}

impl RecordBuilder {
    /// No frames.
    pub fn new() -> Self {
        Self::default()
    }

    /// A recorder that was linked into process 1 says who it is.
    pub fn hello(self, time_ns: u64) -> Self {
        self.hello_of_version(time_ns, WIRE_VERSION)
    }

    /// The same of a recorder that writes records of another version.
    pub fn hello_of_version(self, time_ns: u64, wire_version: u16) -> Self {
        let hello = Hello {
            wire_version,
            pid: 1,
            resolution: 2,
            way_in: "linked".to_owned(),
            program: "/made/up".to_owned(),
            fork: None,
        };
        self.record(time_ns, Kind::Hello, hello.encode())
    }

    /// A graph was seen for the first time.
    pub fn graph(self, time_ns: u64, graph: &Graph) -> Self {
        self.record(time_ns, Kind::Graph, graph.encode())
    }

    /// A graph was computed.
    pub fn step(self, time_ns: u64, step: &Step) -> Self {
        self.record(time_ns, Kind::Step, step.encode())
    }

    /// A weight tensor got its memory.
    pub fn weight(self, time_ns: u64, weight: &WeightPlaced) -> Self {
        self.record(time_ns, Kind::WeightPlaced, weight.encode())
    }

    /// Bytes were touched between graphs.
    pub fn transferred(self, time_ns: u64, transferred: &Transferred) -> Self {
        self.record(time_ns, Kind::Transferred, transferred.encode())
    }

    /// The engine reported something: JSON of an `EngineEvent`.
    pub fn engine(self, time_ns: u64, json: &[u8]) -> Self {
        self.record(time_ns, Kind::Engine, json.to_vec())
    }

    /// The recorder leaves the process alone.
    pub fn refusal(self, time_ns: u64, reason: &str) -> Self {
        self.record(time_ns, Kind::Refusal, Refusal { reason: reason.to_owned() }.encode())
    }

    /// Any payload, be it one of the kind or not.
    pub fn record(mut self, time_ns: u64, kind: Kind, payload: Vec<u8>) -> Self {
        self.frames.push((kind as u16, time_ns, payload));
        self
    }

    /// The frames.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        (0u64..).zip(&self.frames).map(|(sequence, (kind, time_ns, payload))| Frame {
            kind: *kind,
            sequence,
            time_ns: *time_ns,
            payload,
        })
    }

    /// The frames as a process writes them into its ring, one after the other.
    pub fn ring_bytes(&self) -> Vec<Vec<u8>> {
        let bytes = |frame: Frame<'_>| {
            let kind = Kind::from_number(frame.kind).expect("made from a kind");
            let header = frame_header(kind, frame.sequence, frame.time_ns, frame.payload.len());
            [&header, frame.payload].concat()
        };
        self.frames().map(bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split_frame;

    #[test]
    fn what_was_built_comes_back_from_its_bytes() {
        let model = SmallModel::new();
        let step = model.step(3, 11, 100..200);
        let records = RecordBuilder::new().hello(1).graph(2, &model.graph).step(3, &step);
        let bytes = records.ring_bytes().concat();
        let (hello, rest) = split_frame(&bytes).unwrap().unwrap();
        let (graph, rest) = split_frame(rest).unwrap().unwrap();
        let (last, rest) = split_frame(rest).unwrap().unwrap();
        assert_eq!((hello.sequence, graph.sequence, last.sequence, rest.len()), (0, 1, 2, 0));
        assert_eq!(Hello::decode(hello.payload).map(|hello| hello.pid), Ok(1));
        assert_eq!(Graph::decode(graph.payload), Ok(model.graph));
        assert_eq!(Step::decode(last.payload), Ok(step));
    }
}
