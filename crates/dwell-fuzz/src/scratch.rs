//! Bytes as a file, for decoders that open their files themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary folder can be made"));

/// A file of this name in a folder of its own, with these bytes. The next call with the name replaces it.
pub(crate) fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::write(&path, bytes).expect("a temporary file can be written");
    path
}

/// That folder.
pub(crate) fn folder() -> &'static Path {
    FOLDER.path()
}
