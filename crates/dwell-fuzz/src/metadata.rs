//! `metadata.json` of a run directory.

use std::path::Path;

use dwell_metadata::RunMetadata;

pub(crate) fn run(bytes: &[u8]) {
    let _ = RunMetadata::parse(bytes, Path::new("metadata.json"));
}
