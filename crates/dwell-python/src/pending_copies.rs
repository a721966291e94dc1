//! What the threads that run a model leave for the thread that hands tensors over: copies that have begun, in order.

use std::mem;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use dwell_tensors::TensorHead;
use pyo3::prelude::*;

use crate::comparison::TwoCopies;
use crate::cuda::{CudaError, CudaEvent, CudaStream, Driver};
use crate::gpu_kernel::{Copy, CopyKernel};
use crate::ring::LentElements;

/// So much is handed over at once.
const BATCH_BYTES: usize = 8 << 20;
/// So long a batch waits for more passes. Each batch wakes a thread, which takes time from the one that runs the model.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Elements on their way into the ring.
pub(crate) struct Piece {
    /// The tensor that they are; `None` for a copy that is compared, and nothing else.
    pub(crate) head: Option<TensorHead>,
    pub(crate) elements: LentElements,
    pub(crate) comparison: Option<Arc<TwoCopies>>,
}

impl Piece {
    /// The copy of what lies at an address.
    pub(crate) fn copy_from(&self, source: usize) -> Copy {
        Copy { target: self.elements.address(), source, bytes: self.elements.len() }
    }
}

/// Pieces, and what tells that they are there.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) pieces: Vec<Piece>,
    bytes: usize,
    /// When its first piece was taken.
    begun: Option<Instant>,
    streams: Vec<CudaStream>,
    /// Copies on the GPU that are still being read. Python's reference counts wait for the next call from Python.
    pub(crate) sources: Vec<Py<PyAny>>,
}

/// What the thread that hands tensors over has to do, in order.
pub(crate) enum Order {
    HandOver(Batch, Vec<CudaEvent>),
    Token { id: i64, text: String },
    CountDropped(TensorHead),
    Answer(Sender<()>),
}

/// Copies that have begun and are not handed over yet. The threads that run the model share it.
pub(crate) struct PendingCopies {
    batch: Batch,
    /// `None` once closed.
    orders: Option<Sender<Order>>,
    /// The stream on which large tensors of a device are copied, beside that which computes them.
    sides: Vec<(CudaStream, CudaStream)>,
    /// What copies small tensors of a stream; none where that cannot be.
    kernels: Vec<(CudaStream, Option<CopyKernel>)>,
    /// First byte of the ring.
    ring_address: usize,
}

impl PendingCopies {
    pub(crate) fn new(orders: Sender<Order>, ring_address: usize) -> Self {
        let (sides, kernels) = (Vec::new(), Vec::new());
        Self { batch: Batch::default(), orders: Some(orders), sides, kernels, ring_address }
    }

    /// Nobody can give orders any more.
    pub(crate) fn close(&mut self) {
        self.orders = None;
    }

    /// Begins copies on the stream that computes what is copied.
    pub(crate) fn begin_copies(
        &mut self,
        driver: &Driver,
        stream: CudaStream,
        copies: &[Copy],
    ) -> Result<(), CudaError> {
        let kernel = self.kernel_for(driver, stream);
        let (by_kernel, by_driver): (Vec<Copy>, Vec<Copy>) =
            copies.iter().partition(|copy| kernel.is_some() && copy.fits_kernel());
        if let Some(kernel) = kernel.filter(|_| !by_kernel.is_empty()) {
            // SAFETY: targets are pinned memory of the ring that is read only after the batch's events. Sources are alive:
            // on its own stream PyTorch frees a tensor only after this copy.
            unsafe { kernel.copy(driver, stream, &by_kernel) }?;
        }
        for copy in by_driver {
            // SAFETY: as above.
            unsafe { driver.copy_to_host(stream, copy.target, copy.source, copy.bytes) }?;
        }
        self.note_stream(stream);
        Ok(())
    }

    /// Begins a copy beside the stream that computes what is copied; its owner is kept until it is done.
    pub(crate) fn begin_copy_beside(
        &mut self,
        driver: &Driver,
        computing: CudaStream,
        copy: Copy,
        owner: Py<PyAny>,
    ) -> Result<(), CudaError> {
        let side = self.side_of(driver, computing)?;
        driver.wait_on_gpu(side, driver.record(computing)?)?;
        // SAFETY: the target is pinned memory that is read only after the batch's events, until when the batch keeps the
        // owner of the source.
        unsafe { driver.copy_to_host(side, copy.target, copy.source, copy.bytes) }?;
        self.batch.sources.push(owner);
        self.note_stream(side);
        Ok(())
    }

    fn note_stream(&mut self, stream: CudaStream) {
        if !self.batch.streams.contains(&stream) {
            self.batch.streams.push(stream);
        }
    }

    /// The kernel that copies small tensors on this stream, if one can.
    fn kernel_for(&mut self, driver: &Driver, stream: CudaStream) -> Option<&CopyKernel> {
        let at = self.kernels.iter().position(|(known, _)| known.is_on_device_of(stream)).unwrap_or_else(|| {
            // A device that cannot run it, or cannot write to the host's memory, copies by the driver.
            self.kernels.push((stream, CopyKernel::load(driver, stream, self.ring_address).ok()));
            self.kernels.len() - 1
        });
        self.kernels[at].1.as_ref()
    }

    fn side_of(&mut self, driver: &Driver, computing: CudaStream) -> Result<CudaStream, CudaError> {
        if let Some((_, side)) = self.sides.iter().find(|(known, _)| *known == computing) {
            return Ok(*side);
        }
        let side = driver.stream_beside(computing)?;
        self.sides.push((computing, side));
        Ok(side)
    }

    /// Takes a piece whose copy has begun.
    pub(crate) fn push(&mut self, driver: Option<&Driver>, piece: Piece) -> Result<(), CudaError> {
        self.batch.bytes += piece.elements.len();
        self.batch.begun.get_or_insert_with(Instant::now);
        self.batch.pieces.push(piece);
        if self.batch.bytes >= BATCH_BYTES { self.seal(driver) } else { Ok(()) }
    }

    /// Orders that the batch be handed over, behind events that tell when its copies are done.
    pub(crate) fn seal(&mut self, driver: Option<&Driver>) -> Result<(), CudaError> {
        if self.batch.pieces.is_empty() {
            return Ok(());
        }
        let batch = mem::take(&mut self.batch);
        let record = |&stream| driver.map(|driver| driver.record(stream));
        let events = batch.streams.iter().filter_map(record).collect::<Result<_, _>>()?;
        // The thread goes on until nobody can give orders.
        self.order(Order::HandOver(batch, events));
        Ok(())
    }

    /// Does the same if the batch has waited long, or if somebody waits to hear of a comparison.
    pub(crate) fn seal_if_due(&mut self, driver: Option<&Driver>) -> Result<(), CudaError> {
        let is_old = self.batch.begun.is_some_and(|begun| begun.elapsed() >= LONGEST_WAIT);
        let is_due = is_old || self.batch.pieces.iter().any(|piece| piece.comparison.is_some());
        if is_due { self.seal(driver) } else { Ok(()) }
    }

    /// Gives an order; whether there is somebody to carry it out.
    pub(crate) fn order(&self, order: Order) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok())
    }
}
