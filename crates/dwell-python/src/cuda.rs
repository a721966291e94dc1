//! The calls of the CUDA driver that copies without waiting need.
//!
//! PyTorch offers the same calls, but from Python each costs as much as a small copy, and waiting for them takes Python's
//! lock from the model. The driver's library is already loaded by PyTorch; here it is opened a second time.

use std::ffi::{c_int, c_uint, c_void};

use libloading::Library;

const LIBRARY: &str = "libcuda.so.1";
const STREAM_NON_BLOCKING: c_uint = 1;
/// Waiting threads sleep, and no time is taken.
const EVENT_FLAGS: c_uint = 1 | 2;

/// What the driver said to a call.
#[derive(Clone, Debug)]
pub(crate) enum CudaError {
    /// The library is not there or lacks a function.
    Missing(String),
    /// A call that failed, with the driver's number for the reason.
    Failed { call: &'static str, code: c_int },
}

impl std::fmt::Display for CudaError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(reason) => write!(out, "opening the CUDA driver {LIBRARY}: {reason}"),
            Self::Failed { call, code } => write!(out, "copying from the GPU: {call} failed with CUDA error {code}"),
        }
    }
}

/// A context, stream or event of the driver; 0 is the default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handle(usize);

impl Handle {
    fn pointer(self) -> *mut c_void {
        self.0 as *mut c_void
    }
}

/// A stream and the context it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CudaStream {
    context: Handle,
    stream: Handle,
}

/// A moment of a stream that can be waited for.
pub(crate) struct CudaEvent {
    context: Handle,
    event: Handle,
}

macro_rules! driver {
    ($($field:ident = $symbol:literal ($($argument:ty),*);)+) => {
        /// The driver, as far as it is used.
        pub(crate) struct Driver {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)+
            /// Keeps the functions where they are.
            _library: Library,
        }

        impl Driver {
            /// Opens the driver.
            pub(crate) fn open() -> Result<Self, CudaError> {
                let missing = |error: libloading::Error| CudaError::Missing(error.to_string());
                // SAFETY: PyTorch has loaded and initialised the library before, so opening it runs no code.
                let library = unsafe { Library::new(LIBRARY) }.map_err(missing)?;
                // SAFETY: the types are those of the driver's interface, which keeps them for a symbol for ever.
                $(let $field = *unsafe { library.get($symbol) }.map_err(missing)?;)+
                Ok(Self { $($field,)+ _library: library })
            }
        }
    };
}

driver! {
    context_current = b"cuCtxGetCurrent" (*mut *mut c_void);
    context_push = b"cuCtxPushCurrent_v2" (*mut c_void);
    context_pop = b"cuCtxPopCurrent_v2" (*mut *mut c_void);
    stream_create = b"cuStreamCreate" (*mut *mut c_void, c_uint);
    stream_wait = b"cuStreamWaitEvent" (*mut c_void, *mut c_void, c_uint);
    event_create = b"cuEventCreate" (*mut *mut c_void, c_uint);
    event_record = b"cuEventRecord" (*mut c_void, *mut c_void);
    event_synchronise = b"cuEventSynchronize" (*mut c_void);
    event_destroy = b"cuEventDestroy_v2" (*mut c_void);
    copy_to_host = b"cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, *mut c_void);
}

fn checked(call: &'static str, code: c_int) -> Result<(), CudaError> {
    if code == 0 { Ok(()) } else { Err(CudaError::Failed { call, code }) }
}

impl Driver {
    /// The stream with this handle of the context that is current on this thread.
    pub(crate) fn stream(&self, handle: usize) -> Result<CudaStream, CudaError> {
        Ok(CudaStream { context: self.current_context()?, stream: Handle(handle) })
    }

    fn current_context(&self) -> Result<Handle, CudaError> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver writes one pointer.
        checked("cuCtxGetCurrent", unsafe { (self.context_current)(&raw mut context) })?;
        Ok(Handle(context as usize))
    }

    /// A stream of its own beside another, in the same context. It lives as long as the process: there is one per device.
    pub(crate) fn stream_beside(&self, other: CudaStream) -> Result<CudaStream, CudaError> {
        let mut stream = std::ptr::null_mut();
        self.within(other.context, || {
            // SAFETY: the driver writes one pointer.
            checked("cuStreamCreate", unsafe { (self.stream_create)(&raw mut stream, STREAM_NON_BLOCKING) })
        })?;
        Ok(CudaStream { context: other.context, stream: Handle(stream as usize) })
    }

    /// Begins a copy from the GPU, after what the stream has to do so far.
    ///
    /// # Safety
    /// `target` must be pinned memory of `bytes` bytes that nobody reads or frees, and `source` memory of the stream's
    /// device that is not freed, until the copy is done.
    pub(crate) unsafe fn copy_to_host(
        &self,
        stream: CudaStream,
        target: usize,
        source: usize,
        bytes: usize,
    ) -> Result<(), CudaError> {
        self.within(stream.context, || {
            // SAFETY: the caller answers for both ranges.
            let code =
                unsafe { (self.copy_to_host)(target as *mut c_void, source as u64, bytes, stream.stream.pointer()) };
            checked("cuMemcpyDtoHAsync", code)
        })
    }

    /// The moment at which a stream has done what it has to do so far.
    pub(crate) fn record(&self, stream: CudaStream) -> Result<CudaEvent, CudaError> {
        let mut event = std::ptr::null_mut();
        self.within(stream.context, || {
            // SAFETY: the driver writes one pointer; the event is of the stream's context.
            checked("cuEventCreate", unsafe { (self.event_create)(&raw mut event, EVENT_FLAGS) })?;
            // SAFETY: as above.
            checked("cuEventRecord", unsafe { (self.event_record)(event, stream.stream.pointer()) })
        })?;
        Ok(CudaEvent { context: stream.context, event: Handle(event as usize) })
    }

    /// Has a stream wait for a moment of another; the processor does not wait.
    pub(crate) fn wait_on_gpu(&self, stream: CudaStream, event: CudaEvent) -> Result<(), CudaError> {
        let waits = self.within(stream.context, || {
            // SAFETY: both handles are alive; the driver keeps what it needs of the event.
            checked("cuStreamWaitEvent", unsafe {
                (self.stream_wait)(stream.stream.pointer(), event.event.pointer(), 0)
            })
        });
        self.destroy(event);
        waits
    }

    /// Waits for a moment, asleep.
    pub(crate) fn synchronise(&self, event: CudaEvent) -> Result<(), CudaError> {
        let waited = self.within(event.context, || {
            // SAFETY: the event is alive until it is destroyed below.
            checked("cuEventSynchronize", unsafe { (self.event_synchronise)(event.event.pointer()) })
        });
        self.destroy(event);
        waited
    }

    fn destroy(&self, event: CudaEvent) {
        // A failure leaves an event too much.
        let _ = self.within(event.context, || {
            // SAFETY: the event came from `record`, and nobody has it any more.
            checked("cuEventDestroy", unsafe { (self.event_destroy)(event.event.pointer()) })
        });
    }

    /// Makes calls in a context, whichever this thread has.
    fn within<T>(&self, context: Handle, calls: impl FnOnce() -> Result<T, CudaError>) -> Result<T, CudaError> {
        if self.current_context()? == context {
            return calls();
        }
        // SAFETY: the context was current on some thread, and PyTorch keeps its contexts until the process ends.
        checked("cuCtxPushCurrent", unsafe { (self.context_push)(context.pointer()) })?;
        let outcome = calls();
        let mut popped = std::ptr::null_mut();
        // SAFETY: the driver writes one pointer.
        checked("cuCtxPopCurrent", unsafe { (self.context_pop)(&raw mut popped) })?;
        outcome
    }
}
