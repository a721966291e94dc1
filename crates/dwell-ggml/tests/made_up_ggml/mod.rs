//! A ggml that computes nothing: tensors in memory, and the functions that the recorder asks about them.

use std::ffi::{CStr, c_char, c_int, c_void};

use dwell_ggml::abi::{Api, FLAG_COMPUTE, MAX_NAME, MAX_OP_PARAMS, MAX_SRC, Tensor};

/// Operations by their number.
const OPS: [&CStr; 8] =
    [c"NONE", c"SCALE", c"SET_ROWS", c"RMS_NORM", c"MUL", c"FLASH_ATTN_EXT", c"GET_ROWS", c"MUL_MAT"];
/// Types by their number, with the bytes of a value.
const TYPES: [(&CStr, usize); 3] = [(c"f32", 4), (c"i64", 8), (c"f16", 2)];

/// What memory is for, as ggml numbers it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Any = 0,
    Weights = 1,
    Compute = 2,
}

/// A buffer; its memory is wherever the tensors have theirs.
pub struct Buffer {
    usage: Memory,
}

static BUFFERS: [Buffer; 3] =
    [Buffer { usage: Memory::Any }, Buffer { usage: Memory::Weights }, Buffer { usage: Memory::Compute }];

impl Buffer {
    /// The buffer of a kind of memory.
    pub fn of(memory: Memory) -> *mut c_void {
        (&raw const BUFFERS[memory as usize]).cast_mut().cast()
    }
}

/// A graph and its tensors, which stay where they are.
pub struct MadeUpGraph {
    nodes: Vec<*mut Tensor>,
    #[allow(clippy::vec_box, reason = "nodes point to tensors, which must not move when there are more")]
    tensors: Vec<Box<Tensor>>,
    memory: Vec<Box<[u8]>>,
}

impl MadeUpGraph {
    pub fn new() -> Self {
        Self { nodes: Vec::new(), tensors: Vec::new(), memory: Vec::new() }
    }

    /// What is handed to the recorder as a graph.
    pub fn pointer(&mut self) -> *mut c_void {
        (&raw mut self.nodes).cast()
    }

    /// A tensor that no operation makes.
    pub fn leaf(&mut self, name: &str, value_type: &str, ne: [i64; 2], memory: Memory) -> *mut Tensor {
        self.tensor(name, value_type, ne, memory)
    }

    /// The same, with values.
    pub fn leaf_with(
        &mut self,
        name: &str,
        value_type: &str,
        ne: [i64; 2],
        memory: Memory,
        values: &[u8],
    ) -> *mut Tensor {
        let tensor = self.tensor(name, value_type, ne, memory);
        self.set(name, values);
        tensor
    }

    /// An operation with memory of its own.
    pub fn op(&mut self, op: &str, name: &str, ne: [i64; 2], sources: &[*mut Tensor]) -> *mut Tensor {
        let node = self.tensor(name, "f32", ne, Memory::Compute);
        self.execute(node, op, sources)
    }

    /// An operation that writes into the memory of another tensor.
    pub fn op_into(&mut self, op: &str, target: *mut Tensor, sources: &[*mut Tensor]) -> *mut Tensor {
        let node = self.tensor("view", "f32", [1, 1], Memory::Any);
        // SAFETY: both tensors are in boxes of this graph.
        unsafe {
            ((*node).ne, (*node).nb, (*node).data) = ((*target).ne, (*target).nb, (*target).data);
            (*node).view_src = target;
            (*node).buffer = std::ptr::null_mut();
        }
        self.execute(node, op, sources)
    }

    /// Sets flags of a node.
    pub fn add_flags(&mut self, node: *mut Tensor, flags: i32) {
        // SAFETY: the tensor is in a box of this graph.
        unsafe { (*node).flags |= flags };
    }

    /// Writes values into a leaf.
    pub fn set(&mut self, name: &str, values: &[u8]) {
        let place = self.tensors.iter().position(|tensor| tensor.name() == name).unwrap();
        self.memory[place][..values.len()].copy_from_slice(values);
    }

    /// First byte of a tensor.
    pub fn address(&self, name: &str) -> u64 {
        self.tensors.iter().find(|tensor| tensor.name() == name).unwrap().data as u64
    }

    fn tensor(&mut self, name: &str, value_type: &str, ne: [i64; 2], memory: Memory) -> *mut Tensor {
        let type_id = TYPES.iter().position(|(known, _)| known.to_str() == Ok(value_type)).unwrap();
        let row_bytes = ne[0] as usize * TYPES[type_id].1;
        let all_bytes = row_bytes * ne[1] as usize;
        let mut bytes = vec![0u8; all_bytes].into_boxed_slice();
        let data = bytes.as_mut_ptr().cast();
        self.memory.push(bytes);
        let mut text: [c_char; MAX_NAME] = [0; MAX_NAME];
        text.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte as c_char);
        self.tensors.push(Box::new(Tensor {
            type_id: type_id as c_int,
            buffer: Buffer::of(memory),
            ne: [ne[0], ne[1], 1, 1],
            nb: [TYPES[type_id].1, row_bytes, all_bytes, all_bytes],
            op: 0,
            op_params: [0; MAX_OP_PARAMS],
            flags: 0,
            src: [std::ptr::null_mut(); MAX_SRC],
            view_src: std::ptr::null_mut(),
            view_offs: 0,
            data,
            name: text,
        }));
        let last = self.tensors.last_mut().unwrap();
        &raw mut **last
    }

    fn execute(&mut self, node: *mut Tensor, op: &str, sources: &[*mut Tensor]) -> *mut Tensor {
        // SAFETY: the tensor is in a box of this graph.
        unsafe {
            (*node).op = OPS.iter().position(|known| known.to_str() == Ok(op)).unwrap() as c_int;
            (*node).flags |= FLAG_COMPUTE;
            (&mut (*node).src)[..sources.len()].copy_from_slice(sources);
        }
        self.nodes.push(node);
        node
    }
}

unsafe extern "C" fn node_count(graph: *mut c_void) -> c_int {
    // SAFETY: graphs are pointers to lists of nodes.
    unsafe { (*graph.cast::<Vec<*mut Tensor>>()).len() as c_int }
}

unsafe extern "C" fn node(graph: *mut c_void, index: c_int) -> *mut Tensor {
    // SAFETY: as above.
    unsafe { (&(*graph.cast::<Vec<*mut Tensor>>()))[index as usize] }
}

unsafe extern "C" fn op_name(op: c_int) -> *const c_char {
    OPS[op as usize].as_ptr()
}

unsafe extern "C" fn type_name(type_id: c_int) -> *const c_char {
    TYPES[type_id as usize].0.as_ptr()
}

unsafe extern "C" fn type_size(type_id: c_int) -> usize {
    TYPES[type_id as usize].1
}

unsafe extern "C" fn block_size(_: c_int) -> i64 {
    1
}

unsafe extern "C" fn byte_count(tensor: *const Tensor) -> usize {
    // SAFETY: the recorder gives a live tensor; all of them are dense.
    unsafe { ((*tensor).ne[0] * (*tensor).ne[1]) as usize * TYPES[(*tensor).type_id as usize].1 }
}

unsafe extern "C" fn tensor_name(tensor: *const Tensor) -> *const c_char {
    // SAFETY: the recorder gives a live tensor.
    unsafe { (&raw const (*tensor).name).cast() }
}

unsafe extern "C" fn name_elsewhere(_: *const Tensor) -> *const c_char {
    c"elsewhere".as_ptr()
}

unsafe extern "C" fn tensor_data(tensor: *const Tensor) -> *mut c_void {
    // SAFETY: the recorder gives a live tensor.
    unsafe { (*tensor).data }
}

unsafe extern "C" fn buffer_base(_: *mut c_void) -> *mut c_void {
    std::ptr::null_mut()
}

unsafe extern "C" fn buffer_size(_: *mut c_void) -> usize {
    usize::MAX
}

unsafe extern "C" fn buffer_usage(buffer: *mut c_void) -> c_int {
    // SAFETY: buffers are those of the list.
    unsafe { (*buffer.cast::<Buffer>()).usage as c_int }
}

unsafe extern "C" fn buffer_name(_: *mut c_void) -> *const c_char {
    c"CPU".as_ptr()
}

unsafe extern "C" fn is_host(_: *mut c_void) -> bool {
    true
}

/// The functions of this ggml.
pub fn api() -> Api {
    Api {
        ggml_graph_n_nodes: node_count,
        ggml_graph_node: node,
        ggml_op_name: op_name,
        ggml_type_name: type_name,
        ggml_type_size: type_size,
        ggml_blck_size: block_size,
        ggml_nbytes: byte_count,
        ggml_get_name: tensor_name,
        ggml_get_data: tensor_data,
        ggml_backend_buffer_get_base: buffer_base,
        ggml_backend_buffer_get_size: buffer_size,
        ggml_backend_buffer_get_usage: buffer_usage,
        ggml_backend_buffer_name: buffer_name,
        ggml_backend_buffer_is_host: is_host,
    }
}

/// The functions of one whose tensors have their names elsewhere.
pub fn api_with_another_layout() -> Api {
    Api { ggml_get_name: name_elsewhere, ..api() }
}
