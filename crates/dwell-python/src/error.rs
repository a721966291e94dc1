//! Errors as Python's exceptions, with the texts and hints of the command line.

use std::error::Error;

use dwell_events::Hint;
use dwell_files::FileError;
use dwell_tensors::{StreamError, TensorsError};
use pyo3::prelude::*;

use crate::cuda::CudaError;

/// An argument that cannot be meant: `dwell.UsageError`.
pub(crate) fn usage<E: Error + Hint>(py: Python<'_>, error: &E) -> PyErr {
    raise(py, "UsageError", &chain(error), error.hints())
}

/// An argument that cannot be meant, said in words.
pub(crate) fn usage_text(py: Python<'_>, message: &str, hints: Vec<String>) -> PyErr {
    raise(py, "UsageError", message, hints)
}

/// What the CUDA driver said: `dwell.CaptureError`.
pub(crate) fn of_cuda(py: Python<'_>, error: &CudaError) -> PyErr {
    raise(py, "CaptureError", &error.to_string(), Vec::new())
}

/// A stream that is used after it was ended.
pub(crate) fn closed(py: Python<'_>) -> PyErr {
    raise(py, "DwellError", "using a capture that has ended", Vec::new())
}

/// What a stream or a file said.
pub(crate) fn of_tensors(py: Python<'_>, error: &TensorsError) -> PyErr {
    let class = match error {
        TensorsError::File(FileError::NotFound { .. }) => "NotFoundError",
        TensorsError::File(_) => "StorageError",
        TensorsError::UnfitTensor { .. } | TensorsError::Stream(StreamError::UnfitOption { .. }) => "UsageError",
        _ => "DwellError",
    };
    raise(py, class, &chain(error), error.hints())
}

/// The message and what caused it, in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        // Many messages tell their cause already.
        if !text.contains(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        cause = error.source();
    }
    text
}

/// An instance of a class of `dwell.errors`.
fn raise(py: Python<'_>, class: &str, message: &str, hints: Vec<String>) -> PyErr {
    let made = py
        .import("dwell.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message, hints)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
