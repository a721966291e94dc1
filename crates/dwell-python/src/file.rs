//! A stream being read, as Python holds it.

use std::path::PathBuf;

use dwell_tensors::{FileEnd, PacketEntry, TensorFile, TensorsError, export_safetensors, stats};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyType};

use crate::error::of_tensors;

/// A tensor stream on disk. Pickled, it is its path.
#[pyclass(frozen, module = "dwell._core")]
pub(crate) struct File {
    file: TensorFile,
}

/// What is known of one tensor.
#[derive(IntoPyObject)]
struct EntryValues<'a> {
    packet: u64,
    name: &'a str,
    layer: Option<i32>,
    step: u64,
    token_index: Option<u64>,
    timestamp_ns: i64,
    dtype: &'static str,
    shape: &'a [u64],
    codec: String,
    bound: Option<f64>,
    raw_bytes: u64,
    stored_bytes: u64,
    max_error: Option<f64>,
    mse: Option<f64>,
    min_cosine: Option<f64>,
}

/// A token as (token_index, token_id, token_text, packet, timestamp_ns).
type TokenValues<'a> = (u64, i64, &'a str, u64, i64);

#[pymethods]
impl File {
    /// Opens a stream, whole or cut off.
    #[new]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let file = py.detach(|| TensorFile::open(&path)).map_err(|error| of_tensors(py, &error))?;
        Ok(Self { file })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (PathBuf,)) {
        (py.get_type::<Self>(), (self.file.path().to_owned(),))
    }

    fn __len__(&self) -> usize {
        self.file.packets().len()
    }

    /// Why the stream is not finished; `None` if it is.
    fn unfinished_because(&self) -> Option<String> {
        match self.file.end() {
            FileEnd::Finished => None,
            FileEnd::Unfinished { reason, .. } => Some(reason.to_string()),
        }
    }

    /// What the stream says about itself.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        self.file.metadata().iter().try_for_each(|(key, value)| values.set_item(key, value))?;
        Ok(values)
    }

    /// The names of tensors.
    fn names(&self) -> Vec<&str> {
        self.file.names()
    }

    /// The tokens.
    fn tokens(&self) -> Vec<TokenValues<'_>> {
        let marks = self.file.tokens().iter();
        marks.map(|it| (it.token_index, it.token_id, it.token_text.as_str(), it.packet, it.timestamp_ns)).collect()
    }

    /// How many tensors were dropped, and bytes of their elements, by name.
    fn dropped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        self.file.dropped().into_iter().try_for_each(|(name, counts)| values.set_item(name, counts))?;
        Ok(values)
    }

    /// Figures of all tensors and of those of each name, as JSON.
    fn stats_json(&self, py: Python<'_>) -> PyResult<String> {
        serde_json::to_string(&py.detach(|| stats(&self.file)))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Writes all tensors to a safetensors file; returns how many there are.
    fn export_safetensors(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        py.detach(|| export_safetensors(&self.file, &path, |_| true)).map_err(|error| of_tensors(py, &error))
    }

    /// Bytes of the file.
    fn file_bytes(&self) -> u64 {
        self.file.file_bytes()
    }

    /// Places of tensors with this name, in this step if one is given.
    #[pyo3(signature = (name, step=None))]
    fn find(&self, name: &str, step: Option<u64>) -> Vec<usize> {
        self.file.find(name, step)
    }

    /// What is known of the tensor at a place.
    fn entry(&self, py: Python<'_>, index: usize) -> PyResult<EntryValues<'_>> {
        self.checked(py, index).map(|entry| self.values(entry))
    }

    /// The elements of the tensor at a place, checked and decoded.
    fn elements<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyByteArray>> {
        let bytes = usize::try_from(self.checked(py, index)?.raw_bytes)?;
        PyByteArray::new_with(py, bytes, |out| {
            let read = py.detach(|| self.file.read_elements_into(index, out));
            read.map_err(|error| of_tensors(py, &error))
        })
    }
}

impl File {
    fn checked(&self, py: Python<'_>, index: usize) -> PyResult<&PacketEntry> {
        let packets = self.file.packets();
        packets.get(index).ok_or_else(|| {
            let path = self.file.path().to_owned();
            of_tensors(py, &TensorsError::NoSuchEntry { index, entries: packets.len(), path })
        })
    }

    fn values(&self, entry: &PacketEntry) -> EntryValues<'_> {
        let encoded = self.file.encoded(entry);
        EntryValues {
            packet: entry.packet,
            name: self.file.name(entry),
            layer: entry.layer,
            step: entry.step,
            token_index: entry.token_index,
            timestamp_ns: entry.timestamp_ns,
            dtype: entry.dtype.name(),
            shape: self.file.shape(entry),
            codec: encoded.codec.to_string(),
            bound: encoded.bound,
            raw_bytes: entry.raw_bytes,
            stored_bytes: entry.payload_bytes,
            max_error: encoded.max_error,
            mse: encoded.mse,
            min_cosine: encoded.min_cosine,
        }
    }
}
