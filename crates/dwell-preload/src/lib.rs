//! The recorder as a preload library for unmodified llama.cpp programs.
//!
//! It takes the place of seven functions of ggml and one of llama.cpp, calls the originals, and records around them. A
//! program that was not started by dwell, that links ggml statically, or whose ggml has another layout runs on as if
//! the library were not there.
//!
//! ```text
//! DWELL_RING_DIR=/run/dir/raw DWELL_OBSERVER_PID=123 LD_PRELOAD=libdwell_preload.so llama-server …
//! ```

mod originals;

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use dwell_clock::monotonic_ns;
use dwell_ggml::abi::Tensor;
use dwell_ggml::{OpenTransfer, Recorder, RecorderOptions};
use dwell_records::{Fork, Placement, RESOLUTION_VARIABLE, Resolution};
use dwell_ring::{DEFAULT_CAPACITY_BYTES, OBSERVER_PID_VARIABLE, RING_DIR_VARIABLE, RecordSender};

use originals::{AbortCallback, Originals};

/// The program's own abort callback, called after ours.
static PROGRAM_CALLBACK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static PROGRAM_CALLBACK_DATA: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The recorder of this process, null before its first graph or weight. What it points to is never freed.
static RECORDER: AtomicPtr<Option<Recorder>> = AtomicPtr::new(std::ptr::null_mut());

/// This process, once it is recorded; 0 before.
static RECORDED_PID: AtomicU32 = AtomicU32::new(0);

/// The recorded process that this one has its memory from, and when it was forked; 0 if there is none. A process between
/// the two that computed nothing is passed over: it has added nothing that is known.
static PARENT_PID: AtomicU32 = AtomicU32::new(0);
static FORKED_NS: AtomicU64 = AtomicU64::new(0);

/// When this process, or the one that it was forked from, last began to fork.
static FORK_BEGUN_NS: AtomicU64 = AtomicU64::new(0);

/// The recorder, started by the first graph or weight; `None` if this process is not to be recorded.
fn recorder() -> Option<&'static Recorder> {
    static STARTING: Mutex<()> = Mutex::new(());
    let mut started = RECORDER.load(Ordering::Acquire);
    if started.is_null() {
        let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        started = RECORDER.load(Ordering::Acquire);
        if started.is_null() {
            let recorder = catch_unwind(start_recorder).ok().flatten();
            if recorder.is_some() {
                RECORDED_PID.store(std::process::id(), Ordering::Release);
            }
            started = Box::into_raw(Box::new(recorder));
            RECORDER.store(started, Ordering::Release);
            forget_in_children();
        }
    }
    // SAFETY: only the lines above store here, and what they store is never freed.
    unsafe { (*started).as_ref() }
}

/// A child that is forked has the parent's ring mapped, and must not write into it: it starts a recorder of its own.
fn forget_in_children() {
    static ONCE: Once = Once::new();
    // Taken in the parent: until the child runs for the first time, the parent may have computed on.
    unsafe extern "C" fn note_time() {
        FORK_BEGUN_NS.store(monotonic_ns(), Ordering::Release);
    }
    unsafe extern "C" fn forget() {
        RECORDER.store(std::ptr::null_mut(), Ordering::Release);
        let parent_pid = RECORDED_PID.swap(0, Ordering::AcqRel);
        if parent_pid != 0 {
            PARENT_PID.store(parent_pid, Ordering::Release);
            FORKED_NS.store(FORK_BEGUN_NS.load(Ordering::Acquire), Ordering::Release);
        }
    }
    // SAFETY: the functions store to atomics and read the clock, which may be done around a fork.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(note_time), None, Some(forget));
    });
}

fn start_recorder() -> Option<Recorder> {
    let ring_dir = PathBuf::from(std::env::var_os(RING_DIR_VARIABLE)?);
    let observer_pid = std::env::var(OBSERVER_PID_VARIABLE).ok()?.parse().ok()?;
    let resolution = std::env::var(RESOLUTION_VARIABLE).ok().and_then(|name| Resolution::from_name(&name));
    let api = Originals::get().api?;
    match RecordSender::create(&ring_dir, observer_pid, DEFAULT_CAPACITY_BYTES) {
        Ok(sender) => {
            let resolution = resolution.unwrap_or(Resolution::Op);
            let fork = Some(PARENT_PID.load(Ordering::Acquire))
                .filter(|parent_pid| *parent_pid != 0)
                .map(|parent_pid| Fork { parent_pid, time_ns: FORKED_NS.load(Ordering::Acquire) });
            let options = RecorderOptions { sender: Arc::new(sender), resolution, way_in: "preloaded", fork };
            Some(Recorder::start(api, options))
        }
        Err(error) => {
            // Once, on standard error: the program goes on, but its user should know that nothing is recorded.
            eprintln!("dwell: making the recorder's ring: {error}, in \"{}\"", ring_dir.display());
            None
        }
    }
}

/// Runs a part of the recorder; a panic in it must not reach the program.
fn guarded<T>(part: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(part)).ok()
}

/// The program calls a function that only this library has: it could not have been linked without us either.
fn no_original() -> ! {
    std::process::abort()
}

/// # Safety
/// Called by the program in the place of the function of this name, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_graph_compute_async(scheduler: *mut c_void, graph: *mut c_void) -> c_int {
    let originals = Originals::get();
    let Some(graph_compute_async) = originals.graph_compute_async else { no_original() };
    let active = recorder().filter(|recorder| recorder.is_active());
    // SAFETY: the arguments are the program's own, passed on; the graph is allocated and its inputs are set, because
    // this function computes it.
    unsafe {
        if let Some(recorder) = active {
            originals.set_abort_callback(scheduler, Some(after_node));
            guarded(|| recorder.begin_graph(scheduler, graph));
        }
        let status = graph_compute_async(scheduler, graph);
        if let Some(recorder) = active {
            guarded(|| recorder.end_graph(status));
        }
        status
    }
}

/// # Safety
/// Called by the program in the place of the function of this name, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_sched_alloc_graph(scheduler: *mut c_void, graph: *mut c_void) -> bool {
    let Some(alloc_graph) = Originals::get().alloc_graph else { no_original() };
    if let Some(recorder) = recorder() {
        guarded(|| recorder.graph_allocated(scheduler));
    }
    // SAFETY: the arguments are the program's own, passed on.
    unsafe { alloc_graph(scheduler, graph) }
}

/// # Safety
/// Called by the program in the place of the function of this name, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_alloc(
    buffer: *mut c_void,
    tensor: *mut Tensor,
    address: *mut c_void,
) -> c_int {
    let Some(tensor_alloc) = Originals::get().tensor_alloc else { no_original() };
    // SAFETY: the arguments are the program's own, passed on; afterwards the tensor has its memory.
    unsafe {
        let status = tensor_alloc(buffer, tensor, address);
        if let Some(recorder) = recorder() {
            guarded(|| recorder.tensor_placed(tensor, buffer, Placement::Mapped));
        }
        status
    }
}

/// # Safety
/// Called by the program in the place of the function of this name, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_set(tensor: *mut Tensor, data: *const c_void, offset: usize, size: usize) {
    let Some(tensor_set) = Originals::get().tensor_set else { no_original() };
    // SAFETY: the arguments are the program's own, passed on; a tensor that is set has a buffer.
    unsafe {
        tensor_set(tensor, data, offset, size);
        if let Some(recorder) = recorder() {
            guarded(|| recorder.tensor_placed(tensor, (*tensor).buffer, Placement::Copied));
        }
    }
}

/// # Safety
/// Called by the program in the place of the function of this name, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_get(tensor: *const Tensor, data: *mut c_void, offset: usize, size: usize) {
    let Some(tensor_get) = Originals::get().tensor_get else { no_original() };
    // SAFETY: the arguments are the program's own, passed on.
    unsafe { read(tensor, offset, size, || tensor_get(tensor, data, offset, size)) }
}

/// # Safety
/// Called by the program in the place of the function of this name, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_get_async(
    backend: *mut c_void,
    tensor: *const Tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    let Some(tensor_get_async) = Originals::get().tensor_get_async else { no_original() };
    // SAFETY: the arguments are the program's own, passed on.
    unsafe { read(tensor, offset, size, || tensor_get_async(backend, tensor, data, offset, size)) }
}

/// # Safety
/// Called by the program in the place of the function of this name, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_buffer_clear(buffer: *mut c_void, value: u8) {
    let Some(buffer_clear) = Originals::get().buffer_clear else { no_original() };
    // SAFETY: the arguments are the program's own, passed on; the buffer lives on.
    unsafe {
        buffer_clear(buffer, value);
        if let Some(recorder) = recorder() {
            guarded(|| recorder.buffer_cleared(buffer));
        }
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
        guarded(|| unsafe { recorder.tensor_read(tensor, offset, size) });
    }
}

/// Remembers the program's callback, which ours then calls.
///
/// # Safety
/// Called by the program in the place of the function of this name, with the arguments of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llama_set_abort_callback(
    context: *mut c_void,
    callback: Option<AbortCallback>,
    data: *mut c_void,
) {
    PROGRAM_CALLBACK_DATA.store(data, Ordering::Release);
    PROGRAM_CALLBACK
        .store(callback.map_or(std::ptr::null_mut(), |callback| callback as *mut c_void), Ordering::Release);
    if let Some(original) = originals::llama_set_abort_callback() {
        // SAFETY: the arguments are the program's own, passed on.
        unsafe { original(context, callback, data) };
    }
}

unsafe extern "C" fn after_node(_: *mut c_void) -> bool {
    guarded(dwell_ggml::after_node);
    let program_callback = PROGRAM_CALLBACK.load(Ordering::Acquire);
    if program_callback.is_null() {
        return false;
    }
    // SAFETY: only `llama_set_abort_callback` stores here, and it stores a function of this type.
    unsafe {
        let program_callback: AbortCallback = std::mem::transmute(program_callback);
        program_callback(PROGRAM_CALLBACK_DATA.load(Ordering::Acquire))
    }
}
