//! The records that cross from the recorded process to the observer.
//!
//! ```text
//! frame:  length u32 (of the whole frame) · kind u16 · 0 u16 · sequence u64 · time ns u64 · payload
//! ```
//!
//! Payloads are little-endian and described by the types here. If one changes, [`WIRE_VERSION`] moves with it: raw
//! streams are kept for as long as runs are.

use crate::encode::{Put, Take};

/// Version of the payloads, sent in [`Hello`].
pub const WIRE_VERSION: u16 = 1;

/// Bytes before the payload of a frame.
pub const FRAME_HEADER_BYTES: usize = 24;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// First frame of a process: a [`Hello`].
    Hello = 1,
    /// A [`Graph`] that was not seen before.
    Graph = 2,
    /// A [`Step`]: one computation of a graph.
    Step = 3,
    /// A [`WeightPlaced`]: a weight tensor got its memory.
    WeightPlaced = 4,
    /// JSON of an engine event, from engines that report them.
    Engine = 5,
    /// A [`Refusal`]: why nothing is recorded.
    Refusal = 6,
}

impl Kind {
    /// The kind with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        [Kind::Hello, Kind::Graph, Kind::Step, Kind::WeightPlaced, Kind::Engine, Kind::Refusal]
            .into_iter()
            .find(|kind| *kind as u16 == number)
    }
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the record does.
    Short,
    /// An index points outside its list.
    BadIndex,
    /// Bytes are left over.
    Long,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            DecodeError::Short => "the record is shorter than it says",
            DecodeError::BadIndex => "the record points outside itself",
            DecodeError::Long => "the record is longer than it says",
        })
    }
}

impl std::error::Error for DecodeError {}

/// One frame, borrowed from the bytes it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Number of the kind; unknown ones come from a newer recorder.
    pub kind: u16,
    /// Counts the frames of a process, from 0.
    pub sequence: u64,
    /// When it was recorded.
    pub time_ns: u64,
    /// The record.
    pub payload: &'a [u8],
}

/// The header of a frame with a payload of this length.
pub fn frame_header(kind: Kind, sequence: u64, time_ns: u64, payload_bytes: usize) -> [u8; FRAME_HEADER_BYTES] {
    let mut header = [0; FRAME_HEADER_BYTES];
    header[0..4].copy_from_slice(&((FRAME_HEADER_BYTES + payload_bytes) as u32).to_le_bytes());
    header[4..6].copy_from_slice(&(kind as u16).to_le_bytes());
    header[8..16].copy_from_slice(&sequence.to_le_bytes());
    header[16..24].copy_from_slice(&time_ns.to_le_bytes());
    header
}

/// Takes the first frame off `bytes`. `Ok(None)` means that more bytes are needed.
pub fn split_frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, &[u8])>, DecodeError> {
    if bytes.len() < FRAME_HEADER_BYTES {
        return Ok(None);
    }
    let mut header = Take::new(&bytes[..FRAME_HEADER_BYTES]);
    let length = header.u32()? as usize;
    if length < FRAME_HEADER_BYTES {
        return Err(DecodeError::Short);
    }
    if bytes.len() < length {
        return Ok(None);
    }
    let (kind, _) = (header.u16()?, header.u16()?);
    let (sequence, time_ns) = (header.u64()?, header.u64()?);
    let frame = Frame { kind, sequence, time_ns, payload: &bytes[FRAME_HEADER_BYTES..length] };
    Ok(Some((frame, &bytes[length..])))
}

/// Who records, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// [`WIRE_VERSION`] of the recorder.
    pub wire_version: u16,
    /// Process.
    pub pid: u32,
    /// 0 step, 1 layer, 2 op.
    pub resolution: u8,
    /// How the recorder came into the process: `linked` or `preloaded`.
    pub way_in: String,
    /// Program that is recorded.
    pub program: String,
}

impl Hello {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u16(self.wire_version);
        out.put_u32(self.pid);
        out.put_u8(self.resolution);
        out.put_text(&self.way_in);
        out.put_text(&self.program);
        out
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(payload);
        Ok(Self {
            wire_version: take.u16()?,
            pid: take.u32()?,
            resolution: take.u8()?,
            way_in: take.text()?,
            program: take.text()?,
        })
    }
}

/// Why the recorder leaves a process alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was found and what was needed.
    pub reason: String,
}

impl Refusal {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_text(&self.reason);
        out
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { reason: Take::new(payload).text()? })
    }
}

/// How a weight tensor came into its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Placement {
    /// It lies in a mapping of the model file.
    Mapped = 0,
    /// It was written into a buffer, perhaps in another arrangement.
    Copied = 1,
}

/// A weight tensor got its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightPlaced {
    /// How.
    pub placement: Placement,
    /// First byte.
    pub address: u64,
    /// Bytes in the buffer.
    pub size_bytes: u64,
    /// Name of the tensor.
    pub name: String,
    /// Name of the buffer's kind, such as `CPU_Mapped` or `CPU_REPACK`.
    pub buffer: String,
}

impl WeightPlaced {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u8(self.placement as u8);
        out.put_u64(self.address);
        out.put_u64(self.size_bytes);
        out.put_text(&self.name);
        out.put_text(&self.buffer);
        out
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(payload);
        Ok(Self {
            placement: if take.u8()? == Placement::Mapped as u8 { Placement::Mapped } else { Placement::Copied },
            address: take.u64()?,
            size_bytes: take.u64()?,
            name: take.text()?,
            buffer: take.text()?,
        })
    }
}

/// A buffer that tensors of a graph lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// First byte.
    pub base: u64,
    /// Bytes.
    pub size_bytes: u64,
    /// ggml's usage: 0 any, 1 weights, 2 compute.
    pub usage: u8,
    /// Whether the processor can address it.
    pub is_host: bool,
    /// Name of its kind.
    pub name: String,
}

/// A type of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueType {
    /// ggml's name, such as `q4_K`.
    pub name: String,
    /// Values per block.
    pub block_values: u32,
    /// Bytes per block.
    pub block_bytes: u32,
}

/// Stands for "none" where an index is expected.
pub const NONE: u32 = u32::MAX;

/// A tensor of a graph: a node, a leaf, or the root of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorShape {
    /// Name.
    pub name: String,
    /// Index into [`Graph::types`].
    pub value_type: u16,
    /// Index into [`Graph::op_names`].
    pub op: u16,
    /// Elements per dimension.
    pub ne: [i64; 4],
    /// Stride per dimension, in bytes.
    pub nb: [u64; 4],
    /// First byte.
    pub address: u64,
    /// Tensor that owns the memory; its own index if it does itself.
    pub root: u32,
    /// Index into [`Graph::buffers`], or [`NONE`].
    pub buffer: u32,
    /// First words of the operation's parameters.
    pub op_params: [i32; 5],
    /// Operands, as indices of tensors; [`NONE`] for an empty place between others.
    pub sources: Vec<u32>,
}

/// What is computed at once: a node, or a node fused with the one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The node.
    pub node: u32,
    /// The node that was fused into it and holds the result, or [`NONE`].
    pub fused: u32,
}

/// How a captured operand is written in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CaptureForm {
    /// Integers, as runs ([`IndexRuns`]).
    Indices = 0,
    /// Cells of the KV cache that the mask lets through ([`VisibleCells`]).
    VisibleCells = 1,
}

/// An operand whose values decide which bytes are touched; its values are in each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The operand.
    pub tensor: u32,
    /// How it is written.
    pub form: CaptureForm,
}

/// The shape of a computation, stored once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Number of the graph in its process.
    pub id: u32,
    /// Buffers.
    pub buffers: Vec<Buffer>,
    /// Types.
    pub types: Vec<ValueType>,
    /// Names of operations.
    pub op_names: Vec<String>,
    /// Tensors.
    pub tensors: Vec<TensorShape>,
    /// What is executed, in order.
    pub units: Vec<Unit>,
    /// What each step brings.
    pub captures: Vec<Capture>,
    /// Units after which the time is taken, in order.
    pub stamped_units: Vec<u32>,
}

impl Graph {
    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 * self.tensors.len());
        out.put_u32(self.id);
        put_list(&mut out, &self.buffers, |out, buffer| {
            out.put_u64(buffer.base);
            out.put_u64(buffer.size_bytes);
            out.put_u8(buffer.usage);
            out.put_u8(buffer.is_host.into());
            out.put_text(&buffer.name);
        });
        put_list(&mut out, &self.types, |out, value_type| {
            out.put_u32(value_type.block_values);
            out.put_u32(value_type.block_bytes);
            out.put_text(&value_type.name);
        });
        put_list(&mut out, &self.op_names, |out, name| out.put_text(name));
        put_list(&mut out, &self.tensors, put_tensor);
        put_list(&mut out, &self.units, |out, unit| {
            out.put_u32(unit.node);
            out.put_u32(unit.fused);
        });
        put_list(&mut out, &self.captures, |out, capture| {
            out.put_u32(capture.tensor);
            out.put_u8(capture.form as u8);
        });
        put_list(&mut out, &self.stamped_units, |out, unit| out.put_u32(*unit));
        out
    }

    /// Reads a payload and checks that every index in it points inside it.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(payload);
        let graph = Self {
            id: take.u32()?,
            buffers: take.list(20, |take| {
                Ok(Buffer {
                    base: take.u64()?,
                    size_bytes: take.u64()?,
                    usage: take.u8()?,
                    is_host: take.u8()? != 0,
                    name: take.text()?,
                })
            })?,
            types: take.list(10, |take| {
                Ok(ValueType { block_values: take.u32()?.max(1), block_bytes: take.u32()?, name: take.text()? })
            })?,
            op_names: take.list(2, Take::text)?,
            tensors: take.list(100, take_tensor)?,
            units: take.list(8, |take| Ok(Unit { node: take.u32()?, fused: take.u32()? }))?,
            captures: take.list(5, |take| {
                let tensor = take.u32()?;
                let is_indices = take.u8()? == CaptureForm::Indices as u8;
                let form = if is_indices { CaptureForm::Indices } else { CaptureForm::VisibleCells };
                Ok(Capture { tensor, form })
            })?,
            stamped_units: take.list(4, Take::u32)?,
        };
        if !take.is_empty() {
            return Err(DecodeError::Long);
        }
        graph.check_indices()?;
        Ok(graph)
    }

    fn check_indices(&self) -> Result<(), DecodeError> {
        let inside = |index: u32, length: usize| (index as usize) < length;
        let optional = |index: u32, length: usize| index == NONE || inside(index, length);
        let tensors = self.tensors.len();
        let tensors_fit = self.tensors.iter().all(|tensor| {
            inside(tensor.value_type.into(), self.types.len())
                && inside(tensor.op.into(), self.op_names.len())
                && inside(tensor.root, tensors)
                && optional(tensor.buffer, self.buffers.len())
                && tensor.sources.iter().all(|&source| optional(source, tensors))
        });
        let units_fit = self.units.iter().all(|unit| inside(unit.node, tensors) && optional(unit.fused, tensors));
        let captures_fit = self.captures.iter().all(|capture| inside(capture.tensor, tensors));
        let stamps_fit = self.stamped_units.iter().all(|&unit| inside(unit, self.units.len()));
        if tensors_fit && units_fit && captures_fit && stamps_fit { Ok(()) } else { Err(DecodeError::BadIndex) }
    }

    /// Name of a tensor's operation.
    pub fn op_name(&self, tensor: &TensorShape) -> &str {
        &self.op_names[usize::from(tensor.op)]
    }

    /// Type of a tensor's values.
    pub fn value_type(&self, tensor: &TensorShape) -> &ValueType {
        &self.types[usize::from(tensor.value_type)]
    }
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    out.put_u32(items.len() as u32);
    items.iter().for_each(|item| put(out, item));
}

fn put_tensor(out: &mut Vec<u8>, tensor: &TensorShape) {
    out.put_u16(tensor.value_type);
    out.put_u16(tensor.op);
    tensor.ne.iter().for_each(|&count| out.put_i64(count));
    tensor.nb.iter().for_each(|&stride| out.put_u64(stride));
    out.put_u64(tensor.address);
    out.put_u32(tensor.root);
    out.put_u32(tensor.buffer);
    tensor.op_params.iter().for_each(|&word| out.put_u32(word as u32));
    put_list(out, &tensor.sources, |out, &source| out.put_u32(source));
    out.put_text(&tensor.name);
}

fn take_tensor(take: &mut Take<'_>) -> Result<TensorShape, DecodeError> {
    let (value_type, op) = (take.u16()?, take.u16()?);
    let mut tensor = TensorShape {
        name: String::new(),
        value_type,
        op,
        ne: [0; 4],
        nb: [0; 4],
        address: 0,
        root: 0,
        buffer: 0,
        op_params: [0; 5],
        sources: Vec::new(),
    };
    for count in &mut tensor.ne {
        *count = take.i64()?;
    }
    for stride in &mut tensor.nb {
        *stride = take.u64()?;
    }
    tensor.address = take.u64()?;
    tensor.root = take.u32()?;
    tensor.buffer = take.u32()?;
    for word in &mut tensor.op_params {
        *word = take.u32()? as i32;
    }
    tensor.sources = take.list(4, Take::u32)?;
    tensor.name = take.text()?;
    Ok(tensor)
}

/// One computation of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The graph.
    pub graph: u32,
    /// Thread that computed (its helpers are not told apart).
    pub thread: u32,
    /// When the computation began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// What ggml returned; 0 is success.
    pub status: i32,
    /// Nodes after which ggml called back.
    pub nodes_done: u32,
    /// Times after the stamped units; as many as [`Graph::stamped_units`] if the calls could be matched to units,
    /// otherwise none.
    pub times_ns: Vec<u64>,
    /// Values of the captured operands, in the order of [`Graph::captures`]; empty for one that was not reached.
    pub captures: Vec<Vec<u8>>,
}

impl Step {
    /// Writes a step from its parts without building one: this runs once per token in the recorded process.
    pub(crate) fn encode_into(out: &mut Vec<u8>, step: &StepParts<'_>) {
        out.put_u32(step.graph);
        out.put_u32(step.thread);
        out.put_u64(step.begin_ns);
        out.put_u64(step.end_ns);
        out.put_u32(step.status as u32);
        out.put_u32(step.nodes_done);
        put_list(out, step.times_ns, |out, &time_ns| out.put_u64(time_ns));
        out.put_u32(step.capture_ends.len() as u32);
        let mut begin = 0;
        for &end in step.capture_ends {
            out.put_u32((end - begin) as u32);
            out.extend_from_slice(&step.captured[begin..end]);
            begin = end;
        }
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(payload);
        let step = Self {
            graph: take.u32()?,
            thread: take.u32()?,
            begin_ns: take.u64()?,
            end_ns: take.u64()?,
            status: take.u32()? as i32,
            nodes_done: take.u32()?,
            times_ns: take.list(8, Take::u64)?,
            captures: take.list(4, |take| {
                let length = take.u32()? as usize;
                Ok(take.bytes(length)?.to_vec())
            })?,
        };
        if take.is_empty() { Ok(step) } else { Err(DecodeError::Long) }
    }
}

/// What a step is written from.
pub(crate) struct StepParts<'a> {
    pub graph: u32,
    pub thread: u32,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub status: i32,
    pub nodes_done: u32,
    pub times_ns: &'a [u64],
    /// Captured values, one after the other.
    pub captured: &'a [u8],
    /// Where each of them ends.
    pub capture_ends: &'a [usize],
}

/// Captured integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexRuns {
    /// Runs of start, stride and count.
    pub runs: Vec<(i64, i64, u32)>,
}

impl IndexRuns {
    /// Reads a captured operand.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(bytes);
        Ok(Self { runs: take.list(20, |take| Ok((take.i64()?, take.i64()?, take.u32()?)))? })
    }

    /// The integers, in their order.
    pub fn values(&self) -> impl Iterator<Item = i64> + '_ {
        self.runs.iter().flat_map(|&(start, stride, count)| {
            (0..i64::from(count)).map(move |step| start.wrapping_add(stride.wrapping_mul(step)))
        })
    }

    /// How many integers there are.
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.2 as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

/// Captured mask: which cells any token of the step may see, for each stream of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibleCells {
    /// Cells per stream.
    pub cells: u32,
    /// One bit per cell, 64 to a word, stream after stream.
    pub words: Vec<u64>,
}

impl VisibleCells {
    /// Reads a captured operand.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut take = Take::new(bytes);
        let cells = take.u32()?;
        let words = take.list(8, Take::u64)?;
        let words_per_stream = (cells as usize).div_ceil(64);
        if words_per_stream == 0 || !words.len().is_multiple_of(words_per_stream) {
            return Err(DecodeError::BadIndex);
        }
        Ok(Self { cells, words })
    }

    /// Streams in the mask.
    pub fn streams(&self) -> usize {
        self.words.len() / (self.cells as usize).div_ceil(64).max(1)
    }

    /// Whether a cell of a stream can be seen.
    pub fn is_visible(&self, stream: usize, cell: usize) -> bool {
        let words_per_stream = (self.cells as usize).div_ceil(64);
        self.words.get(stream * words_per_stream + cell / 64).is_some_and(|word| word >> (cell % 64) & 1 == 1)
    }
}
