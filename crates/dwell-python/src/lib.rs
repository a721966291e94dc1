//! The compiled part of the Python package `dwell`: the module `dwell._core`.
//!
//! It hands tensors from Python's memory to a `TensorStream` and gives those of a `TensorFile` back. What a model is,
//! which modules are captured and when is decided in Python; here is what costs time, and what the command line has
//! too: codecs, slices and globs are read by the same code.

mod comparison;
mod cuda;
mod error;
mod file;
mod gpu_kernel;
mod options;
mod pending_copies;
mod ring;
mod selection;
mod stream;
mod transfer;

use pyo3::prelude::*;

/// Streams, files and memory of `dwell`.
#[pymodule(name = "_core")]
mod core {
    use dwell_tensors::{Codec, DType};
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::comparison::Comparison;
    #[pymodule_export]
    use crate::file::File;
    #[pymodule_export]
    use crate::ring::Ring;
    #[pymodule_export]
    use crate::selection::{matching, parse_slice};
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::transfer::Transfer;

    /// The names of all element types; the place of a name is the code that `Stream.submit` takes.
    #[pyfunction]
    fn dtype_names() -> Vec<&'static str> {
        DType::ALL.iter().map(|dtype| dtype.name()).collect()
    }

    /// The codec as files name it, and whether it is lossless.
    #[pyfunction]
    fn parse_codec(py: Python<'_>, text: &str) -> PyResult<(String, bool)> {
        let codec: Codec = text.parse().map_err(|error| crate::error::usage(py, &error))?;
        Ok((codec.to_string(), codec.is_lossless()))
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
