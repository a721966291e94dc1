//! A run directory that gets its name when it is whole.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dwell_store::{PARTIAL_SUFFIX, RunDir, StoreError};

use crate::RunError;

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
    pub(super) fn create(target: &Path, named_as: &RunDir) -> Result<Self, RunError> {
        let action = "making the relabelled run";
        if fs::symlink_metadata(target).is_ok() {
            return Err(StoreError::Exists { action, path: target.to_owned() }.into());
        }
        let mut folder = target.as_os_str().to_owned();
        folder.push(PARTIAL_SUFFIX);
        let folder = PathBuf::from(folder);
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(|source| cannot(action, parent, source))?;
        }
        fs::create_dir(&folder).map_err(|source| cannot(action, &folder, source))?;
        let run = match RunDir::create(&folder, named_as.model_id(), named_as.run_id()) {
            Err(StoreError::UnusableName { .. }) => RunDir::create(&folder, UNNAMED, UNNAMED),
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
    pub(super) fn publish(mut self) -> Result<(), RunError> {
        let action = "naming the relabelled run";
        let sync = |path: &Path| File::open(path).and_then(|folder| folder.sync_all());
        sync(self.run.path()).map_err(|source| cannot(action, self.run.path(), source))?;
        fs::rename(self.run.path(), &self.target).map_err(|source| cannot(action, &self.target, source))?;
        self.is_published = true;
        // What is left is empty, and the name is what counts.
        let _ = fs::remove_dir_all(&self.folder);
        if let Some(parent) = self.target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            let _ = sync(parent);
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn cannot(action: &'static str, path: &Path, source: std::io::Error) -> StoreError {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => StoreError::Exists { action, path },
        ErrorKind::PermissionDenied => StoreError::PermissionDenied { action, path },
        ErrorKind::StorageFull => StoreError::NoSpace { action, path },
        _ => StoreError::Io { action, source, path },
    }
}
