//! A run directory that gets its name when it is whole.

use std::fs;
use std::path::{Path, PathBuf};

use dwell_files::{FileError, partial_path, rename_durably};
use dwell_store::{FoundRun, RunDir, StoreError, runs_under};

use crate::{BuildError, is_running_dwell};

/// Name of a run, and of its model, where the input has none that can be a directory's.
const UNNAMED: &str = "unnamed";

/// `OUT.partial`, with the run inside. Given up, it is removed.
pub(super) struct Staging {
    run: RunDir,
    folder: PathBuf,
    target: PathBuf,
    is_published: bool,
}

impl Staging {
    /// Begins a run with the names of another.
    pub(super) fn create(target: &Path, named_as: &RunDir) -> Result<Self, BuildError> {
        let action = "making the relabelled run";
        if fs::symlink_metadata(target).is_ok() {
            return Err(FileError::Exists { action, path: target.to_owned() }.into());
        }
        let folder = partial_path(target);
        remove_abandoned(&folder);
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(|error| StoreError::from_io(action, parent, error))?;
        }
        fs::create_dir(&folder).map_err(|error| StoreError::from_io(action, &folder, error))?;
        // Somebody who presses Ctrl-C takes the folder away; it must not come back.
        let run = match RunDir::create_in(&folder, named_as.model_id(), named_as.run_id()) {
            Err(StoreError::UnusableName { .. }) => RunDir::create_in(&folder, UNNAMED, UNNAMED),
            created => created,
        };
        match run {
            Ok(run) => Ok(Self { run, folder, target: target.to_owned(), is_published: false }),
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                Err(error.into())
            }
        }
    }

    pub(super) fn run(&self) -> &RunDir {
        &self.run
    }

    /// Gives the run its name.
    pub(super) fn publish(mut self) -> Result<(), BuildError> {
        rename_durably(self.run.path(), &self.target)?;
        self.is_published = true;
        // What is left is empty, and the name is what counts.
        let _ = fs::remove_dir_all(&self.folder);
        Ok(())
    }
}

/// Removes what a relabelling left that was killed. Any other folder of this name, and that of one still going on, stays.
fn remove_abandoned(folder: &Path) {
    let is_abandoned = |found: &FoundRun| {
        let marker = found.run.as_ref().ok().and_then(|run| run.marker().ok()?);
        marker.is_some_and(|marker| !marker.state.is_final() && !is_running_dwell(marker.observer_pid))
    };
    let runs = if folder.is_dir() { runs_under(folder).unwrap_or_default() } else { Vec::new() };
    if !runs.is_empty() && runs.iter().all(is_abandoned) {
        // If it cannot be removed, making it fails and says so.
        let _ = fs::remove_dir_all(folder);
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
