//! What kernels keep in the work buffer of a graph: inputs of products in the type that the kernel multiplies, and the sums
//! of attention over a part of the cells.
//!
//! Read in `ggml/src/ggml-cpu` and checked against an instruction-level trace by the tests, as the rules of [`super::touch`]
//! are. Tables and tiles of single threads are left out: which thread computes what is only known to the kernel.

use std::collections::HashMap;
use std::ops::Range;

use dwell_records::{Graph, NONE, TensorShape, Unit};

use super::expand::Captured;
use super::ranges::{ByteRange, RANGES_MAX, join};
use super::touch::{HINT_HADAMARD, has_no_values};

/// Cells from which attention of one token is split among threads.
const SPLIT_CELLS_MIN: i64 = 512;
/// Values that keep what threads write apart (`CACHE_LINE_SIZE_F32`).
const PADDING_VALUES: u64 = 16;
/// Threads that ggml can have (`GGML_MAX_N_THREADS`); a damaged record may claim any number.
const THREADS_MAX: u32 = 512;
/// Bytes of a value that is summed up.
const SUM_BYTES: u64 = 4;
/// Values before those of a partial sum: the largest product, and the sum of the weights.
const SUM_HEAD_VALUES: u64 = 2;

/// What a unit keeps in the work buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// The second operand of a product, in the type that the kernel multiplies.
    Converted {
        /// Its bytes in that type.
        size_bytes: u64,
    },
    /// Sums of attention, one per head and thread.
    PartialSums(PartialSums),
}

/// Attention whose cells are split among threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSums {
    heads: u64,
    key_values: u64,
    value_values: u64,
    cells: u64,
    /// Capture with the cells that can be seen; all if there is none.
    mask: Option<usize>,
    /// Whether the first sum has something in it whatever can be seen.
    has_sinks: bool,
}

/// The work of a unit.
pub fn work(graph: &Graph, unit: &Unit, capture_of: &HashMap<u32, usize>) -> Option<Work> {
    let node = &graph.tensors[unit.node as usize];
    match graph.op_name(node) {
        _ if has_no_values(node) => None,
        "MUL_MAT" if node.op_params[1] == HINT_HADAMARD => None,
        "MUL_MAT" | "MUL_MAT_ID" => converted(graph, node),
        "FLASH_ATTN_EXT" => partial_sums(graph, node, capture_of).map(Work::PartialSums),
        _ => None,
    }
}

fn source<'a>(graph: &'a Graph, node: &TensorShape, place: usize) -> Option<&'a TensorShape> {
    node.sources.get(place).and_then(|&tensor| graph.tensors.get(tensor as usize))
}

fn converted(graph: &Graph, node: &TensorShape) -> Option<Work> {
    let (matrix, input) = (source(graph, node, 0)?, source(graph, node, 1)?);
    let factor = Factor::of(&graph.value_type(matrix).name)?;
    if graph.value_type(input).name == factor.name {
        return None;
    }
    let values = input.ne.iter().map(|&count| u64::try_from(count).unwrap_or(0)).fold(1, u64::saturating_mul);
    Some(Work::Converted { size_bytes: (values / factor.block_values).saturating_mul(factor.block_bytes) })
}

/// The type that values of another type are multiplied with (`vec_dot_type`).
struct Factor {
    name: &'static str,
    block_values: u64,
    block_bytes: u64,
}

impl Factor {
    fn of(type_name: &str) -> Option<Self> {
        let (name, block_values, block_bytes) = match type_name {
            "f32" => ("f32", 1, 4),
            "f16" => ("f16", 1, 2),
            "bf16" => ("bf16", 1, 2),
            "q1_0" | "q2_0" | "q4_0" | "q5_0" | "q8_0" | "iq4_nl" | "mxfp4" | "nvfp4" => ("q8_0", 32, 34),
            "q4_1" | "q5_1" | "q8_1" => ("q8_1", 32, 36),
            name if name.ends_with("_K") || name.starts_with("iq") || name.starts_with("tq") => ("q8_K", 256, 292),
            _ => return None,
        };
        Some(Self { name, block_values, block_bytes })
    }
}

fn partial_sums(graph: &Graph, node: &TensorShape, capture_of: &HashMap<u32, usize>) -> Option<PartialSums> {
    let [query, keys, values] = [0, 1, 2].map(|place| source(graph, node, place));
    let (query, keys, values) = (query?, keys?, values?);
    let type_of = |tensor: &TensorShape| graph.value_type(tensor).name.as_str();
    let is_plain = ["f16", "f32"].contains(&type_of(keys)) && type_of(values) == type_of(keys);
    let is_one_token = query.ne[1] == 1 && query.ne[3] == 1 && type_of(query) == "f32";
    if !is_plain || !is_one_token || keys.ne[1] < SPLIT_CELLS_MIN {
        return None;
    }
    let count = |count: i64| u64::try_from(count).unwrap_or(0);
    let operand = |place: usize| node.sources.get(place).filter(|&&tensor| tensor != NONE);
    Some(PartialSums {
        heads: count(query.ne[2]),
        key_values: count(keys.ne[0]),
        value_values: count(values.ne[0]),
        cells: count(keys.ne[1]),
        mask: operand(3).and_then(|mask| capture_of.get(mask).copied()),
        has_sinks: operand(4).is_some(),
    })
}

impl Work {
    /// Bytes that are stored by this many threads, in a buffer that begins at `base`.
    pub fn stored(&self, base: u64, threads: u32) -> Vec<ByteRange> {
        match self {
            Work::Converted { size_bytes } => vec![ByteRange { address: base, size_bytes: *size_bytes }],
            Work::PartialSums(sums) => {
                let used = sums.parts(threads).count() as u64;
                let values = |part: u64| if part < used { sums.sum_values() } else { SUM_HEAD_VALUES };
                sums.ranges(base, threads, |part| Some(values(part)))
            }
        }
    }

    /// Bytes of it that are loaded again.
    pub fn loaded(&self, base: u64, threads: u32, captures: &[Captured]) -> Vec<ByteRange> {
        match self {
            Work::Converted { size_bytes } => vec![ByteRange { address: base, size_bytes: *size_bytes }],
            Work::PartialSums(sums) => {
                let parts: Vec<Range<u64>> = sums.parts(threads).collect();
                sums.ranges(base, threads, |part| {
                    let cells = parts.get(part as usize)?;
                    let has_sum = (part == 0 && sums.has_sinks) || sums.sees(cells, captures);
                    Some(if has_sum { sums.sum_values() } else { SUM_HEAD_VALUES })
                })
            }
        }
    }
}

impl PartialSums {
    fn sum_values(&self) -> u64 {
        SUM_HEAD_VALUES.saturating_add(self.value_values)
    }

    /// The cells of each thread that has any.
    fn parts(&self, threads: u32) -> impl Iterator<Item = Range<u64>> {
        let per_part = self.cells.div_ceil(threads.clamp(1, THREADS_MAX).into()).max(1);
        let cells = self.cells;
        (0..cells.div_ceil(per_part)).map(move |part| part * per_part..((part + 1) * per_part).min(cells))
    }

    fn sees(&self, cells: &Range<u64>, captures: &[Captured]) -> bool {
        match self.mask.and_then(|mask| captures.get(mask)) {
            Some(Captured::Cells(visible)) => {
                (cells.start..cells.end.min(visible.cells.into())).any(|cell| visible.is_visible(0, cell as usize))
            }
            _ => true,
        }
    }

    /// The first values of the sums of each head and part, as many as `values` says of the part.
    fn ranges(&self, base: u64, threads: u32, values: impl Fn(u64) -> Option<u64>) -> Vec<ByteRange> {
        let threads = u64::from(threads.min(THREADS_MAX));
        let per_thread = self.key_values.saturating_add(2 * self.value_values).saturating_add(PADDING_VALUES);
        let first = base.saturating_add(per_thread.saturating_mul(threads * SUM_BYTES));
        let sizes: Vec<(u64, u64)> = (0..threads).filter_map(|part| Some((part, values(part)?))).collect();
        let sum_bytes = self.sum_values().saturating_mul(SUM_BYTES);
        let sums = self.heads.saturating_mul(threads);
        if sums > RANGES_MAX {
            return vec![ByteRange { address: first, size_bytes: sums.saturating_mul(sum_bytes) }];
        }
        let of_head = |head: u64| {
            sizes.iter().map(move |&(part, values)| ByteRange {
                address: first.saturating_add((head * threads + part).saturating_mul(sum_bytes)),
                size_bytes: values * SUM_BYTES,
            })
        };
        join((0..self.heads).flat_map(of_head).collect())
    }
}
