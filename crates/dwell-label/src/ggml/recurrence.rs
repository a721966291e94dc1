//! Operations that carry a state from token to token: what they read and write.
//!
//! Their result is two things one after the other: what they compute for each token, and the states after the last
//! token, of one sequence after the other. From the second token of a sequence on, the state before is the one in the
//! result. Where the runtime asks for snapshots (parameter `K`), the states after each of the last tokens follow.

use dwell_records::{Graph, NONE, TensorShape};

use super::touch::{Operand, Part, Touch};

/// Bytes of a value; the kernels know 32-bit floats only.
const VALUE_BYTES: u64 = 4;

/// The result of such an operation.
struct Halves {
    /// Bytes of what is computed for the tokens.
    outputs: u64,
    /// Bytes of one state of each sequence.
    states: u64,
    tokens_per_sequence: u64,
}

/// The rule of a node, if it carries a state.
pub fn recurrence(graph: &Graph, node: u32) -> Option<Touch> {
    let shape = &graph.tensors[node as usize];
    let source = |place: usize| {
        let tensor = shape.sources.get(place).copied().filter(|&tensor| tensor != NONE)?;
        Some(&graph.tensors[tensor as usize])
    };
    match graph.op_name(shape) {
        "SSM_SCAN" => scan(shape, node, source(0)?, source(1)?),
        "GATED_DELTA_NET" => Some(delta_net(shape, node, source(2)?)),
        // The outputs are sums that grow in place.
        "RWKV_WKV6" => Some(kernel_by_heads(shape, node, source(1)?, source(5)?, true)),
        "GATED_LINEAR_ATTN" => Some(kernel_by_heads(shape, node, source(1)?, source(4)?, true)),
        "RWKV_WKV7" => Some(kernel_by_heads(shape, node, source(1)?, source(6)?, false)),
        _ => None,
    }
}

/// States are those that the last operand names; they lie in the cache, among those of other sequences.
fn scan(shape: &TensorShape, node: u32, state: &TensorShape, input: &TensorShape) -> Option<Touch> {
    let halves = Halves {
        outputs: values(&input.ne),
        states: state.nb[3].saturating_mul(count(input.ne[3])),
        tokens_per_sequence: count(input.ne[2]),
    };
    let indices = shape.sources.get(6).copied().filter(|&indices| indices != NONE)?;
    let mut touch = whole_loads(shape, node);
    touch.loads[0].part = Part::Slabs { indices, dimension: 3 };
    touch.stores[0].part = halves.with_states(snapshots(shape));
    if halves.tokens_per_sequence > 1 {
        touch.reloads.push(Operand { tensor: node, part: halves.states() });
    }
    Some(touch)
}

/// Works on the states in its result; on scratch memory where there are snapshots.
fn delta_net(shape: &TensorShape, node: u32, input: &TensorShape) -> Touch {
    let [length, heads, tokens, sequences] = input.ne.map(count);
    let per_head = length.saturating_mul(length).saturating_mul(VALUE_BYTES);
    let halves = Halves {
        outputs: values(&input.ne),
        states: per_head.saturating_mul(heads).saturating_mul(sequences),
        tokens_per_sequence: tokens,
    };
    let mut touch = whole_loads(shape, node);
    touch.stores[0].part = halves.with_states(snapshots(shape));
    if snapshots(shape) == 1 {
        touch.reloads.push(Operand { tensor: node, part: halves.states() });
    }
    touch
}

/// Tokens of all sequences lie one after the other in dimension 2 of the input.
fn kernel_by_heads(
    shape: &TensorShape,
    node: u32,
    input: &TensorShape,
    state: &TensorShape,
    sums_in_place: bool,
) -> Touch {
    let (tokens, sequences) = (count(input.ne[2]), count(state.ne[1]).max(1));
    let halves = Halves {
        outputs: count(shape.ne[0]).saturating_mul(tokens).saturating_mul(VALUE_BYTES),
        states: values(&state.ne),
        tokens_per_sequence: tokens / sequences,
    };
    let mut touch = whole_loads(shape, node);
    let reloaded = match (sums_in_place, halves.tokens_per_sequence > 1) {
        (true, true) => Some(Part::Whole),
        (true, false) => Some(Part::Bytes { offset: 0, size_bytes: halves.outputs }),
        (false, true) => Some(halves.states()),
        (false, false) => None,
    };
    touch.reloads.extend(reloaded.map(|part| Operand { tensor: node, part }));
    touch
}

impl Halves {
    /// The states after the last token.
    fn states(&self) -> Part {
        Part::Bytes { offset: self.outputs, size_bytes: self.states }
    }

    /// What is written: snapshots of tokens that were not computed are left as they are.
    fn with_states(&self, snapshots: u64) -> Part {
        let written = snapshots.min(self.tokens_per_sequence.max(1));
        Part::Bytes { offset: 0, size_bytes: self.outputs.saturating_add(self.states.saturating_mul(written)) }
    }
}

fn whole_loads(shape: &TensorShape, node: u32) -> Touch {
    let whole = |tensor: u32| Operand { tensor, part: Part::Whole };
    let loads = shape.sources.iter().copied().filter(|&tensor| tensor != NONE).map(whole).collect();
    Touch { loads, stores: vec![whole(node)], reloads: Vec::new(), is_assumed: false }
}

/// States that are kept of each sequence. Versions without the parameter have 0 in its place.
fn snapshots(shape: &TensorShape) -> u64 {
    u64::try_from(shape.op_params[0]).unwrap_or(1).max(1)
}

fn count(entries: i64) -> u64 {
    u64::try_from(entries).unwrap_or(0)
}

/// Bytes of a dense tensor of this shape.
fn values(ne: &[i64; 4]) -> u64 {
    ne.iter().fold(VALUE_BYTES, |bytes, &entries| bytes.saturating_mul(count(entries)))
}
