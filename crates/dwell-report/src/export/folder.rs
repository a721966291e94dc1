//! The folder while it is being made: under another name, gone if it is not finished.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dwell_events::schema::Table;
use dwell_files::{
    OWN_TEXT_MAX_BYTES, PARTIAL_SUFFIX, TEXT_MAX_BYTES, read_json, read_own, rename_durably, sync_file_system,
};
use dwell_store::{hash_file, new_run_id};
use serde::Serialize;

use super::identity::Identity;
use super::paths::{shorten_paths, shortened};
use crate::ReportError;

const ACTION: &str = "writing a dataset";
/// Endings of the files with what programs said.
pub(super) const LOG_ENDING: &str = ".log";

/// Where a dataset grows until it is whole: a new name for every export, because what a killed one left must not get into
/// another.
pub fn dataset_staging(target: &Path) -> PathBuf {
    let name = target.file_name().map_or_else(|| "dataset".to_owned(), |name| name.to_string_lossy().into_owned());
    target.with_file_name(format!(".{name}.{}{PARTIAL_SUFFIX}", new_run_id()))
}

/// A dataset that is being made, by several threads.
pub(super) struct Folder {
    target: PathBuf,
    staging: PathBuf,
    written: Mutex<Written>,
}

/// What is in a dataset.
#[derive(Default)]
pub(super) struct Written {
    /// SHA-256 of every file, by path.
    checksums: BTreeMap<String, String>,
    pub(super) size_bytes: u64,
    /// Paths that were shortened in JSON files and logs.
    pub(super) shortened_paths: usize,
}

impl Written {
    pub(super) fn files(&self) -> usize {
        self.checksums.len()
    }
}

impl Folder {
    /// Begins in `staging`, which is beside the target, so that giving it its name is one step.
    pub(super) fn create(target: &Path, staging: &Path) -> Result<Self, ReportError> {
        if fs::symlink_metadata(target).is_ok() {
            return Err(ReportError::TargetExists { path: target.to_path_buf() });
        }
        let parent = staging.parent().unwrap_or(staging);
        fs::create_dir_all(parent).map_err(|error| ReportError::from_io(ACTION, parent, error))?;
        fs::create_dir(staging).map_err(|error| ReportError::from_io(ACTION, staging, error))?;
        Ok(Self { target: target.to_path_buf(), staging: staging.to_path_buf(), written: Mutex::default() })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.staging.join(name)
    }

    /// What is in it so far. A thread that panicked left whole entries behind.
    pub(super) fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a file; in JSON files and logs paths are shortened.
    pub(super) fn copy(&self, from: &Path, name: &str) -> Result<(), ReportError> {
        if name.ends_with(LOG_ENDING) {
            return self.copy_log(from, name);
        }
        if !name.ends_with(".json") {
            let to = self.make_room_for(name)?;
            fs::copy(from, &to).map_err(|error| {
                // Of the two, only the copy needs space.
                let path = if error.kind() == io::ErrorKind::StorageFull { &to } else { from };
                ReportError::from_io("copying a file into a dataset", path, error)
            })?;
            return self.note_written(name);
        }
        let mut value = read_json("reading a file of a run", from, OWN_TEXT_MAX_BYTES)?;
        self.written().shortened_paths += shorten_paths(&mut value);
        self.write_json(name, &value)
    }

    /// Copies what a program said. Bytes of it that are no text are replaced.
    fn copy_log(&self, from: &Path, name: &str) -> Result<(), ReportError> {
        let log = read_own(from, TEXT_MAX_BYTES)
            .map_err(|error| ReportError::from_io("copying a file into a dataset", from, error))?;
        let mut text = String::with_capacity(log.len());
        for line in String::from_utf8_lossy(&log).split_inclusive('\n') {
            let (line, count) = shortened(line);
            self.written().shortened_paths += count;
            text.push_str(&line);
        }
        self.write(name, text.as_bytes())
    }

    /// Copies a table with the columns that name its run. Returns whether the file is a table: others are not copied.
    pub(super) fn copy_table(
        &self,
        from: &Path,
        name: &str,
        identity: &Identity,
        tables: &[Table],
    ) -> Result<bool, ReportError> {
        let is_table = identity.copy(from, &self.make_room_for(name)?, tables)?;
        if is_table {
            self.note_written(name)?;
        }
        Ok(is_table)
    }

    pub(super) fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), ReportError> {
        let unfit = |error: serde_json::Error| ReportError::UnfitFile {
            action: ACTION,
            found: error.to_string(),
            path: self.path(name),
        };
        let mut text = serde_json::to_vec_pretty(value).map_err(unfit)?;
        text.push(b'\n');
        self.write(name, &text)
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ReportError> {
        let path = self.make_room_for(name)?;
        fs::write(&path, bytes).map_err(|error| ReportError::from_io(ACTION, &path, error))?;
        self.note_written(name)
    }

    fn make_room_for(&self, name: &str) -> Result<PathBuf, ReportError> {
        let mut folder = self.staging.clone();
        // Not all at once: if a signal takes the dataset away meanwhile, it must not come back.
        for part in Path::new(name).parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            match fs::create_dir(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(ReportError::from_io(ACTION, &folder, error));
                }
                _ => {}
            }
        }
        Ok(self.path(name))
    }

    /// Takes a file that is there into the checksums.
    fn note_written(&self, name: &str) -> Result<(), ReportError> {
        let (size_bytes, sha256) = hash_file(&self.path(name))?;
        let mut written = self.written();
        written.size_bytes += size_bytes;
        written.checksums.insert(name.to_owned(), sha256);
        Ok(())
    }

    /// Writes the checksums of all files, in the format of `sha256sum`.
    pub(super) fn seal(&self) -> Result<(), ReportError> {
        let line = |(name, sha256): (&String, &String)| format!("{sha256}  {name}\n");
        let text: String = self.written().checksums.iter().map(line).collect();
        self.write("checksums.sha256", text.as_bytes())
    }

    /// Gives the folder its name, once all of it is on the disk. Waiting for each file would take most of the time.
    pub(super) fn publish(self) -> Result<(), ReportError> {
        sync_file_system(&self.staging)?;
        // A folder that came meanwhile is not replaced.
        if fs::symlink_metadata(&self.target).is_ok() {
            return Err(ReportError::TargetExists { path: self.target.clone() });
        }
        Ok(rename_durably(&self.staging, &self.target)?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // After publishing, nothing has this name any more.
        let _ = fs::remove_dir_all(&self.staging);
    }
}
