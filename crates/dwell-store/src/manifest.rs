//! `manifest.json`: size and SHA-256 of every file of a run.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use dwell_files::{PARTIAL_SUFFIX, fenced, read_json, write_json_atomically};
use parquet::file::metadata::ParquetMetaDataReader;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::run_dir::{MANIFEST_FILE, METRICS_FILE, STATE_FILE};
use crate::table_reader::stated_version;
use crate::utc::{unix_secs_now, utc_text};
use crate::{RunDir, StoreError};

/// Version of the manifest's own fields.
pub const MANIFEST_SCHEMA_VERSION: &str = "1.0";

/// Longest `manifest.json`: some ten thousand files.
const MANIFEST_MAX_BYTES: u64 = 8 << 20;

/// Bytes hashed at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// Content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of these fields.
    pub manifest_schema_version: String,
    /// The run.
    pub run_id: String,
    /// When the manifest was written.
    pub created_at_utc: String,
    /// Every file of the run, by path; not the manifest, not unfinished files, not `raw/STATE`.
    pub files: Vec<ManifestFile>,
}

/// One file of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Path relative to the run, with `/` between names.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
    /// Schema version of a table.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schema_version: Option<String>,
}

/// Hashes every file of the run and writes the manifest.
pub fn write_manifest(run: &RunDir) -> Result<Manifest, StoreError> {
    let manifest = manifest_of(run)?;
    write_json_atomically(&run.manifest_json(), &manifest)?;
    Ok(manifest)
}

/// The manifest that a run should have now.
pub fn manifest_of(run: &RunDir) -> Result<Manifest, StoreError> {
    let files =
        files_of_run(run.path())?.into_iter().map(|path| describe(run.path(), path)).collect::<Result<Vec<_>, _>>()?;
    Ok(Manifest {
        manifest_schema_version: MANIFEST_SCHEMA_VERSION.to_owned(),
        run_id: run.run_id().to_owned(),
        created_at_utc: utc_text(unix_secs_now()),
        files,
    })
}

impl Manifest {
    /// Reads the manifest of the run in `dir`.
    pub fn read(dir: &Path) -> Result<Self, StoreError> {
        Ok(read_json("reading a manifest", &dir.join(MANIFEST_FILE), MANIFEST_MAX_BYTES)?)
    }
}

/// Refuses a finished run that lacks tables which its manifest lists: some are left out of runs that have none, and
/// reading such a run would take one that was lost for one that never was.
pub fn ensure_listed_tables(run: &RunDir) -> Result<(), StoreError> {
    if run.marker()?.is_some_and(|marker| !marker.state.is_final()) {
        return Ok(());
    }
    // One that is missing or damaged lists nothing; verifying says so.
    let listed = Manifest::read(run.path()).map(|manifest| manifest.files).unwrap_or_default();
    let is_table = |path: &str| !path.contains('/') && (path.ends_with(".parquet") || path == METRICS_FILE);
    let paths = listed.into_iter().map(|file| file.path).filter(|path| is_table(path));
    let files: Vec<String> = paths.filter(|path| !run.path().join(path).exists()).collect();
    match files.is_empty() {
        true => Ok(()),
        false => Err(StoreError::MissingTables { files, run: run.path().to_owned() }),
    }
}

/// Paths of the files that a manifest lists, sorted.
///
/// `raw/STATE` is left out: it says that the run is complete, which is true only once the manifest is there.
pub(crate) fn files_of_run(dir: &Path) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    gather(dir, "", &mut found)?;
    found.retain(|path| path != MANIFEST_FILE && path != STATE_FILE && !path.ends_with(PARTIAL_SUFFIX));
    found.sort();
    Ok(found)
}

/// Symbolic links are not followed: what they point at is not part of the run.
fn gather(root: &Path, below: &str, found: &mut Vec<String>) -> Result<(), StoreError> {
    let dir = root.join(below);
    let listing = |error| StoreError::from_io("listing the files of a run", &dir, error);
    for entry in fs::read_dir(&dir).map_err(listing)? {
        let entry = entry.map_err(listing)?;
        let kind = entry.file_type().map_err(listing)?;
        let path = format!("{below}{}", entry.file_name().to_string_lossy());
        if kind.is_dir() {
            gather(root, &format!("{path}/"), found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

fn describe(root: &Path, path: String) -> Result<ManifestFile, StoreError> {
    let full = root.join(&path);
    let (size_bytes, sha256) = hash_file(&full)?;
    let schema_version = if path.ends_with(".parquet") { version_of_table(&full) } else { None };
    Ok(ManifestFile { path, size_bytes, sha256, schema_version })
}

/// Size and SHA-256 of a file.
pub fn hash_file(path: &Path) -> Result<(u64, String), StoreError> {
    let hashing = |error| StoreError::from_io("hashing a file", path, error);
    let mut file = File::open(path).map_err(hashing)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut size_bytes = 0;
    loop {
        let count = file.read(&mut chunk).map_err(hashing)?;
        if count == 0 {
            break;
        }
        hasher.update(&chunk[..count]);
        size_bytes += count as u64;
    }
    Ok((size_bytes, hex(&hasher.finalize())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file that cannot be read as a table has no version; verifying the run says what is wrong with it.
fn version_of_table(path: &PathBuf) -> Option<String> {
    let file = File::open(path).ok()?;
    let metadata = fenced(|| ParquetMetaDataReader::new().parse_and_finish(&file)).ok()?.ok()?;
    stated_version(&metadata)
}
