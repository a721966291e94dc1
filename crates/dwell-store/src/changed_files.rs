//! Noticing, when a run is read, that its files are not those that were sealed. `dwell verify` checks everything; this is
//! cheap enough to be done each time.

use std::fs;
use std::path::Path;

use crate::manifest::{Manifest, ManifestFile, hash_file};
use crate::run_dir::{METADATA_FILE, METRICS_FILE, OVERVIEW_FILE};
use crate::{RunDir, StoreError};

/// Longest file whose content is compared: some milliseconds. Of longer ones only the size is.
const COMPARED_MAX_BYTES: u64 = 8 << 20;

/// Which files of a run are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesRead {
    /// Metadata and metrics, as for a list of many runs.
    Results,
    /// The tables and the overview too.
    Tables,
}

impl FilesRead {
    fn has(self, path: &str) -> bool {
        let is_result = path == METADATA_FILE || path == METRICS_FILE;
        let is_table = path == OVERVIEW_FILE || (!path.contains('/') && path.ends_with(".parquet"));
        is_result || (self == FilesRead::Tables && is_table)
    }
}

/// Files of a finished run that differ from its manifest. A run that goes on, or that has no manifest that can be read, has
/// none; what is missing is for [`ensure_listed_tables`](crate::ensure_listed_tables) to say.
pub fn changed_files(run: &RunDir, read: FilesRead) -> Vec<String> {
    let is_final = |marker: Option<crate::RunMarker>| marker.is_none_or(|marker| marker.state.is_final());
    if !run.marker().is_ok_and(is_final) {
        return Vec::new();
    }
    let listed = Manifest::read(run.path()).map(|manifest| manifest.files).unwrap_or_default();
    let is_changed = |file: &ManifestFile| {
        let path = run.path().join(&file.path);
        let found_bytes = fs::metadata(&path).ok().filter(fs::Metadata::is_file).map(|found| found.len());
        match found_bytes {
            Some(found_bytes) if found_bytes != file.size_bytes => true,
            Some(found_bytes) if found_bytes > COMPARED_MAX_BYTES => false,
            // One that cannot be read is an error of whoever reads it.
            Some(_) => is_other_content(&path, file).unwrap_or(false),
            None => false,
        }
    };
    let listed = listed.into_iter().filter(|file| read.has(&file.path));
    listed.filter(is_changed).map(|file| file.path).collect()
}

/// Whether a file of the listed size has other content.
pub(crate) fn is_other_content(path: &Path, listed: &ManifestFile) -> Result<bool, StoreError> {
    let (found_bytes, sha256) = hash_file(path)?;
    Ok(found_bytes != listed.size_bytes || sha256 != listed.sha256)
}
