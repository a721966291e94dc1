//! Opening a model file, with the faults found that would make the runtime abort rather than refuse.

use std::fs;
use std::path::Path;

use dwell_gguf::{GgufFile, ModelShape, ShapeError};

use crate::messages::{Failure, hinted};

/// llama.cpp's LLAMA_MAX_EXPERTS.
const MOST_EXPERTS: u32 = 1024;

/// Opens a model to describe it.
pub(crate) fn open(path: &Path) -> anyhow::Result<GgufFile> {
    // Before opening: opening a pipe would wait for its other end.
    if let Ok(facts) = fs::metadata(path)
        && !facts.is_file()
    {
        let found = if facts.is_dir() { "a folder" } else { "something that is not a file" };
        let failure = Failure::new(format!("opening the model: found {found}, needed a GGUF file: {path:?}"));
        return Err(failure.hint("give the path of a .gguf file").into());
    }
    GgufFile::open(path).map_err(hinted)
}

/// Opens a model to run it.
pub(crate) fn open_to_run(path: &Path) -> anyhow::Result<GgufFile> {
    let file = open(path)?;
    match nonsense(&file) {
        Some(problem) => {
            let failure = Failure::new(format!("{problem}: {path:?}"));
            Err(failure.hint("convert the model again, or get it from another source: its metadata is damaged").into())
        }
        None => Ok(file),
    }
}

/// What llama.cpp asserts about a model; it does not refuse a model that fails, it aborts.
///
/// Only that: what else may be odd about a shape is for the runtime to judge, which may know models that dwell does not.
fn nonsense(file: &GgufFile) -> Option<String> {
    let shape = match ModelShape::from_gguf(file) {
        Ok(shape) => shape,
        Err(error @ ShapeError::OutOfRange { .. }) => return Some(error.to_string()),
        Err(_) => return None,
    };
    let (experts, used) = (shape.experts, shape.experts_used);
    let reading = "reading the shape: found";
    match () {
        () if experts > MOST_EXPERTS => Some(format!("{reading} {experts} experts, needed at most {MOST_EXPERTS}")),
        () if used > experts => Some(format!("{reading} {used} experts used of {experts}, needed at most {experts}")),
        () if used == 0 && experts > 0 => Some(format!("{reading} 0 experts used of {experts}, needed 1 to {experts}")),
        () => None,
    }
}
