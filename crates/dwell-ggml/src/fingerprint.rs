//! Whether a graph is one that was seen before.
//!
//! It is one pass over the nodes with no branches on their kind, and covers everything that a [`dwell_records::Graph`] is
//! made of and that can change between two graphs built at the same addresses. Even so it costs a cache miss or more per
//! tensor, so it is left out for a graph that is computed again as it was (see [`crate::recorder`]).

use std::ffi::{c_int, c_void};

use crate::abi::{Api, Tensor};

/// Odd constant with well-mixed bits, from the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Words of an operation's parameters that a stored graph has.
const RECORDED_OP_PARAMS: usize = 5;

struct Mixer(u64);

impl Mixer {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
    }
}

/// A number that two graphs share only if they touch the same memory in the same way.
///
/// # Safety
/// `graph` is a live, allocated graph of the ggml behind `api`.
pub(crate) unsafe fn fingerprint(api: &Api, graph: *mut c_void) -> u64 {
    let mut mixer = Mixer(MULTIPLIER);
    // SAFETY: the caller gives a live graph; its nodes and their sources live as long as it does.
    unsafe {
        let nodes = (api.ggml_graph_n_nodes)(graph);
        mixer.add(nodes as u64);
        for index in 0..nodes as c_int {
            add_node(&mut mixer, &*(api.ggml_graph_node)(graph, index));
        }
    }
    mixer.0
}

/// The same for one node, to look whether it is still what it was.
///
/// # Safety
/// `node` is a live tensor whose sources live too.
pub(crate) unsafe fn node_fingerprint(node: *const Tensor) -> u64 {
    let mut mixer = Mixer(MULTIPLIER);
    // SAFETY: the caller's promise is passed on.
    unsafe { add_node(&mut mixer, &*node) };
    mixer.0
}

/// # Safety
/// `node` is a live tensor whose sources live too.
#[inline]
unsafe fn add_node(mixer: &mut Mixer, node: &Tensor) {
    mixer.add(node as *const Tensor as u64);
    mixer.add(node.data as u64);
    mixer.add((node.op as u64) << 40 ^ (node.type_id as u64) << 32 ^ node.flags as u64);
    for dim in 0..node.ne.len() {
        mixer.add(node.ne[dim] as u64 ^ (node.nb[dim] as u64).rotate_left(32));
    }
    for &word in &node.op_params[..RECORDED_OP_PARAMS] {
        mixer.add(word as u32 as u64);
    }
    for &source in node.src.iter().take_while(|source| !source.is_null()) {
        // SAFETY: a source that is not null lives as long as the graph.
        let operand = unsafe { &*source };
        mixer.add(source as u64 ^ (operand.data as u64).rotate_left(32));
        for dim in 0..operand.ne.len() {
            mixer.add(operand.ne[dim] as u64 ^ (operand.nb[dim] as u64).rotate_left(32));
        }
    }
}
