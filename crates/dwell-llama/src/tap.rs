//! Looking at the tensors of a graph while it is computed.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

use dwell_events::{DIMENSIONS, GraphNode};
use llama_cpp_sys_2 as sys;

use crate::EngineError;

/// Who looks at tensors while they are computed; called on the thread that runs the job.
///
/// The functions must not panic: they are called out of llama.cpp, through which a panic cannot unwind.
pub trait TensorTap {
    /// The graphs that the model will compute, before it computes any of them for the job. An error ends the job.
    fn begin(&mut self, graphs: &TrialGraphs) -> Result<(), EngineError>;

    /// Whether the elements of this tensor are wanted. All tensors of a graph are asked about, in their order; the
    /// graph is computed up to each that is wanted.
    fn wants(&mut self, tensor: &GraphTensor<'_>) -> bool;

    /// A wanted tensor has been computed; its elements are there until this returns.
    fn computed(&mut self, tensor: &GraphTensor<'_>);
}

/// The graphs of a trial with the model, in a context of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialGraphs {
    /// Of a prompt of several tokens.
    pub prompt: Vec<GraphNode<'static>>,
    /// Of one decoded token.
    pub decode: Vec<GraphNode<'static>>,
}

/// A tensor of a graph.
#[derive(Clone, Copy)]
pub struct GraphTensor<'graph> {
    raw: &'graph sys::ggml_tensor,
}

impl<'graph> GraphTensor<'graph> {
    /// Its name in the graph; not unique.
    pub fn name(&self) -> &'graph str {
        name_of(self.raw)
    }

    /// The operation that computes it, such as `MUL_MAT`.
    pub fn op(&self) -> &'static str {
        // SAFETY: has no preconditions beyond a valid operation, which the tensor has.
        static_name(unsafe { sys::ggml_op_name(self.raw.op) })
    }

    /// llama.cpp's name of its type, such as `f32`.
    pub fn type_name(&self) -> &'static str {
        // SAFETY: has no preconditions beyond a valid type, which the tensor has.
        static_name(unsafe { sys::ggml_type_name(self.raw.type_) })
    }

    /// Its lengths, innermost first as ggml has them.
    pub fn lengths(&self) -> [u64; DIMENSIONS] {
        self.raw.ne.map(|length| u64::try_from(length).unwrap_or(0))
    }

    /// Bytes from one element to the next, by dimension, innermost first.
    pub fn strides_bytes(&self) -> [usize; DIMENSIONS] {
        self.raw.nb
    }

    /// Names of what it is computed from.
    pub fn sources(&self) -> impl Iterator<Item = &'graph str> {
        // SAFETY: a source that is not null lives as long as the graph.
        self.raw.src.iter().filter_map(|&source| unsafe { source.as_ref() }).map(name_of)
    }

    /// Whether it will be computed: graphs hold tensors that are not.
    pub fn is_computed(&self) -> bool {
        self.raw.flags.cast_unsigned() & sys::GGML_TENSOR_FLAG_COMPUTE != 0
    }

    /// What is to be known of it without its elements.
    pub fn node(&self) -> GraphNode<'graph> {
        GraphNode {
            name: self.name().into(),
            op: self.op(),
            type_name: self.type_name(),
            lengths: self.lengths(),
            sources: self.sources().map(Cow::Borrowed).collect(),
        }
    }

    /// Its memory from the first element to the last, in which its strides count; `copy` is used where the processor
    /// cannot read it in place. Only in [`TensorTap::computed`] are they what was computed.
    pub fn memory<'copy>(&self, copy: &'copy mut Vec<u8>) -> &'copy [u8]
    where
        'graph: 'copy,
    {
        // SAFETY: the tensor is allocated, as all tensors of a graph that is being computed are.
        let length_bytes = unsafe { sys::ggml_nbytes(self.raw) };
        if self.is_in_host_memory() {
            // SAFETY: a tensor that the processor can read has its elements at `data`, in this many bytes; nothing
            // computes while a tap looks.
            return unsafe { std::slice::from_raw_parts(self.raw.data.cast(), length_bytes) };
        }
        copy.resize(length_bytes, 0);
        // SAFETY: the buffer is as long as said, and so is the tensor.
        unsafe { sys::ggml_backend_tensor_get(self.raw, copy.as_mut_ptr().cast(), 0, length_bytes) };
        copy
    }

    fn is_in_host_memory(&self) -> bool {
        // SAFETY: a tensor that is viewed lives as long as the view.
        let owner = unsafe { self.raw.view_src.as_ref() }.unwrap_or(self.raw);
        // SAFETY: the buffer is not null and lives while the graph is computed.
        !self.raw.data.is_null()
            && (owner.buffer.is_null() || unsafe { sys::ggml_backend_buffer_is_host(owner.buffer) })
    }
}

fn name_of(tensor: &sys::ggml_tensor) -> &str {
    // SAFETY: the name is an array of this many bytes.
    let bytes: &[u8] = unsafe { std::slice::from_raw_parts(tensor.name.as_ptr().cast(), tensor.name.len()) };
    CStr::from_bytes_until_nul(bytes).ok().and_then(|name| name.to_str().ok()).unwrap_or("")
}

fn static_name(text: *const c_char) -> &'static str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the names of operations and types are NUL-terminated and static.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

/// A tap at an address that does not change, for llama.cpp to find it.
pub(crate) struct TapSlot<'tap> {
    pointer: NonNull<&'tap mut dyn TensorTap>,
}

impl<'tap> TapSlot<'tap> {
    pub(crate) fn new(tap: &'tap mut dyn TensorTap) -> Self {
        Self { pointer: NonNull::from(Box::leak(Box::new(tap))) }
    }

    /// What llama.cpp gives to [`on_tensor`].
    pub(crate) fn as_data(&self) -> *mut c_void {
        self.pointer.as_ptr().cast()
    }
}

impl Drop for TapSlot<'_> {
    fn drop(&mut self) {
        // SAFETY: leaked by `new` and taken back only here.
        drop(unsafe { Box::from_raw(self.pointer.as_ptr()) });
    }
}

/// The scheduler's callback: first asks whether a tensor is wanted, then tells that it is computed; true means "go on".
///
/// # Safety
/// `tensor` is one of a graph that is being computed and `data` that of a living [`TapSlot`], on the thread that runs
/// the job.
pub(crate) unsafe extern "C" fn on_tensor(tensor: *mut sys::ggml_tensor, is_question: bool, data: *mut c_void) -> bool {
    // SAFETY: the caller's promise; nothing else refers to the tap while llama.cpp computes.
    let (raw, tap) = unsafe { (&*tensor, &mut *data.cast::<&mut dyn TensorTap>()) };
    let tensor = GraphTensor { raw };
    if is_question {
        return tensor.is_computed() && tap.wants(&tensor);
    }
    tap.computed(&tensor);
    true
}
