//! The functions of ggml that this library takes the place of, and what is recorded around each.

use std::ffi::{CStr, c_char, c_int, c_void};

use dwell_ggml::OpenTransfer;
use dwell_ggml::abi::{ComputePlan, Tensor};
use dwell_records::Placement;

use crate::callbacks;
use crate::ggml_library::{AbortCallback, SET_ABORT_CALLBACK};
use crate::trampoline::stand_in;

/// `GGML_STATUS_FAILED`.
const STATUS_FAILED: c_int = -1;

stand_in! {
    /// Computes a graph.
    fn ggml_backend_sched_graph_compute_async(scheduler: *mut c_void, graph: *mut c_void) -> c_int, or STATUS_FAILED;
    |source, original| {
        let recorder = source.recorder();
        // SAFETY: the arguments are the program's own, passed on; the graph is allocated and its inputs are set, because
        // this function computes it.
        unsafe {
            if let Some(recorder) = recorder {
                source.listen_after_nodes(scheduler);
                crate::guarded(|| recorder.begin_graph(scheduler, graph));
            }
            let status = original(scheduler, graph);
            if let Some(recorder) = recorder {
                crate::guarded(|| recorder.end_graph(status));
            }
            status
        }
    }
}

stand_in! {
    /// Allocates a graph.
    fn ggml_backend_sched_alloc_graph(scheduler: *mut c_void, graph: *mut c_void) -> bool, or false;
    |source, original| {
        source.record(|recorder| recorder.graph_allocated(scheduler));
        // SAFETY: the arguments are the program's own, passed on.
        unsafe { original(scheduler, graph) }
    }
}

stand_in! {
    /// Gives a tensor its memory.
    fn ggml_backend_tensor_alloc(buffer: *mut c_void, tensor: *mut Tensor, address: *mut c_void) -> c_int,
    or STATUS_FAILED;
    |source, original| {
        // SAFETY: the arguments are the program's own, passed on; afterwards the tensor has its memory.
        unsafe {
            let status = original(buffer, tensor, address);
            source.record(|recorder| recorder.tensor_placed(tensor, buffer, Placement::Mapped));
            status
        }
    }
}

stand_in! {
    /// Writes to a tensor.
    fn ggml_backend_tensor_set(tensor: *mut Tensor, data: *const c_void, offset: usize, size: usize), or ();
    |source, original| {
        // SAFETY: the arguments are the program's own, passed on; a tensor that is set has a buffer.
        unsafe {
            original(tensor, data, offset, size);
            source.record(|recorder| recorder.tensor_placed(tensor, (*tensor).buffer, Placement::Copied));
        }
    }
}

stand_in! {
    /// Copies bytes out of a tensor.
    fn ggml_backend_tensor_get(tensor: *const Tensor, data: *mut c_void, offset: usize, size: usize), or ();
    |source, original| {
        let outermost = OpenTransfer::begin();
        // SAFETY: the arguments are the program's own, passed on.
        unsafe {
            original(tensor, data, offset, size);
            if outermost.is_some() {
                source.record(|recorder| recorder.tensor_read(tensor, offset, size));
            }
        }
    }
}

stand_in! {
    /// Copies bytes out of a tensor, perhaps later. The processor's backend does it at once.
    fn ggml_backend_tensor_get_async(
        backend: *mut c_void,
        tensor: *const Tensor,
        data: *mut c_void,
        offset: usize,
        size: usize
    ), or ();
    |source, original| {
        let outermost = OpenTransfer::begin();
        // SAFETY: the arguments are the program's own, passed on.
        unsafe {
            original(backend, tensor, data, offset, size);
            if outermost.is_some() {
                source.record(|recorder| recorder.tensor_read(tensor, offset, size));
            }
        }
    }
}

stand_in! {
    /// Computes what a scheduler gave to the processor's backend.
    fn ggml_graph_compute(graph: *mut c_void, plan: *mut ComputePlan) -> c_int, or STATUS_FAILED;
    |_source, original| {
        // SAFETY: a graph is computed by a live plan; the arguments are the program's own, passed on.
        unsafe {
            crate::guarded(|| dwell_ggml::computes_with(plan));
            original(graph, plan)
        }
    }
}

stand_in! {
    /// Sets all bytes of a buffer to one value.
    fn ggml_backend_buffer_clear(buffer: *mut c_void, value: u8), or ();
    |source, original| {
        // SAFETY: the arguments are the program's own, passed on; the buffer lives on.
        unsafe {
            original(buffer, value);
            source.record(|recorder| recorder.buffer_cleared(buffer));
        }
    }
}

stand_in! {
    /// Gives a function of a backend by its name. llama.cpp and whisper.cpp ask for the one that sets abort callbacks,
    /// whether the program gave the callback with a context's parameters or later.
    fn ggml_backend_reg_get_proc_address(registry: *mut c_void, name: *const c_char) -> *mut c_void,
    or std::ptr::null_mut();
    |_source, original| {
        // SAFETY: the arguments are the program's own, passed on; the name is a C string.
        unsafe {
            let function = original(registry, name);
            let is_setter = !function.is_null() && !name.is_null() && CStr::from_ptr(name) == SET_ABORT_CALLBACK;
            if is_setter { callbacks::setter_in_place_of(function) } else { function }
        }
    }
}

stand_in! {
    /// Gives the processor's backend an abort callback.
    fn ggml_backend_cpu_set_abort_callback(backend: *mut c_void, callback: Option<AbortCallback>, data: *mut c_void),
    or ();
    |_source, original| {
        callbacks::note(backend, callback, data);
        // SAFETY: the arguments are the program's own, passed on.
        unsafe { original(backend, callback, data) }
    }
}

stand_in! {
    /// Frees a backend.
    fn ggml_backend_free(backend: *mut c_void), or ();
    |_source, original| {
        callbacks::forget(backend);
        // SAFETY: the argument is the program's own, passed on.
        unsafe { original(backend) }
    }
}
