//! Which tensors and which part of each: the grammars of the command line, for Python.

use dwell_capture::{NameGlob, Slice, SlicePart};
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};

use crate::error::usage;

/// What stands between brackets, as an index: `":, -1, ::4"`, `"..., 0"`.
#[pyfunction]
pub(crate) fn parse_slice<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyTuple>> {
    let slice: Slice = text.parse().map_err(|error| usage(py, &error))?;
    let parts = slice.parts().iter().map(|part| index_part(py, *part)).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, parts)
}

fn index_part(py: Python<'_>, part: SlicePart) -> PyResult<Bound<'_, PyAny>> {
    match part {
        SlicePart::Rest => Ok(py.Ellipsis().into_bound(py)),
        SlicePart::Index(index) => Ok(index.into_pyobject(py)?.into_any()),
        SlicePart::Range { start, stop, step } => {
            py.get_type::<PySlice>().call1((start, stop, (step > 1).then_some(step)))
        }
    }
}

/// The names that a glob names, in their order.
#[pyfunction]
pub(crate) fn matching(py: Python<'_>, pattern: &str, names: Vec<String>) -> PyResult<Vec<String>> {
    let glob = NameGlob::new(pattern).map_err(|error| usage(py, &error))?;
    Ok(names.into_iter().filter(|name| glob.is_match(name)).collect())
}
