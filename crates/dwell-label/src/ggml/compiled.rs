//! A graph prepared for expansion: every operand with its region and its bytes, as far as they do not change per step.

use std::collections::HashMap;
use std::ops::Range;

use dwell_events::RegionType;
use dwell_records::names::{Kept, kept_in, layer_of};
use dwell_records::{Capture, CaptureForm, Graph, NONE, TensorShape, Unit};

use super::kv::{KvCaches, KvIndex};
use super::ranges::{ByteRange, Layout, join};
use super::touch::{Operand, Part, touch};
use super::work::{Work, work};
use crate::regions::{RegionLabel, RegionPlace, Regions};

/// ggml's usages of buffers.
const USAGE_ANY: u8 = 0;
const USAGE_WEIGHTS: u8 = 1;
const USAGE_COMPUTE: u8 = 2;

/// Bytes of an operand.
pub enum Bytes {
    /// The same in every step.
    Fixed { ranges: Vec<ByteRange>, cells: Vec<Range<u32>> },
    /// Rows named by captured integers, plane by plane.
    Rows { capture: usize, layout: Layout, indices_ne: [u64; 4] },
    /// Slabs of a dimension named by captured integers.
    Slabs { capture: usize, layout: Layout, dimension: usize },
    /// Cells that a captured mask lets through.
    Cells { capture: usize, layout: Layout, tile: u32 },
}

/// An operand of a unit.
pub struct CompiledOperand {
    pub region: RegionLabel,
    /// Bytes of the tensor that owns the memory. Nothing outside of it is touched.
    pub extent: ByteRange,
    pub kv: Option<KvIndex>,
    pub bytes: Bytes,
}

/// What is executed at once.
pub struct CompiledUnit {
    pub op: u16,
    pub is_assumed: bool,
    pub loads: Vec<CompiledOperand>,
    pub stores: Vec<CompiledOperand>,
    /// What is read of the result.
    pub reloads: Vec<CompiledOperand>,
    /// What its kernel keeps in the work buffer.
    pub work: Option<Work>,
    /// Whether bytes may be in several of the loads, depending on the step.
    pub has_shared_loads: bool,
    /// Index of the first time taken after this unit.
    pub stamp: usize,
}

/// A graph prepared for expansion.
pub struct CompiledGraph {
    pub op_names: Vec<String>,
    pub units: Vec<CompiledUnit>,
    pub captures: Vec<Capture>,
    pub stamps: usize,
    /// Capture with the ids of the tokens.
    pub token_ids: Option<usize>,
    /// Capture with their positions.
    pub positions: Option<usize>,
    /// Capture with the cells that keys are stored in.
    pub key_cells: Option<usize>,
    /// Whether it stores neither keys nor states: an encoder.
    pub keeps_nothing: bool,
    /// Capture with the numbers of the tokens whose result is wanted.
    pub outputs: Option<usize>,
    /// Whether no result is wanted of any.
    pub has_no_output: bool,
    /// Tokens computed.
    pub tokens: usize,
    /// Inputs that its operations have as operands: the runtime writes them before the computation.
    pub inputs: Vec<CompiledOperand>,
    /// Bytes of all inputs, whether an operation reads them or not.
    pub input_bytes: u64,
    /// Bytes of the result that the runtime reads after it.
    pub result_bytes: u64,
    /// Whether any operand lies in memory of another device.
    pub has_foreign_memory: bool,
}

/// Prepares a graph.
pub fn compile(graph: &Graph, regions: &mut Regions, kv: &mut KvCaches) -> CompiledGraph {
    let capture_of: HashMap<u32, usize> =
        graph.captures.iter().enumerate().map(|(index, capture)| (capture.tensor, index)).collect();
    unnamed_caches(graph).for_each(|root| kv.note_unnamed(root.address));
    let mut compiler = Compiler { graph, regions, kv, capture_of };
    let mut next_stamp = 0;
    let mut units = Vec::with_capacity(graph.units.len());
    let mut inputs: Vec<u32> = Vec::new();
    for (index, unit) in graph.units.iter().enumerate() {
        while graph.stamped_units.get(next_stamp).is_some_and(|&stamped| (stamped as usize) < index) {
            next_stamp += 1;
        }
        let touch = touch(graph, unit);
        // Stores first: they tell which caches are transposed before the loads of the same graph need to know.
        let stores = touch.stores.iter().map(|operand| compiler.operand(operand, true)).collect();
        let (loads, has_shared_loads) = compiler.loads(&touch.loads);
        let reloads = touch.reloads.iter().map(|operand| compiler.operand(operand, false)).collect();
        // Also those that the kernel knows and does not read, as the matrix of a rotation: the runtime writes them all the same.
        for root in operands_of(graph, unit).map(|operand| graph.tensors[operand as usize].root) {
            if is_input(graph, &graph.tensors[root as usize]) && !inputs.contains(&root) {
                inputs.push(root);
            }
        }
        let op = graph.tensors[unit.node as usize].op;
        let mut operands = touch.loads.iter().chain(&touch.stores);
        let is_assumed = touch.is_assumed || operands.any(|operand| compiler.lacks_capture(operand));
        let work = work(graph, unit, &compiler.capture_of);
        units.push(CompiledUnit { op, is_assumed, loads, stores, reloads, work, has_shared_loads, stamp: next_stamp });
    }
    let whole = |tensor: u32| Operand { tensor, part: Part::Whole };
    let inputs = inputs.into_iter().map(|tensor| compiler.operand(&whole(tensor), true)).collect();
    let token_ids = compiler.capture_used_by("GET_ROWS", "token_embd");
    let positions = compiler.positions();
    CompiledGraph {
        op_names: graph.op_names.clone(),
        captures: graph.captures.clone(),
        stamps: graph.stamped_units.len(),
        tokens: compiler.tokens(token_ids),
        key_cells: compiler.key_cells(),
        keeps_nothing: !units.iter().flat_map(|unit| &unit.stores).any(is_kept),
        units,
        token_ids,
        positions,
        outputs: compiler.outputs(),
        has_no_output: has_no_output(graph),
        inputs,
        input_bytes: input_bytes(graph),
        result_bytes: result_bytes(graph),
        has_foreign_memory: graph.buffers.iter().any(|buffer| !buffer.is_host),
    }
}

impl CompiledGraph {
    /// The first cache that rows are stored into, and the capture with their cells.
    pub fn stored_keys(&self) -> Option<(KvIndex, usize)> {
        self.units.iter().flat_map(|unit| &unit.stores).find_map(|operand| match operand.bytes {
            Bytes::Rows { capture, .. } => Some((operand.kv?, capture)),
            _ => None,
        })
    }
}

struct Compiler<'a> {
    graph: &'a Graph,
    regions: &'a mut Regions,
    kv: &'a mut KvCaches,
    capture_of: HashMap<u32, usize>,
}

impl Compiler<'_> {
    fn operand(&mut self, operand: &Operand, is_store: bool) -> CompiledOperand {
        let tensor = &self.graph.tensors[operand.tensor as usize];
        let root = &self.graph.tensors[tensor.root as usize];
        let root_layout = Layout::of(self.graph, root);
        let region_type = region_type_of(self.graph, root, self.kv);
        let root_bytes = total_bytes(self.graph, root);
        let region = self.regions.declare(&RegionPlace {
            region_type,
            tensor: &root.name,
            layer: layer_of(&root.name),
            address: root.address,
            size_bytes: root_bytes,
        });
        let value_bytes = self.graph.value_type(root).block_bytes;
        let kv = self.kv.index_of(root, root_layout.row_bytes, value_bytes.into());
        let is_value_store = matches!(operand.part, Part::Rows { .. }) && tensor.ne[0] == 1 && root.ne[0] > 1;
        if let Some(index) = kv.filter(|_| is_store && is_value_store) {
            self.kv.set_transposed(index);
        }
        let bytes = self.bytes(operand, tensor, kv);
        let extent = ByteRange { address: root.address, size_bytes: root_bytes };
        CompiledOperand { region, extent, kv, bytes }
    }

    /// The loads of a unit, each byte in one of them, and whether that can only be told by the step. Operands that are parts
    /// of one tensor may overlap: keys and values that are the same bytes, a product of a tensor with itself.
    fn loads(&mut self, operands: &[Operand]) -> (Vec<CompiledOperand>, bool) {
        let mut loads: Vec<CompiledOperand> = Vec::with_capacity(operands.len());
        let mut is_open = false;
        for operand in operands {
            let load = self.operand(operand, false);
            let same = loads.iter_mut().find(|other| other.region.id == load.region.id);
            match same.map(|other| (&mut other.bytes, &load.bytes)) {
                None => loads.push(load),
                Some((Bytes::Fixed { ranges: known, cells }, Bytes::Fixed { ranges, .. })) => {
                    let joined = join(known.iter().chain(ranges).copied().collect());
                    if total(&joined) == total(known).saturating_add(total(ranges)) {
                        loads.push(load);
                    } else {
                        *cells = load.kv.map_or_else(Vec::new, |index| self.kv.cells_in(index, &joined));
                        *known = joined;
                    }
                }
                Some(_) => {
                    is_open = true;
                    loads.push(load);
                }
            }
        }
        (loads, is_open)
    }

    /// Whether the part of an operand depends on values that the recorder could not read; all of it is taken then.
    fn lacks_capture(&self, operand: &Operand) -> bool {
        match operand.part {
            Part::Rows { indices } | Part::PlaneRows { indices } | Part::Slabs { indices, .. } => {
                !self.capture_of.contains_key(&indices)
            }
            Part::Cells { mask, .. } => !self.capture_of.contains_key(&mask),
            Part::Whole | Part::FirstRows { .. } | Part::Window { .. } | Part::Bytes { .. } => false,
        }
    }

    fn bytes(&self, operand: &Operand, tensor: &TensorShape, kv: Option<KvIndex>) -> Bytes {
        let layout = Layout::of(self.graph, tensor);
        let capture = |tensor: u32| self.capture_of.get(&tensor).copied();
        match operand.part {
            Part::Rows { indices } if capture(indices).is_some() => Bytes::Rows {
                capture: capture(indices).expect("checked by the guard"),
                layout,
                indices_ne: self.graph.tensors[indices as usize].ne.map(|count| u64::try_from(count).unwrap_or(0)),
            },
            Part::PlaneRows { indices } if capture(indices).is_some() => {
                let capture = capture(indices).expect("checked by the guard");
                let layout = layout.slice(2, 0, 1).slice(3, 0, 1);
                Bytes::Rows { capture, layout, indices_ne: [u64::MAX, 1, 1, 1] }
            }
            Part::Slabs { indices, dimension } if capture(indices).is_some() => {
                Bytes::Slabs { capture: capture(indices).expect("checked by the guard"), layout, dimension }
            }
            Part::Cells { mask, tile } if capture(mask).is_some() => {
                Bytes::Cells { capture: capture(mask).expect("checked by the guard"), layout, tile: tile.max(1) }
            }
            Part::FirstRows { rows } => {
                let rows = u64::try_from(rows).unwrap_or(0).min(layout.ne[1]);
                self.fixed(layout.slice(1, 0, rows).ranges(), kv)
            }
            Part::Bytes { offset, size_bytes } => {
                let range = ByteRange { address: tensor.address.saturating_add(offset), size_bytes };
                self.fixed(vec![range], kv)
            }
            Part::Window { shape_of } => self.fixed(self.window(operand.tensor, shape_of), kv),
            _ => self.fixed(layout.ranges(), kv),
        }
    }

    fn fixed(&self, ranges: Vec<ByteRange>, kv: Option<KvIndex>) -> Bytes {
        let cells = kv.map_or_else(Vec::new, |index| self.kv.cells_in(index, &ranges));
        Bytes::Fixed { ranges, cells }
    }

    /// The window that an in-place `SET` writes: strides and offset are the operation's parameters.
    fn window(&self, target: u32, shape_of: u32) -> Vec<ByteRange> {
        let target = &self.graph.tensors[target as usize];
        let word = |place: usize| u64::from(target.op_params[place] as u32);
        let mut layout = Layout::of(self.graph, &self.graph.tensors[shape_of as usize]);
        layout.address = target.address.saturating_add(word(3));
        layout.nb = [layout.nb[0], word(0), word(1), word(2)];
        layout.ranges()
    }

    fn node_of(&self, unit: usize) -> &TensorShape {
        &self.graph.tensors[self.graph.units[unit].node as usize]
    }

    /// Capture of the index operand of the first unit with this operation on a table with this name.
    fn capture_used_by(&self, op: &str, table_prefix: &str) -> Option<usize> {
        (0..self.graph.units.len()).map(|unit| self.node_of(unit)).find_map(|node| {
            let table = node.sources.first().and_then(|&table| self.graph.tensors.get(table as usize))?;
            let is_it = self.graph.op_name(node) == op && table.name.starts_with(table_prefix);
            self.capture_of.get(node.sources.get(1).filter(|_| is_it)?).copied()
        })
    }

    /// Positions are what keys are rotated by, in a graph that stores keys. (A context shift rotates too, but by the
    /// distance of the shift.)
    fn positions(&self) -> Option<usize> {
        let nodes = || (0..self.graph.units.len()).map(|unit| self.node_of(unit));
        nodes().find(|node| self.graph.op_name(node) == "SET_ROWS")?;
        let rotation = nodes().find(|node| self.graph.op_name(node) == "ROPE")?;
        self.capture_of.get(rotation.sources.get(1)?).copied()
    }

    /// Cells are what keys are stored at.
    fn key_cells(&self) -> Option<usize> {
        let node = (0..self.graph.units.len()).map(|unit| self.node_of(unit)).find(|node| {
            let root = &self.graph.tensors[node.root as usize];
            self.graph.op_name(node) == "SET_ROWS" && kept_in(&root.name) == Some(Kept::Keys)
        })?;
        self.capture_of.get(node.sources.get(1)?).copied()
    }

    /// Before the last layer computes on, the rows that a token is chosen after are picked out of all, by an input.
    fn outputs(&self) -> Option<usize> {
        (0..self.graph.units.len()).map(|unit| self.node_of(unit)).find_map(|node| {
            let source = |place: usize| self.graph.tensors.get(*node.sources.get(place)? as usize);
            let (table, indices) = (source(0)?, source(1)?);
            let is_computed = region_type_of(self.graph, table, self.kv) == RegionType::Activation;
            let is_input = self.graph.op_name(indices) == "NONE";
            let is_it = self.graph.op_name(node) == "GET_ROWS" && is_computed && is_input;
            self.capture_of.get(node.sources.get(1).filter(|_| is_it)?).copied()
        })
    }

    fn tokens(&self, token_ids: Option<usize>) -> usize {
        let ids = token_ids.map(|capture| self.graph.captures[capture]);
        ids.filter(|capture| capture.form == CaptureForm::Indices)
            .map_or(0, |capture| usize::try_from(self.graph.tensors[capture.tensor as usize].ne[0]).unwrap_or(0))
    }
}

/// Whether an operand is in memory that outlives the graph.
fn is_kept(operand: &CompiledOperand) -> bool {
    matches!(operand.region.region_type, RegionType::KvCache | RegionType::RecurrentState)
}

/// Whose memory a tensor of a graph lies in that owns its memory.
fn region_type_of(graph: &Graph, root: &TensorShape, kv: &KvCaches) -> RegionType {
    region_type(&root.name, root.address, graph.buffers.get(root.buffer as usize).map(|buffer| buffer.usage), kv)
}

/// Whose memory a tensor lies in, by its name, by what its buffer is for, and by what is known of its address.
pub fn region_type(name: &str, address: u64, usage: Option<u8>, kv: &KvCaches) -> RegionType {
    if kv.is_unnamed(address) {
        return RegionType::KvCache;
    }
    match kept_in(name) {
        Some(Kept::Keys | Kept::Values) => return RegionType::KvCache,
        Some(Kept::State) => return RegionType::RecurrentState,
        None => {}
    }
    match usage {
        Some(USAGE_WEIGHTS) => RegionType::Weight,
        Some(USAGE_COMPUTE) => RegionType::Activation,
        Some(_) => RegionType::Runtime,
        None => RegionType::Unknown,
    }
}

/// Caches to which their program gave no name: vectors in memory that is neither for weights nor for computing, and into
/// parts of which results are copied. whisper.cpp keeps keys and values of all layers in such.
fn unnamed_caches(graph: &Graph) -> impl Iterator<Item = &TensorShape> {
    let is_copy = |node: &&TensorShape| graph.op_name(node) == "CPY";
    let copies = graph.units.iter().map(|unit| &graph.tensors[unit.node as usize]).filter(is_copy);
    copies.map(|copy| &graph.tensors[copy.root as usize]).filter(|root| {
        let usage = graph.buffers.get(root.buffer as usize).map(|buffer| buffer.usage);
        is_unnamed(&root.name) && graph.op_name(root) == "NONE" && root.ne[1..] == [1, 1, 1] && usage == Some(USAGE_ANY)
    })
}

/// ggml numbers the leaves of a graph that have no name.
fn is_unnamed(name: &str) -> bool {
    let number = name.strip_prefix("leaf_");
    name.is_empty() || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The operands of what is executed at once, whether its kernel reads them or not.
fn operands_of<'a>(graph: &'a Graph, unit: &'a Unit) -> impl Iterator<Item = u32> + 'a {
    let nodes = [unit.node, unit.fused].into_iter().filter(|&node| node != NONE);
    let operands = nodes.flat_map(|node| graph.tensors[node as usize].sources.iter().copied());
    operands.filter(|&operand| operand != NONE)
}

/// Leaves in compute memory are inputs: the runtime writes them before each computation.
fn is_input(graph: &Graph, tensor: &TensorShape) -> bool {
    graph.op_name(tensor) == "NONE"
        && graph.buffers.get(tensor.buffer as usize).is_some_and(|buffer| buffer.usage == USAGE_COMPUTE)
}

fn input_bytes(graph: &Graph) -> u64 {
    graph
        .tensors
        .iter()
        .filter(|tensor| is_input(graph, tensor))
        .map(|tensor| total_bytes(graph, tensor))
        .fold(0, u64::saturating_add)
}

/// The last unit's result is what the runtime reads back.
fn result_bytes(graph: &Graph) -> u64 {
    let result = graph.tensors.iter().find(|tensor| tensor.name == "result_output");
    result.map_or(0, |tensor| total_bytes(graph, tensor))
}

/// The result of a computation that only fills the cache has no rows.
fn has_no_output(graph: &Graph) -> bool {
    graph.tensors.iter().any(|tensor| tensor.name == "result_output" && tensor.ne[1] == 0)
}

fn total_bytes(graph: &Graph, tensor: &TensorShape) -> u64 {
    total(&Layout::of(graph, tensor).ranges())
}

fn total(ranges: &[ByteRange]) -> u64 {
    ranges.iter().map(|range| range.size_bytes).fold(0, u64::saturating_add)
}
