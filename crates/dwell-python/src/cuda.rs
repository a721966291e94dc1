//! The calls of the CUDA driver that copies without waiting need.
//!
//! PyTorch offers the same calls, but from Python each costs as much as a small copy, and waiting for them takes Python's
//! lock from the model. The driver's library is already loaded by PyTorch; here it is opened a second time.

use std::ffi::{c_char, c_int, c_uint, c_void};

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

impl CudaStream {
    /// Whether both are streams of one device.
    pub(crate) fn is_on_device_of(self, other: Self) -> bool {
        self.context == other.context
    }
}

/// A moment of a stream that can be waited for.
pub(crate) struct CudaEvent {
    context: Handle,
    event: Handle,
}

/// A function that runs on a device.
pub(crate) struct Kernel {
    function: Handle,
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
    device_get = b"cuDeviceGet" (*mut c_int, c_int);
    primary_context = b"cuDevicePrimaryCtxRetain" (*mut *mut c_void, c_int);
    stream_create = b"cuStreamCreate" (*mut *mut c_void, c_uint);
    stream_wait = b"cuStreamWaitEvent" (*mut c_void, *mut c_void, c_uint);
    event_create = b"cuEventCreate" (*mut *mut c_void, c_uint);
    event_record = b"cuEventRecord" (*mut c_void, *mut c_void);
    event_synchronise = b"cuEventSynchronize" (*mut c_void);
    event_destroy = b"cuEventDestroy_v2" (*mut c_void);
    copy_to_host = b"cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, *mut c_void);
    host_device_address = b"cuMemHostGetDevicePointer_v2" (*mut u64, *mut c_void, c_uint);
    module_load = b"cuModuleLoadData" (*mut *mut c_void, *const c_void);
    module_function = b"cuModuleGetFunction" (*mut *mut c_void, *mut c_void, *const c_char);
    launch = b"cuLaunchKernel" (
        *mut c_void, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, *mut c_void, *mut *mut c_void, *mut *mut c_void
    );
}

fn checked(call: &'static str, code: c_int) -> Result<(), CudaError> {
    if code == 0 { Ok(()) } else { Err(CudaError::Failed { call, code }) }
}

impl Driver {
    /// The stream with this handle of the context that is current on this thread.
    pub(crate) fn stream(&self, handle: usize) -> Result<CudaStream, CudaError> {
        Ok(CudaStream { context: self.current_context()?, stream: Handle(handle) })
    }

    /// The stream with this handle of a device, whichever is current on this thread.
    pub(crate) fn stream_of_device(&self, device: c_int, handle: usize) -> Result<CudaStream, CudaError> {
        let (mut number, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the driver writes one number.
        checked("cuDeviceGet", unsafe { (self.device_get)(&raw mut number, device) })?;
        // SAFETY: the driver writes one pointer. PyTorch computes in this context and keeps it until the process ends, so
        // that it is never given back here does not matter.
        checked("cuDevicePrimaryCtxRetain", unsafe { (self.primary_context)(&raw mut context, number) })?;
        Ok(CudaStream { context: Handle(context as usize), stream: Handle(handle) })
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

    /// Translates kernels for the device of a stream. They stay there as long as the process: they are loaded once for it.
    pub(crate) fn load_kernels(
        &self,
        stream: CudaStream,
        source: &str,
        names: &[String],
    ) -> Result<Vec<Kernel>, CudaError> {
        let source = format!("{source}\0");
        let mut module = std::ptr::null_mut();
        self.within(stream.context, || {
            // SAFETY: the driver reads the source to its zero and writes one pointer.
            let code = unsafe { (self.module_load)(&raw mut module, source.as_ptr().cast()) };
            checked("cuModuleLoadData", code)?;
            names.iter().map(|name| self.kernel_of(module, name)).collect()
        })
    }

    fn kernel_of(&self, module: *mut c_void, name: &str) -> Result<Kernel, CudaError> {
        let name = format!("{name}\0");
        let mut function = std::ptr::null_mut();
        // SAFETY: the caller has loaded the module; the driver reads the name to its zero and writes one pointer.
        let code = unsafe { (self.module_function)(&raw mut function, module, name.as_ptr().cast()) };
        checked("cuModuleGetFunction", code)?;
        Ok(Kernel { function: Handle(function as usize) })
    }

    /// Where the device of a stream sees pinned memory of the host.
    pub(crate) fn device_address(&self, stream: CudaStream, host_address: usize) -> Result<usize, CudaError> {
        let mut address = 0u64;
        self.within(stream.context, || {
            // SAFETY: the driver looks the address up and writes one number.
            let code = unsafe { (self.host_device_address)(&raw mut address, host_address as *mut c_void, 0) };
            checked("cuMemHostGetDevicePointer", code)
        })?;
        Ok(address as usize)
    }

    /// Begins a kernel on a grid of blocks of so many threads, after what the stream has to do so far.
    ///
    /// # Safety
    /// The kernel's one argument must be as long as `argument`; the caller answers for what it does with it.
    pub(crate) unsafe fn launch(
        &self,
        kernel: &Kernel,
        stream: CudaStream,
        (columns, rows): (c_uint, c_uint),
        threads: c_uint,
        argument: &mut [u64],
    ) -> Result<(), CudaError> {
        let mut arguments = [argument.as_mut_ptr().cast::<c_void>()];
        self.within(stream.context, || {
            // SAFETY: the driver copies the argument before it returns; the caller answers for the rest.
            let code = unsafe {
                (self.launch)(
                    kernel.function.pointer(),
                    columns,
                    rows,
                    1,
                    threads,
                    1,
                    1,
                    0,
                    stream.stream.pointer(),
                    arguments.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            };
            checked("cuLaunchKernel", code)
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
