//! Headers of GGUF files, and the memory that their models would take.

use std::io::Cursor;

use dwell_events::engine::KvType;
use dwell_gguf::{GgufFile, MemoryRequest, ModelShape};

pub(crate) fn run(bytes: &[u8]) {
    let Ok(file) = GgufFile::read(Cursor::new(bytes)) else { return };
    let Ok(shape) = ModelShape::from_gguf(&file) else { return };
    let _ = shape.memory_needed(file.tensor_bytes(), &MemoryRequest::new(4096, KvType::F16));
}
