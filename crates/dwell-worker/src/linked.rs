//! The recorder's way into the statically linked llama.cpp.
//!
//! The linker is told to `--wrap` eight functions of ggml: calls to `f` go to `__wrap_f` here, and `__real_f` is the
//! original. Nothing in llama.cpp is changed, and the hooks are the same that the preload library puts around an
//! unmodified program.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use dwell_ggml::abi::{Api, ComputePlan, Tensor};
use dwell_ggml::{OpenTransfer, Recorder};
use dwell_llama::Hooks;
use dwell_records::Placement;

use crate::RECORDER;

/// Whether graphs are recorded in this process.
static IS_RECORDING: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn __real_ggml_backend_sched_graph_compute_async(scheduler: *mut c_void, graph: *mut c_void) -> c_int;
    fn __real_ggml_backend_sched_alloc_graph(scheduler: *mut c_void, graph: *mut c_void) -> bool;
    fn __real_ggml_backend_tensor_alloc(buffer: *mut c_void, tensor: *mut Tensor, address: *mut c_void) -> c_int;
    fn __real_ggml_backend_tensor_set(tensor: *mut Tensor, data: *const c_void, offset: usize, size: usize);
    fn __real_ggml_backend_tensor_get(tensor: *const Tensor, data: *mut c_void, offset: usize, size: usize);
    fn __real_ggml_backend_tensor_get_async(
        backend: *mut c_void,
        tensor: *const Tensor,
        data: *mut c_void,
        offset: usize,
        size: usize,
    );
    fn __real_ggml_backend_buffer_clear(buffer: *mut c_void, value: u8);
    fn __real_ggml_graph_compute(graph: *mut c_void, plan: *mut ComputePlan) -> c_int;
    fn ggml_graph_n_nodes(graph: *mut c_void) -> c_int;
    fn ggml_graph_node(graph: *mut c_void, index: c_int) -> *mut Tensor;
    fn ggml_op_name(op: c_int) -> *const std::ffi::c_char;
    fn ggml_type_name(type_id: c_int) -> *const std::ffi::c_char;
    fn ggml_type_size(type_id: c_int) -> usize;
    fn ggml_blck_size(type_id: c_int) -> i64;
    fn ggml_nbytes(tensor: *const Tensor) -> usize;
    fn ggml_get_name(tensor: *const Tensor) -> *const std::ffi::c_char;
    fn ggml_get_data(tensor: *const Tensor) -> *mut c_void;
    fn ggml_backend_buffer_get_base(buffer: *mut c_void) -> *mut c_void;
    fn ggml_backend_buffer_get_size(buffer: *mut c_void) -> usize;
    fn ggml_backend_buffer_get_usage(buffer: *mut c_void) -> c_int;
    fn ggml_backend_buffer_name(buffer: *mut c_void) -> *const std::ffi::c_char;
    fn ggml_backend_buffer_is_host(buffer: *mut c_void) -> bool;
}

/// The functions of the linked ggml.
pub(crate) fn api() -> Api {
    Api {
        ggml_graph_n_nodes,
        ggml_graph_node,
        ggml_op_name,
        ggml_type_name,
        ggml_type_size,
        ggml_blck_size,
        ggml_nbytes,
        ggml_get_name,
        ggml_get_data,
        ggml_backend_buffer_get_base,
        ggml_backend_buffer_get_size,
        ggml_backend_buffer_get_usage,
        ggml_backend_buffer_name,
        ggml_backend_buffer_is_host,
    }
}

/// Turns the recording of graphs on and gives what the engine must call.
pub(crate) fn record_graphs() -> Hooks<'static> {
    IS_RECORDING.store(true, Ordering::Relaxed);
    Hooks { after_node: Some(after_node), ..Hooks::default() }
}

/// The recorder, if graphs are recorded.
fn recorder() -> Option<&'static Recorder> {
    RECORDER.get().filter(|_| IS_RECORDING.load(Ordering::Relaxed))
}

/// ggml's abort callback: called after each executed node; false means "go on".
unsafe extern "C" fn after_node(_: *mut c_void) -> bool {
    dwell_ggml::after_node();
    false
}

/// # Safety
/// Called by llama.cpp in the place of the function it wraps, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ggml_backend_sched_graph_compute_async(
    scheduler: *mut c_void,
    graph: *mut c_void,
) -> c_int {
    let recorder = recorder();
    // SAFETY: llama.cpp gives a graph that is allocated and whose inputs are set, and the arguments are passed on.
    unsafe {
        if let Some(recorder) = recorder {
            recorder.begin_graph(scheduler, graph);
        }
        let status = __real_ggml_backend_sched_graph_compute_async(scheduler, graph);
        if let Some(recorder) = recorder {
            recorder.end_graph(status);
        }
        status
    }
}

/// # Safety
/// Called by llama.cpp in the place of the function it wraps, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ggml_backend_sched_alloc_graph(scheduler: *mut c_void, graph: *mut c_void) -> bool {
    if let Some(recorder) = RECORDER.get() {
        recorder.graph_allocated(scheduler);
    }
    // SAFETY: the arguments are passed on.
    unsafe { __real_ggml_backend_sched_alloc_graph(scheduler, graph) }
}

/// # Safety
/// Called by llama.cpp in the place of the function it wraps, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ggml_backend_tensor_alloc(
    buffer: *mut c_void,
    tensor: *mut Tensor,
    address: *mut c_void,
) -> c_int {
    // SAFETY: the arguments are passed on; afterwards the tensor has its memory.
    unsafe {
        let status = __real_ggml_backend_tensor_alloc(buffer, tensor, address);
        placed(tensor, buffer, Placement::Mapped);
        status
    }
}

/// # Safety
/// Called by llama.cpp in the place of the function it wraps, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ggml_backend_tensor_set(
    tensor: *mut Tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the arguments are passed on; a tensor that is set has a buffer.
    unsafe {
        __real_ggml_backend_tensor_set(tensor, data, offset, size);
        placed(tensor, (*tensor).buffer, Placement::Copied);
    }
}

/// # Safety
/// Called by llama.cpp in the place of the function it wraps, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ggml_backend_tensor_get(
    tensor: *const Tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the arguments are passed on.
    unsafe { read(tensor, offset, size, || __real_ggml_backend_tensor_get(tensor, data, offset, size)) }
}

/// # Safety
/// Called by llama.cpp in the place of the function it wraps, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ggml_backend_tensor_get_async(
    backend: *mut c_void,
    tensor: *const Tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the arguments are passed on. The processor's backend has no asynchronous copies: it is made here.
    unsafe { read(tensor, offset, size, || __real_ggml_backend_tensor_get_async(backend, tensor, data, offset, size)) }
}

/// # Safety
/// Called by llama.cpp in the place of the function it wraps, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ggml_backend_buffer_clear(buffer: *mut c_void, value: u8) {
    // SAFETY: the arguments are passed on; the buffer lives on.
    unsafe {
        __real_ggml_backend_buffer_clear(buffer, value);
        if let Some(recorder) = recorder() {
            recorder.buffer_cleared(buffer);
        }
    }
}

/// # Safety
/// Called by llama.cpp in the place of the function it wraps, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ggml_graph_compute(graph: *mut c_void, plan: *mut ComputePlan) -> c_int {
    // SAFETY: a graph is computed by a live plan, and the arguments are passed on.
    unsafe {
        dwell_ggml::computes_with(plan);
        __real_ggml_graph_compute(graph, plan)
    }
}

/// Copies bytes out of a tensor.
///
/// # Safety
/// `tensor` is live.
unsafe fn read(tensor: *const Tensor, offset: usize, size: usize, copy: impl FnOnce()) {
    let outermost = OpenTransfer::begin();
    copy();
    if let (Some(_), Some(recorder)) = (outermost, recorder()) {
        // SAFETY: the caller's promise is passed on.
        unsafe { recorder.tensor_read(tensor, offset, size) };
    }
}

/// # Safety
/// `tensor` is live and lies in `buffer`.
unsafe fn placed(tensor: *const Tensor, buffer: *mut c_void, placement: Placement) {
    if let Some(recorder) = recorder() {
        // SAFETY: the caller's promise is passed on.
        unsafe { recorder.tensor_placed(tensor, buffer, placement) };
    }
}
