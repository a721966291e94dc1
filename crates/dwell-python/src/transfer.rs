//! From tensors of a model to the stream, without waiting for a GPU.
//!
//! The thread that runs the model reserves room in a ring of pinned memory and begins a copy into it. A thread of this
//! module waits for the copies of a batch and hands its tensors over, in the order in which they came; it never needs
//! Python's lock. Tensors of the processor take the same way, so that there is one order.

use std::mem;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use dwell_tensors::{TensorHead, TensorStream, TensorsError};
use pyo3::prelude::*;

use crate::cuda::{CudaError, CudaEvent, CudaStream, Driver};
use crate::error::{closed, of_cuda, of_tensors};
use crate::ring::{LentElements, Ring};
use crate::stream::{SharedStream, Stream, TensorValues};

/// So much is handed over at once, at the latest when the forward pass ends.
const BATCH_BYTES: usize = 8 << 20;

/// Tensors on their way into the ring, and what tells that they are there.
#[derive(Default)]
struct Batch {
    tensors: Vec<(TensorHead, LentElements)>,
    bytes: usize,
    streams: Vec<CudaStream>,
    /// Copies on the GPU that are still being read. Python's reference counts wait for the next call from Python.
    sources: Vec<Py<PyAny>>,
}

/// What the thread has to do, in order.
enum Order {
    HandOver(Batch, Vec<CudaEvent>),
    Token { id: i64, text: String },
    CountDropped(TensorHead),
    Answer(Sender<()>),
}

/// Why nothing is handed over any more.
enum Failure {
    Stream(TensorsError),
    Cuda(CudaError),
    /// The stream was ended by somebody else.
    Closed,
}

impl Failure {
    fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Stream(error) => of_tensors(py, error),
            Self::Cuda(error) => of_cuda(py, error),
            Self::Closed => closed(py),
        }
    }
}

/// What the thread shares with those who give it orders.
struct Shared {
    stream: SharedStream,
    driver: Option<Driver>,
    failure: Mutex<Option<Failure>>,
}

/// What the threads that run the model share.
struct Intake {
    batch: Batch,
    /// `None` once closed.
    orders: Option<Sender<Order>>,
    /// The stream on which large tensors of a device are copied, beside that which computes them.
    sides: Vec<(CudaStream, CudaStream)>,
}

/// A way of tensors to a stream.
#[pyclass(frozen)]
pub(crate) struct Transfer {
    shared: Arc<Shared>,
    names: Py<Stream>,
    ring: Py<Ring>,
    intake: Mutex<Intake>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Whether a tensor that finds no room waits for it.
    waits: bool,
}

#[pymethods]
impl Transfer {
    /// With `uses_cuda`, the ring's memory must be pinned. With `waits`, a tensor that finds no room waits for it.
    #[new]
    fn new(py: Python<'_>, stream: Py<Stream>, ring: Py<Ring>, uses_cuda: bool, waits: bool) -> PyResult<Self> {
        let driver = uses_cuda.then(Driver::open).transpose().map_err(|error| of_cuda(py, &error))?;
        let shared = Arc::new(Shared { stream: stream.get().shared(), driver, failure: Mutex::default() });
        let (orders, received) = channel();
        let worker = Arc::clone(&shared);
        let thread = thread::Builder::new().name("dwell-transfer".to_owned()).spawn(move || worker.obey(&received))?;
        let intake = Intake { batch: Batch::default(), orders: Some(orders), sides: Vec::new() };
        Ok(Self { shared, names: stream, ring, intake: Mutex::new(intake), thread: Mutex::new(Some(thread)), waits })
    }

    /// Takes a tensor of a GPU whose `bytes` bytes lie at `address` one after another.
    ///
    /// `cuda_stream` is the stream that computes it. With `source`, the object that owns the memory, the copy runs beside
    /// that stream and the owner is kept meanwhile; without, on that stream itself. `False` says that there is no room.
    fn copy_from_gpu(
        &self,
        py: Python<'_>,
        tensor: TensorValues<'_>,
        address: usize,
        bytes: usize,
        cuda_stream: usize,
        source: Option<Py<PyAny>>,
    ) -> PyResult<bool> {
        let head = self.names.get().head_of(py, tensor, bytes)?;
        let Some(room) = self.room(py, bytes)? else { return Ok(false) };
        let mut intake = self.intake();
        let begun = intake.begin_copy(&self.shared, &room, address, cuda_stream, source.is_some());
        let stream = begun.map_err(|error| of_cuda(py, &error))?;
        let batch = &mut intake.batch;
        batch.sources.extend(source);
        if !batch.streams.contains(&stream) {
            batch.streams.push(stream);
        }
        intake.push(&self.shared, head, room).map_err(|error| of_cuda(py, &error))?;
        Ok(true)
    }

    /// Takes a tensor of the processor; its elements are copied before this returns. `False` says that there is no room.
    fn copy(&self, py: Python<'_>, tensor: TensorValues<'_>, address: usize, bytes: usize) -> PyResult<bool> {
        let head = self.names.get().head_of(py, tensor, bytes)?;
        let Some(mut room) = self.room(py, bytes)? else { return Ok(false) };
        // SAFETY: the caller, hooks of the same package, holds the tensor whose memory this is for as long as this call
        // lasts, and says how long that memory is.
        unsafe { room.fill_from(address) };
        self.intake().push(&self.shared, head, room).map_err(|error| of_cuda(py, &error))?;
        Ok(true)
    }

    /// Counts a tensor as dropped, in its place among the others.
    fn count_dropped(&self, py: Python<'_>, tensor: TensorValues<'_>) -> PyResult<()> {
        let head = self.names.get().head(py, tensor)?;
        self.order(py, Order::CountDropped(head))
    }

    /// Records that a token is complete, after all tensors taken before.
    fn record_token(&self, py: Python<'_>, token_id: i64, token_text: String) -> PyResult<()> {
        self.order(py, Order::Token { id: token_id, text: token_text })
    }

    /// Has what was taken so far handed over as soon as it is there.
    fn end_pass(&self, py: Python<'_>) -> PyResult<()> {
        self.intake().seal(&self.shared).map_err(|error| of_cuda(py, &error))
    }

    /// Returns when all that was taken is handed over.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let (answer, answered) = channel();
        self.order(py, Order::Answer(answer))?;
        // An error says that the thread has ended, which it does not while there are orders.
        let _ = py.detach(move || answered.recv());
        self.check(py)
    }

    /// Drains, and ends the thread.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let sealed = self.intake().seal(&self.shared);
        self.intake().orders = None;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = py.detach(|| thread.join());
        }
        sealed.map_err(|error| of_cuda(py, &error))?;
        self.check(py)
    }
}

impl Transfer {
    fn intake(&self) -> MutexGuard<'_, Intake> {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises what made the thread give up.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.failure().as_ref().map_or(Ok(()), |failure| Err(failure.raise(py)))
    }

    /// Room in the ring; `None` if there is none and nobody waits, or there never will be.
    fn room(&self, py: Python<'_>, bytes: usize) -> PyResult<Option<LentElements>> {
        self.check(py)?;
        let ring = self.ring.get();
        if let Some(room) = ring.room(bytes) {
            return Ok(Some(room));
        }
        // What has been copied gives its room back only after it was handed over.
        self.end_pass(py)?;
        while self.waits && ring.can_hold(bytes) {
            if let Some(room) = py.detach(|| ring.room_soon(bytes)) {
                return Ok(Some(room));
            }
            self.check(py)?;
            py.check_signals()?;
        }
        Ok(ring.room(bytes))
    }

    /// Gives an order that comes after all that was taken so far.
    fn order(&self, py: Python<'_>, order: Order) -> PyResult<()> {
        self.check(py)?;
        let mut intake = self.intake();
        intake.seal(&self.shared).map_err(|error| of_cuda(py, &error))?;
        let sent = intake.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if sent { Ok(()) } else { Err(closed(py)) }
    }
}

impl Intake {
    /// Begins the copy of a tensor into its room; returns the stream that copies.
    fn begin_copy(
        &mut self,
        shared: &Shared,
        room: &LentElements,
        address: usize,
        cuda_stream: usize,
        beside: bool,
    ) -> Result<CudaStream, CudaError> {
        let driver = shared.driver()?;
        let computing = driver.stream(cuda_stream)?;
        let copying = if beside { self.side_of(driver, computing)? } else { computing };
        if beside {
            driver.wait_on_gpu(copying, driver.record(computing)?)?;
        }
        // SAFETY: the room is pinned memory that is read only after the batch's events. The source is alive: on its own
        // stream PyTorch frees it only after this copy, beside it the batch keeps its owner until the copy is done.
        unsafe { driver.copy_to_host(copying, room.address(), address, room.len()) }?;
        Ok(copying)
    }

    fn side_of(&mut self, driver: &Driver, computing: CudaStream) -> Result<CudaStream, CudaError> {
        if let Some((_, side)) = self.sides.iter().find(|(known, _)| *known == computing) {
            return Ok(*side);
        }
        let side = driver.stream_beside(computing)?;
        self.sides.push((computing, side));
        Ok(side)
    }

    fn push(&mut self, shared: &Shared, head: TensorHead, room: LentElements) -> Result<(), CudaError> {
        self.batch.bytes += room.len();
        self.batch.tensors.push((head, room));
        if self.batch.bytes >= BATCH_BYTES { self.seal(shared) } else { Ok(()) }
    }

    /// Orders that the batch be handed over, behind events that tell when its copies are done.
    fn seal(&mut self, shared: &Shared) -> Result<(), CudaError> {
        if self.batch.tensors.is_empty() {
            return Ok(());
        }
        let batch = mem::take(&mut self.batch);
        let driver = &shared.driver;
        let record = |&stream| driver.as_ref().map(|driver| driver.record(stream));
        let events = batch.streams.iter().filter_map(record).collect::<Result<_, _>>()?;
        if let Some(orders) = &self.orders {
            // The thread goes on until nobody can give orders.
            let _ = orders.send(Order::HandOver(batch, events));
        }
        Ok(())
    }
}

impl Shared {
    fn failure(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn driver(&self) -> Result<&Driver, CudaError> {
        self.driver.as_ref().ok_or_else(|| CudaError::Missing("this capture began without a GPU".to_owned()))
    }

    /// Carries out orders until nobody can give any more; the first failure is kept.
    fn obey(&self, orders: &Receiver<Order>) {
        for order in orders {
            if let Err(failure) = self.carry_out(order) {
                self.failure().get_or_insert(failure);
            }
        }
    }

    fn carry_out(&self, order: Order) -> Result<(), Failure> {
        match order {
            Order::HandOver(batch, events) => {
                // Also after a failure: nobody else may get the room, or the memory of the GPU, before the copies are done.
                let batch = self.copied(batch, events)?;
                self.with_stream(|stream| hand_over(stream, batch))
            }
            Order::Token { id, text } => self.with_stream(|stream| stream.record_token(id, &text).map(drop)),
            Order::CountDropped(head) => self.with_stream(|stream| stream.count_dropped(&head).map(drop)),
            Order::Answer(answer) => {
                // Whoever asked may be gone.
                let _ = answer.send(());
                Ok(())
            }
        }
    }

    /// Does nothing after a failure: what came later would stand in the wrong place.
    fn with_stream(&self, action: impl FnOnce(&TensorStream) -> Result<(), TensorsError>) -> Result<(), Failure> {
        if self.failure().is_some() {
            return Ok(());
        }
        let stream = self.stream.read().unwrap_or_else(PoisonError::into_inner);
        action(stream.as_ref().ok_or(Failure::Closed)?).map_err(Failure::Stream)
    }

    /// The batch, once its copies are done.
    fn copied(&self, mut batch: Batch, events: Vec<CudaEvent>) -> Result<Batch, Failure> {
        for event in events {
            self.driver().and_then(|driver| driver.synchronise(event)).map_err(Failure::Cuda)?;
        }
        batch.sources.clear();
        Ok(batch)
    }
}

fn hand_over(stream: &TensorStream, batch: Batch) -> Result<(), TensorsError> {
    for (head, elements) in batch.tensors {
        stream.submit_foreign(head, Box::new(elements))?;
    }
    Ok(())
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // The thread waits for the copies that have begun, and ends.
        let _ = self.intake().seal(&self.shared);
    }
}
