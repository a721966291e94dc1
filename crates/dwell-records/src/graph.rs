//! The shape of a computation.

use crate::DecodeError;
use crate::encode::{Put, Take, put_list};

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
    /// Integers, as runs ([`crate::IndexRuns`]).
    Indices = 0,
    /// Cells of the KV cache that the mask lets through ([`crate::VisibleCells`]).
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
