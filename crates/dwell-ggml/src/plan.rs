//! From a graph seen for the first time to its stored shape and to what must be done each time it is computed.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};

use dwell_records::names::layer_of;
use dwell_records::{Buffer, Capture, CaptureForm, Graph, NONE, Resolution, TensorShape, Unit, ValueType};

use crate::abi::{self, Api, FLAG_COMPUTE, FLAG_OUTPUT, Tensor};
use crate::capture::Reader;
use crate::fingerprint::node_fingerprint;

/// Operations that do not touch memory (`ggml_op_is_empty`).
const EMPTY_OPS: [&str; 5] = ["NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE"];

/// What to do each time a graph is computed.
pub(crate) struct Plan {
    pub(crate) graph_id: u32,
    pub(crate) units: usize,
    /// Operands that hold their values before the computation.
    pub(crate) before: Vec<Reader>,
    /// Operands that are computed by the graph, with the unit that uses them first, in order.
    pub(crate) after: Vec<(usize, Reader)>,
    /// Units after which the time is kept.
    pub(crate) stamped_units: Vec<u32>,
    /// Nodes of the graph.
    pub(crate) nodes: usize,
    /// Fingerprints of some nodes, with their places.
    pub(crate) spot_checks: Vec<(c_int, u64)>,
}

/// Nodes of a graph that are looked at again when it is computed again.
const SPOT_CHECKS: usize = 8;

impl Plan {
    /// Whether a graph that was not allocated anew is what this plan was made for. It must be, by ggml's rules; this
    /// looks at a few nodes for programs that change a graph in place.
    ///
    /// # Safety
    /// `graph` is a live graph of the ggml behind `api`.
    pub(crate) unsafe fn still_fits(&self, api: &Api, graph: *mut c_void) -> bool {
        // SAFETY: the caller gives a live graph; places are below its number of nodes.
        unsafe {
            (api.ggml_graph_n_nodes)(graph) as usize == self.nodes
                && self
                    .spot_checks
                    .iter()
                    .all(|&(place, mark)| node_fingerprint((api.ggml_graph_node)(graph, place)) == mark)
        }
    }
}

/// Gathers a graph while its nodes are walked.
struct Survey<'a> {
    api: &'a Api,
    tensors: Vec<TensorShape>,
    pointers: Vec<*const Tensor>,
    index_of: HashMap<*const Tensor, u32>,
    buffers: Vec<Buffer>,
    buffer_index_of: HashMap<*mut c_void, u32>,
    types: Vec<ValueType>,
    type_index_of: HashMap<c_int, u16>,
    op_names: Vec<String>,
    op_index_of: HashMap<c_int, u16>,
}

/// Stores the shape of a graph and plans its recording.
///
/// # Safety
/// `graph` is a live, allocated graph of the ggml behind `api`, whose tensors have the layout of [`Tensor`].
pub(crate) unsafe fn plan_graph(api: &Api, graph: *mut c_void, graph_id: u32, resolution: Resolution) -> (Graph, Plan) {
    // SAFETY: the caller gives a live graph.
    let nodes: Vec<*const Tensor> = unsafe {
        (0..(api.ggml_graph_n_nodes)(graph)).map(|index| (api.ggml_graph_node)(graph, index).cast_const()).collect()
    };
    let mut survey = Survey {
        api,
        tensors: Vec::new(),
        pointers: Vec::new(),
        index_of: HashMap::new(),
        buffers: Vec::new(),
        buffer_index_of: HashMap::new(),
        types: Vec::new(),
        type_index_of: HashMap::new(),
        op_names: Vec::new(),
        op_index_of: HashMap::new(),
    };
    // SAFETY: as above; sources and roots live as long as the nodes that name them.
    let node_indices: Vec<u32> = nodes.iter().map(|&node| unsafe { survey.add(node) }).collect();
    let units = survey.units(&node_indices);
    let (captures, before, after) = survey.captures(&units);
    let stamped_units = survey.stamped_units(&units, resolution);
    let spot_checks = (0..nodes.len())
        .step_by((nodes.len() / SPOT_CHECKS).max(1))
        // SAFETY: the node is live.
        .map(|place| (place as c_int, unsafe { node_fingerprint(nodes[place]) }))
        .collect();
    let plan = Plan {
        graph_id,
        units: units.len(),
        before,
        after,
        stamped_units: stamped_units.clone(),
        nodes: nodes.len(),
        spot_checks,
    };
    let Survey { tensors, buffers, types, op_names, .. } = survey;
    (Graph { id: graph_id, buffers, types, op_names, tensors, units, captures, stamped_units }, plan)
}

impl Survey<'_> {
    /// # Safety
    /// `pointer` is a live tensor; so are its sources and roots.
    unsafe fn add(&mut self, pointer: *const Tensor) -> u32 {
        if let Some(&index) = self.index_of.get(&pointer) {
            return index;
        }
        // SAFETY: the caller gives a live tensor.
        let tensor = unsafe { &*pointer };
        // A place is taken before the sources are visited, so that the order of nodes is kept.
        let index = self.tensors.len() as u32;
        self.index_of.insert(pointer, index);
        self.pointers.push(pointer);
        let shape = TensorShape {
            name: tensor.name(),
            value_type: self.value_type(tensor.type_id),
            op: self.op(tensor.op),
            ne: tensor.ne,
            nb: tensor.nb.map(|stride| stride as u64),
            address: tensor.data as u64,
            root: index,
            buffer: NONE,
            op_params: [0, 1, 2, 3, 4].map(|word| tensor.op_params[word]),
            sources: Vec::new(),
        };
        self.tensors.push(shape);
        let root = tensor.root();
        // SAFETY: a view's root and a node's sources live as long as they do.
        unsafe {
            let root_index = if std::ptr::eq(root, pointer) { index } else { self.add(root) };
            let buffer = if (*root).buffer.is_null() { tensor.buffer } else { (*root).buffer };
            let buffer_index = self.buffer(buffer);
            let last_source = tensor.src.iter().rposition(|source| !source.is_null());
            let sources: Vec<u32> = tensor.src[..last_source.map_or(0, |last| last + 1)]
                .iter()
                .map(|&source| if source.is_null() { NONE } else { self.add(source) })
                .collect();
            let shape = &mut self.tensors[index as usize];
            shape.root = root_index;
            shape.buffer = buffer_index;
            shape.sources = sources;
        }
        index
    }

    fn value_type(&mut self, type_id: c_int) -> u16 {
        *self.type_index_of.entry(type_id).or_insert_with(|| {
            // SAFETY: ggml's tables of types; the id comes from a tensor.
            self.types.push(unsafe {
                ValueType {
                    name: abi::text((self.api.ggml_type_name)(type_id)),
                    block_values: (self.api.ggml_blck_size)(type_id).max(1) as u32,
                    block_bytes: (self.api.ggml_type_size)(type_id) as u32,
                }
            });
            (self.types.len() - 1) as u16
        })
    }

    fn op(&mut self, op: c_int) -> u16 {
        *self.op_index_of.entry(op).or_insert_with(|| {
            // SAFETY: ggml's table of operations; the number comes from a tensor.
            self.op_names.push(unsafe { abi::text((self.api.ggml_op_name)(op)) });
            (self.op_names.len() - 1) as u16
        })
    }

    fn buffer(&mut self, buffer: *mut c_void) -> u32 {
        if buffer.is_null() {
            return NONE;
        }
        *self.buffer_index_of.entry(buffer).or_insert_with(|| {
            // SAFETY: a buffer of a live tensor.
            self.buffers.push(unsafe {
                Buffer {
                    base: (self.api.ggml_backend_buffer_get_base)(buffer) as u64,
                    size_bytes: (self.api.ggml_backend_buffer_get_size)(buffer) as u64,
                    usage: (self.api.ggml_backend_buffer_get_usage)(buffer) as u8,
                    is_host: abi::is_in_host_memory(self.api, buffer),
                    name: abi::text((self.api.ggml_backend_buffer_name)(buffer)),
                }
            });
            (self.buffers.len() - 1) as u32
        })
    }

    fn tensor(&self, index: u32) -> &Tensor {
        // SAFETY: every pointer in the list was live when it was added, and the graph is still alive.
        unsafe { &*self.pointers[index as usize] }
    }

    fn op_name(&self, index: u32) -> &str {
        &self.op_names[usize::from(self.tensors[index as usize].op)]
    }

    fn is_executed(&self, index: u32) -> bool {
        self.tensor(index).flags & FLAG_COMPUTE != 0 && !EMPTY_OPS.contains(&self.op_name(index))
    }

    /// What is executed, in order. The processor's only fusion so far is a norm with the product that follows it
    /// (`ggml_cpu_try_fuse_ops`); if a version fuses more, the count of calls per graph gives it away.
    fn units(&self, nodes: &[u32]) -> Vec<Unit> {
        let mut uses: HashMap<u32, u32> = HashMap::new();
        for &node in nodes {
            for &source in self.tensors[node as usize].sources.iter().filter(|&&source| source != NONE) {
                *uses.entry(source).or_default() += 1;
            }
        }
        let can_fuse = std::env::var_os("GGML_CPU_DISABLE_FUSION").is_none();
        let mut units = Vec::new();
        let mut position = 0;
        while position < nodes.len() {
            let node = nodes[position];
            position += 1;
            if !self.is_executed(node) {
                continue;
            }
            let fused = nodes
                .get(position)
                .copied()
                .filter(|&next| can_fuse && uses.get(&node) == Some(&1) && self.is_fused_norm(node, next));
            position += usize::from(fused.is_some());
            units.push(Unit { node, fused: fused.unwrap_or(NONE) });
        }
        units
    }

    fn is_fused_norm(&self, norm: u32, product: u32) -> bool {
        if self.op_name(norm) != "RMS_NORM" || self.op_name(product) != "MUL" || !self.is_executed(product) {
            return false;
        }
        let (norm_tensor, shape) = (self.tensor(norm), &self.tensors[product as usize]);
        let factor = match shape.sources[..] {
            [first, second] if first == norm => second,
            [first, second] if second == norm => first,
            _ => return false,
        };
        let is_f32 = |index: u32| self.types[usize::from(self.tensors[index as usize].value_type)].name == "f32";
        norm_tensor.view_src.is_null()
            && norm_tensor.flags & FLAG_OUTPUT == 0
            && norm_tensor.ne == shape.ne
            && is_f32(self.tensors[norm as usize].sources[0])
            && is_f32(product)
            && is_f32(factor)
            && self.tensor(factor).ne[0] == norm_tensor.ne[0]
            && self.tensor(factor).nb[0] == size_of::<f32>()
    }

    /// Operands whose values decide which bytes are touched, or which position a KV cell has: those that are inputs of
    /// the graph first, then those that the graph computes, in the order in which they are first used.
    fn captures(&self, units: &[Unit]) -> (Vec<Capture>, Vec<Reader>, Vec<(usize, Reader)>) {
        let mut before: Vec<(Capture, Reader)> = Vec::new();
        let mut after: Vec<(Capture, Reader, usize)> = Vec::new();
        for (unit_index, unit) in units.iter().enumerate() {
            let node = &self.tensors[unit.node as usize];
            let (place, form) = match self.op_name(unit.node) {
                "GET_ROWS" | "SET_ROWS" | "ROPE" => (1, CaptureForm::Indices),
                "MUL_MAT_ID" | "ADD_ID" => (2, CaptureForm::Indices),
                "SSM_SCAN" => (6, CaptureForm::Indices),
                "FLASH_ATTN_EXT" => (3, CaptureForm::VisibleCells),
                _ => continue,
            };
            let Some(&operand) = node.sources.get(place).filter(|&&operand| operand != NONE) else { continue };
            let is_known = before.iter().map(|(capture, _)| capture.tensor).any(|tensor| tensor == operand)
                || after.iter().map(|(capture, ..)| capture.tensor).any(|tensor| tensor == operand);
            if is_known || !self.can_be_read(operand) {
                continue;
            }
            let queries = self.tensor(node.sources[0]).ne[1];
            let Some(reader) = self.reader(operand, form, queries) else { continue };
            let capture = Capture { tensor: operand, form };
            let root = self.tensors[operand as usize].root;
            if self.op_name(root) == "NONE" {
                before.push((capture, reader));
            } else {
                after.push((capture, reader, unit_index));
            }
        }
        let captures = before.iter().map(|(capture, _)| *capture).chain(after.iter().map(|(capture, ..)| *capture));
        (
            captures.collect(),
            before.iter().map(|(_, reader)| *reader).collect(),
            after.iter().map(|&(_, reader, unit)| (unit, reader)).collect(),
        )
    }

    fn can_be_read(&self, operand: u32) -> bool {
        let shape = &self.tensors[operand as usize];
        shape.address != 0 && self.buffers.get(shape.buffer as usize).is_some_and(|buffer| buffer.is_host)
    }

    fn reader(&self, operand: u32, form: CaptureForm, queries: i64) -> Option<Reader> {
        let tensor = self.tensor(operand);
        let type_name = self.types[usize::from(self.tensors[operand as usize].value_type)].name.as_str();
        let data = tensor.data.cast_const().cast();
        match (form, type_name) {
            (CaptureForm::Indices, "i32" | "i64") => {
                Some(Reader::Integers { data, ne: tensor.ne, nb: tensor.nb, is_wide: type_name == "i64" })
            }
            (CaptureForm::VisibleCells, "f16" | "f32") => Some(Reader::Mask {
                data,
                cells: tensor.ne[0] as usize,
                rows: tensor.ne[1].min(queries) as usize,
                streams: tensor.ne[3] as usize,
                nb: tensor.nb,
                is_half: type_name == "f16",
            }),
            _ => None,
        }
    }

    /// Units after which the time is kept; what follows the last of them has the time of the step's end.
    fn stamped_units(&self, units: &[Unit], resolution: Resolution) -> Vec<u32> {
        let last = units.len().saturating_sub(1);
        let layers = self.unit_layers(units);
        let is_stamped = |unit: usize| match resolution {
            Resolution::Op => true,
            Resolution::Layer => unit == last || layers[unit] != layers[unit + 1],
            Resolution::Step => false,
        };
        (0..units.len()).filter(|&unit| is_stamped(unit)).map(|unit| unit as u32).collect()
    }

    /// The layer of each unit; one whose name does not say it is in the layer of the one before.
    fn unit_layers(&self, units: &[Unit]) -> Vec<Option<u16>> {
        let mut current = None;
        units
            .iter()
            .map(|unit| {
                current = layer_of(&self.tensors[unit.node as usize].name).or(current);
                current
            })
            .collect()
    }
}
