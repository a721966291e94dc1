//! From tensors of a model to the stream, without waiting for a GPU.
//!
//! The thread that runs the model reserves room in a ring of pinned memory and begins a copy into it. A thread of this
//! module waits for the copies of a batch and hands its tensors over, in the order in which they came; it never needs
//! Python's lock. Tensors of the processor take the same way, so that there is one order.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use dwell_tensors::{Elements, TensorHead, TensorStream, TensorsError};
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

use crate::comparison::Comparison;
use crate::cuda::{CudaError, CudaEvent, CudaStream, Driver};
use crate::error::{closed, of_cuda, of_tensors};
use crate::gpu_kernel::Copy;
use crate::pending_copies::{Batch, LONGEST_WAIT, Order, PendingCopies, Piece};
use crate::ring::{LentElements, Ring};
use crate::stream::{SharedStream, Stream, TensorValues};

/// A tensor that was put off as (tensor, timestamp_ns of its hook, address, bytes).
type LateValues<'py> = (TensorValues<'py>, i64, usize, usize);

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
    pending: Mutex<PendingCopies>,
    failure: Mutex<Option<Failure>>,
}

/// A way of tensors to a stream.
#[pyclass(frozen)]
pub(crate) struct Transfer {
    shared: Arc<Shared>,
    names: Py<Stream>,
    ring: Py<Ring>,
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
        let (orders, received) = channel();
        let pending = Mutex::new(PendingCopies::new(orders, ring.get().address()));
        let shared = Arc::new(Shared { stream: stream.get().shared(), driver, pending, failure: Mutex::default() });
        let worker = Arc::clone(&shared);
        let thread = thread::Builder::new().name("dwell-transfer".to_owned()).spawn(move || worker.obey(&received))?;
        Ok(Self { shared, names: stream, ring, thread: Mutex::new(Some(thread)), waits })
    }

    /// Takes a tensor of a GPU whose `bytes` bytes lie at `address` one after another.
    ///
    /// `cuda_stream` is the stream that computes it. With `source`, the object that owns the memory, the copy runs beside
    /// that stream and the owner is kept meanwhile; without, on that stream itself. `False` says that there is no room.
    #[pyo3(signature = (tensor, address, bytes, cuda_stream, source, comparison))]
    #[expect(clippy::too_many_arguments, reason = "what Python knows of a tensor, which costs less one by one")]
    fn copy_from_gpu(
        &self,
        py: Python<'_>,
        tensor: TensorValues<'_>,
        address: usize,
        bytes: usize,
        cuda_stream: usize,
        source: Option<Py<PyAny>>,
        comparison: Option<PyRef<'_, Comparison>>,
    ) -> PyResult<bool> {
        let head = self.names.get().head_of(py, tensor, bytes)?;
        let Some(elements) = self.room(py, bytes)? else { return Ok(false) };
        let comparison = comparison.map(|comparison| comparison.copies());
        let piece = Piece { head: Some(head), elements, comparison };
        self.begin_from_gpu(piece, address, cuda_stream, source).map_err(|error| of_cuda(py, &error))?;
        Ok(true)
    }

    /// Takes a tensor of the processor; its elements are copied before this returns. `False` says that there is no room.
    fn copy(
        &self,
        py: Python<'_>,
        tensor: TensorValues<'_>,
        address: usize,
        bytes: usize,
        comparison: Option<PyRef<'_, Comparison>>,
    ) -> PyResult<bool> {
        let head = self.names.get().head_of(py, tensor, bytes)?;
        let Some(elements) = self.room(py, bytes)? else { return Ok(false) };
        let comparison = comparison.map(|comparison| comparison.copies());
        let piece = Piece { head: Some(head), elements, comparison };
        self.take(&mut self.pending(), None, vec![(piece, address)]).map_err(|error| of_cuda(py, &error))?;
        Ok(true)
    }

    /// Takes tensors that were put off, all from the stream `place`: the number of a device and the handle of a stream of
    /// it, or `None` for the processor. They lie there one after another and are copied by as few launches as can be.
    ///
    /// Returns how many of them, from the first, were taken; of the next one what failed, or that there is no room.
    fn copy_late(
        &self,
        py: Python<'_>,
        tensors: Vec<LateValues<'_>>,
        place: Option<(i32, usize)>,
    ) -> (usize, Option<Py<PyBaseException>>) {
        let mut taken = 0;
        let outcome = self.copy_all(py, tensors, place, &mut taken);
        (taken, outcome.err().map(|error| error.into_value(py)))
    }

    /// Copies a tensor once more, to be compared with what it was. `False` says that there is no room.
    fn compare(
        &self,
        py: Python<'_>,
        address: usize,
        bytes: usize,
        place: Option<(i32, usize)>,
        comparison: PyRef<'_, Comparison>,
    ) -> PyResult<bool> {
        self.check(py)?;
        let Some(elements) = self.ring.get().room(bytes) else { return Ok(false) };
        let piece = Piece { head: None, elements, comparison: Some(comparison.copies()) };
        let stream = self.stream_at(place).map_err(|error| of_cuda(py, &error))?;
        self.take(&mut self.pending(), stream, vec![(piece, address)]).map_err(|error| of_cuda(py, &error))?;
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

    /// Has what was taken so far handed over, if it is much or has waited long; else the next pass adds to it.
    fn end_pass(&self, py: Python<'_>) -> PyResult<()> {
        self.pending().seal_if_due(self.shared.driver.as_ref()).map_err(|error| of_cuda(py, &error))
    }

    /// Returns when all that was taken is handed over.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let (answer, answered) = channel();
        self.order(py, Order::Answer(answer))?;
        // An error says that the thread has ended, which it does not while there are orders.
        let _ = py.detach(move || answered.recv());
        self.check(py)
    }

    /// Drains, ends the thread, and gives the ring's memory back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let sealed = self.pending().seal(self.shared.driver.as_ref());
        self.pending().close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = py.detach(|| thread.join());
        }
        self.ring.get().release();
        sealed.map_err(|error| of_cuda(py, &error))?;
        self.check(py)
    }
}

impl Transfer {
    fn pending(&self) -> MutexGuard<'_, PendingCopies> {
        self.shared.pending()
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
        self.pending().seal(self.shared.driver.as_ref()).map_err(|error| of_cuda(py, &error))?;
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
        let mut pending = self.pending();
        pending.seal(self.shared.driver.as_ref()).map_err(|error| of_cuda(py, &error))?;
        if pending.order(order) { Ok(()) } else { Err(closed(py)) }
    }

    /// Takes a tensor of a GPU, on the stream that computes it or, with its owner, beside that.
    fn begin_from_gpu(
        &self,
        piece: Piece,
        address: usize,
        cuda_stream: usize,
        owner: Option<Py<PyAny>>,
    ) -> Result<(), CudaError> {
        let driver = self.shared.driver()?;
        let stream = driver.stream(cuda_stream)?;
        let mut pending = self.pending();
        let Some(owner) = owner else { return self.take(&mut pending, Some(stream), vec![(piece, address)]) };
        pending.begin_copy_beside(driver, stream, piece.copy_from(address), owner)?;
        pending.push(Some(driver), piece)
    }

    /// The stream of a device, if it is one.
    fn stream_at(&self, place: Option<(i32, usize)>) -> Result<Option<CudaStream>, CudaError> {
        place.map(|(device, handle)| self.shared.driver()?.stream_of_device(device, handle)).transpose()
    }

    /// Takes tensors in their order, waiting for room where nobody is to be dropped; counts those that were taken.
    fn copy_all(
        &self,
        py: Python<'_>,
        tensors: Vec<LateValues<'_>>,
        place: Option<(i32, usize)>,
        taken: &mut usize,
    ) -> PyResult<()> {
        self.check(py)?;
        let stream = self.stream_at(place).map_err(|error| of_cuda(py, &error))?;
        let mut left = VecDeque::with_capacity(tensors.len());
        for (tensor, timestamp_ns, address, bytes) in tensors {
            let head = TensorHead { timestamp_ns, ..self.names.get().head_of(py, tensor, bytes)? };
            left.push_back((head, address, bytes));
        }
        while let Some(&(_, _, bytes)) = left.front() {
            let Some(mut room) = self.room(py, bytes)? else { return Ok(()) };
            let mut some = Vec::with_capacity(left.len());
            while let Some((head, address, _)) = left.pop_front() {
                some.push((Piece { head: Some(head), elements: room, comparison: None }, address));
                let Some(&(_, _, next_bytes)) = left.front() else { break };
                let Some(next_room) = self.ring.get().room(next_bytes) else { break };
                room = next_room;
            }
            let count = some.len();
            self.take(&mut self.pending(), stream, some).map_err(|error| of_cuda(py, &error))?;
            *taken += count;
        }
        Ok(())
    }

    /// Begins the copies of pieces from their addresses, all of one stream or of the processor, and takes the pieces.
    fn take(
        &self,
        pending: &mut PendingCopies,
        stream: Option<CudaStream>,
        mut pieces: Vec<(Piece, usize)>,
    ) -> Result<(), CudaError> {
        if let Some(stream) = stream {
            let copies: Vec<Copy> = pieces.iter().map(|(piece, address)| piece.copy_from(*address)).collect();
            pending.begin_copies(self.shared.driver()?, stream, &copies)?;
        } else {
            for (piece, address) in &mut pieces {
                // SAFETY: the caller, hooks of the same package, holds the tensor whose memory this is for as long as this
                // call lasts, and says how long that memory is.
                unsafe { piece.elements.fill_from(*address) };
            }
        }
        pieces.into_iter().try_for_each(|(piece, _)| pending.push(self.shared.driver.as_ref(), piece))
    }
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, PendingCopies> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn driver(&self) -> Result<&Driver, CudaError> {
        self.driver.as_ref().ok_or_else(|| CudaError::Missing("this capture began without a GPU".to_owned()))
    }

    /// Carries out orders until nobody can give any more; the first failure is kept.
    fn obey(&self, orders: &Receiver<Order>) {
        loop {
            let done = match orders.recv_timeout(LONGEST_WAIT) {
                Ok(order) => self.carry_out(order),
                // The model may pause: what its last pass left must not wait for the next.
                Err(RecvTimeoutError::Timeout) => {
                    self.pending().seal_if_due(self.driver.as_ref()).map_err(Failure::Cuda)
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let Err(failure) = done {
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
    for Piece { head, elements, comparison } in batch.pieces {
        if let Some(copies) = comparison {
            copies.note(elements.bytes());
        }
        if let Some(head) = head {
            stream.submit_foreign(head, Box::new(elements))?;
        }
    }
    Ok(())
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // The thread waits for the copies that have begun, and ends.
        let mut pending = self.pending();
        let _ = pending.seal(self.shared.driver.as_ref());
        pending.close();
    }
}
