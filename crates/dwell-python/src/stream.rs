//! A stream being written, as Python holds it.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::Duration;

use dwell_clock::monotonic_ns;
use dwell_tensors::{
    CodecLoss, DType, Handover, Pressure, StreamError, StreamProgress, StreamSummary, TensorHead, TensorStream,
    TensorsError, WorstTensor,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::{closed, of_tensors, usage_text};
use crate::options::OptionValues;

/// How long a wait lasts before Python may see a Ctrl-C.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);
/// Copies of this size take longer than letting other threads of Python run meanwhile costs.
const COPY_WITHOUT_GIL_BYTES: usize = 256 << 10;

/// A name that tensors are handed over under.
struct Name {
    text: String,
    layer: Option<i32>,
}

/// A stream and those who use it; taken out when it ends.
pub(crate) type SharedStream = Arc<RwLock<Option<TensorStream>>>;

/// A tensor stream being written.
#[pyclass(frozen)]
pub(crate) struct Stream {
    stream: SharedStream,
    names: RwLock<Vec<Name>>,
    pressure: Pressure,
}

/// A tensor as (name, step, token_index, dtype, shape), name and dtype by number.
pub(crate) type TensorValues<'py> = (usize, u64, Option<u64>, usize, Bound<'py, PyTuple>);

/// A token as (token_index, token_id, token_text, packet, timestamp_ns).
type TokenValues = (u64, i64, String, u64, i64);

#[pymethods]
impl Stream {
    /// Begins a stream; a file of that name is replaced.
    #[staticmethod]
    fn create(py: Python<'_>, path: PathBuf, options: OptionValues) -> PyResult<Self> {
        let options = options.check(py)?;
        let pressure = options.pressure;
        let stream = py.detach(|| TensorStream::create(&path, options)).map_err(|error| of_tensors(py, &error))?;
        Ok(Self::of(stream, pressure))
    }

    /// Goes on with a stream from its checkpoint: the stream, its tokens so far, and what else is known.
    #[staticmethod]
    fn resume<'py>(
        py: Python<'py>,
        path: PathBuf,
        options: OptionValues,
    ) -> PyResult<(Self, Vec<TokenValues>, Bound<'py, PyDict>)> {
        let options = options.check(py)?;
        let pressure = options.pressure;
        let (stream, resumed) =
            py.detach(|| TensorStream::resume(&path, options)).map_err(|error| of_tensors(py, &error))?;
        let tokens = resumed
            .tokens
            .into_iter()
            .map(|token| (token.token_index, token.token_id, token.token_text, token.packet, token.timestamp_ns))
            .collect();
        let facts = PyDict::new(py);
        facts.set_item("packets", resumed.packets)?;
        facts.set_item("next_step", resumed.next_step)?;
        facts.set_item("trimmed_bytes", resumed.trimmed_bytes)?;
        Ok((Self::of(stream, pressure), tokens, facts))
    }

    /// The number under which tensors of this name are handed over.
    fn name(&self, text: String, layer: Option<i32>) -> usize {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.push(Name { text, layer });
        names.len() - 1
    }

    /// Hands over a tensor whose `bytes` bytes lie at `address` one after another; they are copied before this returns.
    ///
    /// The memory must stay as it is until then. Returns whether it was taken; `False` says that it was dropped.
    fn submit(&self, py: Python<'_>, tensor: TensorValues<'_>, address: usize, bytes: usize) -> PyResult<bool> {
        let head = self.head_of(py, tensor, bytes)?;
        let elements: &[u8] = if bytes == 0 {
            &[]
        } else {
            // SAFETY: the caller, hooks of the same package, holds the tensor whose memory this is for as long as this
            // call lasts, and says how long that memory is.
            unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }
        };
        let guard = self.open(py)?;
        let stream = guard.as_ref().ok_or_else(|| closed(py))?;
        let handover = self.copy(py, stream, head, elements)?;
        Ok(handover == Handover::Taken)
    }

    /// Records that a token is complete; returns its index.
    fn record_token(&self, py: Python<'_>, token_id: i64, token_text: &str) -> PyResult<u64> {
        Ok(self.with(py, |stream| stream.record_token(token_id, token_text))?.token_index)
    }

    /// Returns when all that was handed over so far is in the file.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, TensorStream::flush)
    }

    /// Makes all that was handed over so far durable, and leaves a checkpoint.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, TensorStream::checkpoint)
    }

    /// How far it is.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let guard = self.open(py)?;
        let stream = guard.as_ref().ok_or_else(|| closed(py))?;
        progress_values(py, &stream.progress())
    }

    /// Ends the stream: writes what is left and the index, and removes the checkpoint.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.end(py, TensorStream::finish)
    }

    /// Lets go of the stream and leaves all as it is: for a forked process, in which its threads do not exist.
    fn leave_to_parent(&self) {
        if let Ok(mut stream) = self.stream.try_write() {
            // Dropping it would wait for them.
            std::mem::forget(stream.take());
        }
    }

    /// Ends the stream after a failure: writes what is left and keeps the checkpoint.
    fn abandon<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.end(py, TensorStream::abandon)
    }
}

impl Stream {
    fn of(stream: TensorStream, pressure: Pressure) -> Self {
        Self { stream: Arc::new(RwLock::new(Some(stream))), names: RwLock::default(), pressure }
    }

    /// The stream, for a thread that hands tensors over without Python.
    pub(crate) fn shared(&self) -> SharedStream {
        Arc::clone(&self.stream)
    }

    /// The stream, which a thread that ends it cannot take away meanwhile.
    ///
    /// It never waits, because whoever holds the lock may be waiting for Python.
    fn open(&self, py: Python<'_>) -> PyResult<RwLockReadGuard<'_, Option<TensorStream>>> {
        match self.stream.try_read() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(closed(py)),
        }
    }

    /// Does something that may take long, while other threads of Python run.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        action: impl FnOnce(&TensorStream) -> Result<T, TensorsError> + Send,
    ) -> PyResult<T> {
        let guard = self.open(py)?;
        let stream = guard.as_ref().ok_or_else(|| closed(py))?;
        py.detach(|| action(stream)).map_err(|error| of_tensors(py, &error))
    }

    fn end<'py>(
        &self,
        py: Python<'py>,
        action: fn(TensorStream) -> Result<StreamSummary, TensorsError>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let stream = py.detach(|| self.stream.write().unwrap_or_else(PoisonError::into_inner).take());
        let stream = stream.ok_or_else(|| closed(py))?;
        let summary = py.detach(|| action(stream)).map_err(|error| of_tensors(py, &error))?;
        let values = progress_values(py, &summary.progress)?;
        values.set_item("duration_s", summary.duration.as_secs_f64())?;
        values.set_item("used_direct_io", summary.used_direct_io)?;
        values.set_item("stored_bytes", summary.stored.stored_bytes)?;
        values.set_item("ratio", summary.stored.ratio())?;
        values.set_item("codec_loss", summary.stored.codec_loss.map(|loss| loss_values(py, loss)).transpose()?)?;
        Ok(values)
    }

    /// Copies the elements into memory of the stream, as soon as there is room.
    fn copy(&self, py: Python<'_>, stream: &TensorStream, head: TensorHead, elements: &[u8]) -> PyResult<Handover> {
        let failed = |error: TensorsError| of_tensors(py, &error);
        let without_room = |error| failed(named(error, &head.name));
        let mut room = stream.reserve(elements.len(), Duration::ZERO).map_err(without_room)?;
        while room.is_none() {
            match self.pressure {
                Pressure::Drop => return stream.count_dropped(&head).map_err(failed),
                Pressure::Spill => return py.detach(|| stream.submit(head, elements)).map_err(failed),
                Pressure::Block => {
                    py.check_signals()?;
                    room = py.detach(|| stream.reserve(elements.len(), SIGNAL_CHECK)).map_err(without_room)?;
                }
            }
        }
        let Some(mut room) = room else { return Ok(Handover::Dropped) };
        if elements.len() < COPY_WITHOUT_GIL_BYTES {
            room.copy_from_slice(elements);
        } else {
            py.detach(|| room.copy_from_slice(elements));
        }
        stream.submit_room(head, room).map_err(failed)
    }

    /// The same, of a tensor in `bytes` bytes. A wrong size would read memory that is not the tensor's.
    pub(crate) fn head_of(&self, py: Python<'_>, tensor: TensorValues<'_>, bytes: usize) -> PyResult<TensorHead> {
        let head = self.head(py, tensor)?;
        if head.raw_bytes() == Some(bytes as u64) {
            return Ok(head);
        }
        let TensorHead { name, shape, dtype, .. } = head;
        let message = format!("tensor {name:?} of shape {shape:?} and type {dtype} in {bytes} bytes");
        Err(usage_text(py, &message, Vec::new()))
    }

    /// What is known of a tensor that is handed over now.
    pub(crate) fn head(&self, py: Python<'_>, tensor: TensorValues<'_>) -> PyResult<TensorHead> {
        let (name, step, token_index, dtype, shape) = tensor;
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let name = names.get(name).ok_or_else(|| usage_text(py, "a number that is no name's", Vec::new()))?;
        let dtype = *DType::ALL.get(dtype).ok_or_else(|| usage_text(py, "a number that is no dtype's", Vec::new()))?;
        let shape = shape.iter_borrowed().map(|length| length.extract()).collect::<PyResult<_>>()?;
        let (name, layer) = (name.text.clone(), name.layer);
        Ok(TensorHead { name, layer, step, token_index, timestamp_ns: monotonic_ns().cast_signed(), dtype, shape })
    }
}

/// The error of a tensor for which room was asked before its name was told.
fn named(mut error: TensorsError, tensor: &str) -> TensorsError {
    if let TensorsError::Stream(StreamError::TooLarge { name, .. }) = &mut error {
        *name = tensor.to_owned();
    }
    error
}

/// What lossy codecs lost; the worst figures as (value, name, step).
fn loss_values(py: Python<'_>, loss: CodecLoss) -> PyResult<Bound<'_, PyDict>> {
    let worst = |worst: Option<WorstTensor>| worst.map(|it| (it.value, it.name, it.step));
    let values = PyDict::new(py);
    values.set_item("codecs", loss.codecs)?;
    values.set_item("packets", loss.packets)?;
    values.set_item("max_error", worst(loss.max_error))?;
    values.set_item("min_cosine", worst(loss.min_cosine))?;
    Ok(values)
}

fn progress_values<'py>(py: Python<'py>, progress: &StreamProgress) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    for (key, value) in [
        ("packets", progress.packets),
        ("raw_bytes", progress.raw_bytes),
        ("written_packets", progress.written_packets),
        ("written_bytes", progress.written_bytes),
        ("dropped_packets", progress.dropped_packets),
        ("dropped_bytes", progress.dropped_bytes),
        ("spilled_packets", progress.spilled_packets),
        ("spilled_bytes", progress.spilled_bytes),
        ("tokens", progress.tokens),
        ("memory_bytes", progress.memory_bytes),
        ("peak_memory_bytes", progress.peak_memory_bytes),
    ] {
        values.set_item(key, value)?;
    }
    values.set_item("producers_waited_s", progress.producers_waited.as_secs_f64())?;
    Ok(values)
}
