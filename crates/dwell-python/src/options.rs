//! How a stream is written, from Python's values.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use dwell_tensors::{Codec, DirectIo, Pressure, StreamOptions};
use pyo3::prelude::*;

use crate::error::{usage, usage_text};

/// The options of `dwell._core.Stream`; what is left out keeps the default of the core.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct OptionValues {
    codec: String,
    pressure: String,
    max_memory_bytes: Option<u64>,
    flush_bytes: Option<u64>,
    flush_interval_s: Option<f64>,
    workers: Option<usize>,
    direct_io: String,
    spill_dir: Option<PathBuf>,
    max_spill_bytes: Option<u64>,
    checkpoint_path: Option<PathBuf>,
    metadata: BTreeMap<String, String>,
}

impl OptionValues {
    /// The options, or which value is none.
    pub(crate) fn check(self, py: Python<'_>) -> PyResult<StreamOptions> {
        let defaults = StreamOptions::default();
        let codec: Codec = self.codec.parse().map_err(|error| usage(py, &error))?;
        let flush_interval = match self.flush_interval_s {
            None => defaults.flush_interval,
            Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| {
                usage_text(py, &format!("a flush interval of {seconds} s; 0 or more is needed"), vec![])
            })?,
        };
        Ok(StreamOptions {
            codec,
            pressure: choice(py, "pressure", &self.pressure, Pressure::from_name, Pressure::NAMES)?,
            max_memory_bytes: self.max_memory_bytes.unwrap_or(defaults.max_memory_bytes),
            flush_bytes: self.flush_bytes.unwrap_or(defaults.flush_bytes),
            flush_interval,
            workers: self.workers.unwrap_or(defaults.workers),
            direct_io: choice(py, "direct_io", &self.direct_io, DirectIo::from_name, DirectIo::NAMES)?,
            spill_dir: self.spill_dir,
            max_spill_bytes: self.max_spill_bytes.unwrap_or(defaults.max_spill_bytes),
            checkpoint_path: self.checkpoint_path,
            metadata: self.metadata,
        })
    }
}

fn choice<T>(py: Python<'_>, what: &str, text: &str, from_name: fn(&str) -> Option<T>, names: &[&str]) -> PyResult<T> {
    from_name(text).ok_or_else(|| {
        usage_text(
            py,
            &format!("{what}={text:?}, and no such value is known"),
            vec![format!("one of: {}", names.join(", "))],
        )
    })
}
