//! The runs below a folder: `results/<model_id>/<run_id>/`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dwell_files::FileError;

use crate::results_manifest::RESULTS_MANIFEST_FILE;
use crate::run_dir::is_run;
use crate::{RunDir, StoreError};

/// Folder of a results directory that holds experiments. No model can have this name.
pub const EXPERIMENTS_DIR: &str = "experiments";

/// Whether a results directory keeps this name for itself: a model of that name would have no folder for its runs.
pub fn is_tree_name(name: &str) -> bool {
    [EXPERIMENTS_DIR, RESULTS_MANIFEST_FILE].contains(&name)
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// One run.
    Run,
    /// A results directory, or the folder of one model.
    Tree,
}

/// A directory that looks like a run.
#[derive(Debug)]
pub struct FoundRun {
    /// Where it lies, below the path that was asked about.
    pub path: PathBuf,
    /// The run, or why it cannot be opened.
    pub run: Result<RunDir, StoreError>,
}

/// Tells a run from a folder with runs. What is neither is refused.
pub fn tree_kind(path: &Path) -> Result<TreeKind, StoreError> {
    let found = fs::metadata(path).map_err(|error| StoreError::from_io("opening a run", path, error))?;
    if is_run(path) {
        return Ok(TreeKind::Run);
    }
    let is_tree = found.is_dir() && holds_runs(path)?;
    if is_tree { Ok(TreeKind::Tree) } else { Err(StoreError::NotARun { path: path.to_owned() }) }
}

/// A results directory of which every run failed holds none, and is one all the same.
pub(crate) fn holds_runs(path: &Path) -> Result<bool, StoreError> {
    let is_results = path.join(RESULTS_MANIFEST_FILE).is_file() || path.join(EXPERIMENTS_DIR).is_dir();
    Ok(is_results || !run_paths(path)?.is_empty())
}

/// Every run of a results directory or of a model's folder, by path; a run is itself the only one.
///
/// Hidden folders and `experiments` are left out. Symbolic links are not followed.
pub fn runs_under(path: &Path) -> Result<Vec<FoundRun>, StoreError> {
    let paths = match tree_kind(path)? {
        TreeKind::Run => vec![path.to_owned()],
        TreeKind::Tree => run_paths(path)?,
    };
    Ok(paths.into_iter().map(|path| FoundRun { run: RunDir::open(&path), path }).collect())
}

fn run_paths(root: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut found = Vec::new();
    for below in folders_of(root)? {
        if is_run(&below) || is_closed(&below) {
            found.push(below);
        } else if !below.ends_with(EXPERIMENTS_DIR) {
            match folders_of(&below) {
                Ok(folders) => found.extend(folders.into_iter().filter(|path| is_run(path) || is_closed(path))),
                // As with one that is closed.
                Err(StoreError::File(FileError::PermissionDenied { .. })) => found.push(below),
                Err(error) => return Err(error),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Whether this user may not see what is in a folder. It may be a run: it is listed, and cannot be opened.
fn is_closed(dir: &Path) -> bool {
    fs::metadata(dir.join(RESULTS_MANIFEST_FILE)).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

fn folders_of(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let listing = |error| StoreError::from_io("looking for runs", dir, error);
    let mut folders = Vec::new();
    let entries = match fs::read_dir(dir) {
        // Another process has discarded the only run of a model since its folder was listed.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(folders),
        entries => entries.map_err(listing)?,
    };
    for entry in entries {
        let entry = entry.map_err(listing)?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.file_type().map_err(listing)?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}
