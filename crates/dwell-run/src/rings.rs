//! The files of rings in `raw/`.

use std::fs;
use std::path::{Path, PathBuf};

use dwell_store::{RunDir, StoreError};

const RING: &str = "ring";
/// A ring that could not be read to its end. The file stays, so that the loss is known however often tables are built.
const DAMAGED_RING: &str = "damaged_ring";
/// A ring whose worker was killed while it made it; nothing is in it.
const UNFINISHED_RING: &str = "partial";

/// Rings that may hold records.
pub(crate) fn waiting(run: &RunDir) -> Vec<PathBuf> {
    with_ending(run, RING)
}

/// How many rings could not be read to their end.
pub(crate) fn damaged_count(run: &RunDir) -> u64 {
    with_ending(run, DAMAGED_RING).len() as u64
}

/// Marks a ring as one that could not be read to its end.
pub(crate) fn set_aside(ring: &Path) -> Result<(), StoreError> {
    fs::rename(ring, ring.with_extension(DAMAGED_RING)).map_err(|source| StoreError::Io {
        action: "setting a damaged ring aside",
        source,
        path: ring.to_owned(),
    })
}

/// Removes rings that were never finished.
pub(crate) fn remove_unfinished(run: &RunDir) {
    let is_ring =
        |path: &PathBuf| path.file_stem().is_some_and(|stem| Path::new(stem).extension() == Some(RING.as_ref()));
    for path in with_ending(run, UNFINISHED_RING).into_iter().filter(is_ring) {
        // It takes space and does no other harm.
        let _ = fs::remove_file(path);
    }
}

/// The process that made a ring.
pub(crate) fn producer_pid(ring: &Path) -> Option<u32> {
    ring.file_stem()?.to_str()?.parse().ok()
}

fn with_ending(run: &RunDir, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(run.raw()).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension() == Some(ending.as_ref())).collect()
}
