//! Which operands an operation reads and writes: the rules of ggml's processor kernels.
//!
//! One arm per operation whose kernel does not simply read all of every operand and write all of its result. Each was
//! read in `ggml/src/ggml-cpu` and is checked against an instruction-level trace by the tests.

use dwell_records::{Graph, NONE, TensorShape, Unit};

use super::recurrence::recurrence;

/// Queries from which attention over f16 or f32 caches works on tiles (`GGML_FA_TILE_Q`).
const ATTENTION_TILE_QUERIES: i64 = 64;
/// Cells of such a tile (`GGML_FA_TILE_KV`).
const ATTENTION_TILE_CELLS: u32 = 64;
/// `GGML_HINT_SRC0_IS_HADAMARD`: the matrix is known and not read.
pub const HINT_HADAMARD: i32 = 1;

/// The part of an operand that is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The rows that the integers of `indices` name: entries of dimension 1, in each plane of dimensions 2 and 3 those that
    /// the same plane of the indices names. Planes of the indices repeat where there are fewer.
    Rows {
        /// Tensor with the row numbers.
        indices: u32,
    },
    /// The rows that the integers of `indices` name, all of the one plane that there is.
    PlaneRows {
        /// Tensor with the row numbers.
        indices: u32,
    },
    /// The slabs of a dimension that the integers of `indices` name.
    Slabs {
        /// Tensor with the slab numbers.
        indices: u32,
        /// The dimension.
        dimension: usize,
    },
    /// The cells (dimension 1) that the mask lets through, in whole tiles of this many.
    Cells {
        /// Tensor with the mask.
        mask: u32,
        /// Cells that are read together if one of them is visible.
        tile: u32,
    },
    /// The first entries of dimension 1.
    FirstRows {
        /// How many.
        rows: i64,
    },
    /// A window of the result, as the `SET` operation describes it in its parameters.
    Window {
        /// Tensor whose shape the window has.
        shape_of: u32,
    },
    /// Bytes of a dense tensor.
    Bytes {
        /// First of them.
        offset: u64,
        /// How many.
        size_bytes: u64,
    },
}

/// An operand and the part of it that is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The tensor.
    pub tensor: u32,
    /// Which part.
    pub part: Part,
}

/// What a unit touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Operands that are read.
    pub loads: Vec<Operand>,
    /// Operands that are written.
    pub stores: Vec<Operand>,
    /// Of what was written, what is read again: a kernel that works in its result.
    pub reloads: Vec<Operand>,
    /// Whether the rule is the general one for an operation that is not known to follow it.
    pub is_assumed: bool,
}

/// Operations that read all of every operand and write all of their result.
const WHOLE_OPS: [&str; 36] = [
    "ADD",
    "ADD1",
    "SUB",
    "MUL",
    "DIV",
    "SQR",
    "SQRT",
    "LOG",
    "SIN",
    "COS",
    "SUM",
    "SUM_ROWS",
    "CUMSUM",
    "MEAN",
    "ARGMAX",
    "REPEAT",
    "CONCAT",
    "NORM",
    "RMS_NORM",
    "GROUP_NORM",
    "L2_NORM",
    "OUT_PROD",
    "SCALE",
    "CONT",
    "DUP",
    "ROPE",
    "CLAMP",
    "TOP_K",
    "LEAKY_RELU",
    "UNARY",
    "GLU",
    "PAD",
    "IM2COL",
    "SSM_CONV",
    "DIAG_MASK_INF",
    "FILL",
];

/// The rule of a unit.
pub fn touch(graph: &Graph, unit: &Unit) -> Touch {
    let node = &graph.tensors[unit.node as usize];
    if has_no_values(node) {
        return Touch { loads: Vec::new(), stores: Vec::new(), reloads: Vec::new(), is_assumed: false };
    }
    if unit.fused != NONE {
        return fused_norm(graph, unit, node);
    }
    if let Some(touch) = recurrence(graph, unit.node) {
        return touch;
    }
    let source = |place: usize| node.sources.get(place).copied().filter(|&tensor| tensor != NONE);
    let whole = |tensor: u32| Operand { tensor, part: Part::Whole };
    let mut loads = Vec::with_capacity(4);
    let mut stores = vec![whole(unit.node)];
    let mut reloads = Vec::new();
    let mut is_assumed = false;
    match (graph.op_name(node), source(0), source(1)) {
        ("GET_ROWS", Some(table), Some(indices)) => {
            loads.extend([Operand { tensor: table, part: Part::Rows { indices } }, whole(indices)]);
        }
        ("SET_ROWS", Some(rows), Some(indices)) => {
            loads.extend([whole(rows), whole(indices)]);
            stores = vec![Operand { tensor: unit.node, part: Part::Rows { indices } }];
        }
        ("MUL_MAT_ID", Some(experts), Some(input)) => {
            let indices = source(2).unwrap_or(input);
            loads.extend([
                Operand { tensor: experts, part: Part::Slabs { indices, dimension: 2 } },
                whole(input),
                whole(indices),
            ]);
        }
        ("ADD_ID", Some(input), Some(rows)) => {
            let indices = source(2).unwrap_or(rows);
            loads.extend([whole(input), Operand { tensor: rows, part: Part::PlaneRows { indices } }, whole(indices)]);
        }
        ("FLASH_ATTN_EXT", Some(queries), Some(keys)) => loads = attention_loads(graph, node, queries, keys),
        ("MUL_MAT", Some(_), Some(input)) if node.op_params[1] == HINT_HADAMARD => loads.push(whole(input)),
        ("MUL_MAT", Some(matrix), Some(input)) => loads.extend([whole(matrix), whole(input)]),
        // The second operand of a copy is where it goes, not where it comes from.
        ("CPY", Some(from), _) => loads.push(whole(from)),
        ("SOFT_MAX", Some(input), mask) => {
            loads.push(whole(input));
            let rows = graph.tensors[input as usize].ne[1];
            loads.extend(mask.map(|mask| Operand { tensor: mask, part: Part::FirstRows { rows } }));
            loads.extend(source(2).map(whole));
        }
        ("SET", Some(base), Some(window)) => {
            loads.push(whole(window));
            if node.op_params[4] != 0 {
                stores = vec![Operand { tensor: unit.node, part: Part::Window { shape_of: window } }];
            } else {
                loads.push(whole(base));
            }
        }
        // The indices are sorted where they end up. A single one has nothing to be compared with.
        ("ARGSORT", Some(_), _) if node.ne[0] < 2 => {}
        ("ARGSORT", Some(input), _) => {
            loads.push(whole(input));
            reloads.push(whole(unit.node));
        }
        (op, ..) => {
            is_assumed = !WHOLE_OPS.contains(&op);
            loads.extend(node.sources.iter().copied().filter(|&tensor| tensor != NONE).map(whole));
        }
    }
    Touch { loads, stores, reloads, is_assumed }
}

/// Whether there is nothing to compute: ggml passes such nodes over. The last layers of a prompt have them in all of its parts
/// but the last, for no token is chosen after those.
pub fn has_no_values(node: &TensorShape) -> bool {
    node.ne.contains(&0)
}

/// A norm and the product after it in one pass: the norm's result is never written.
fn fused_norm(graph: &Graph, unit: &Unit, norm: &TensorShape) -> Touch {
    let product = &graph.tensors[unit.fused as usize];
    let whole = |tensor: u32| Operand { tensor, part: Part::Whole };
    let input = norm.sources.first().copied();
    let factor = product.sources.iter().copied().find(|&tensor| tensor != unit.node);
    let loads = input.into_iter().chain(factor).filter(|&tensor| tensor != NONE).map(whole).collect();
    Touch { loads, stores: vec![whole(unit.fused)], reloads: Vec::new(), is_assumed: false }
}

fn attention_loads(graph: &Graph, node: &TensorShape, queries: u32, keys: u32) -> Vec<Operand> {
    let source = |place: usize| node.sources.get(place).copied().filter(|&tensor| tensor != NONE);
    let whole = |tensor: u32| Operand { tensor, part: Part::Whole };
    let query = &graph.tensors[queries as usize];
    let tile = attention_tile(graph, node, query, keys);
    let cells =
        |tensor: u32| Operand { tensor, part: source(3).map_or(Part::Whole, |mask| Part::Cells { mask, tile }) };
    let mut loads = vec![whole(queries), cells(keys)];
    loads.extend(source(2).map(cells));
    loads.extend(source(3).map(|mask| Operand { tensor: mask, part: Part::FirstRows { rows: query.ne[1] } }));
    loads.extend(source(4).map(whole));
    loads
}

/// Cells that the kernel reads together: one at a time, or a whole tile for many queries over a plain cache.
fn attention_tile(graph: &Graph, node: &TensorShape, query: &TensorShape, keys: u32) -> u32 {
    let type_of = |tensor: &TensorShape| graph.value_type(tensor).name.clone();
    let key_type = type_of(&graph.tensors[keys as usize]);
    let values = node.sources.get(2).and_then(|&values| graph.tensors.get(values as usize));
    let value_type = values.map(type_of);
    let is_plain = key_type == "f16" || key_type == "f32";
    let is_tiled = is_plain
        && value_type.as_ref() == Some(&key_type)
        && type_of(query) == "f32"
        && query.ne[1] >= ATTENTION_TILE_QUERIES;
    if is_tiled { ATTENTION_TILE_CELLS } else { 1 }
}
