//! The folder while it is being made: under another name, gone if it is not finished.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use dwell_events::schema::Table;
use dwell_files::{
    OWN_TEXT_MAX_BYTES, PARTIAL_SUFFIX, TEXT_MAX_BYTES, read_json, read_own, rename_durably, write_bytes_atomically,
    write_json_atomically,
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

/// A dataset that is being made.
pub(super) struct Folder {
    target: PathBuf,
    staging: PathBuf,
    /// SHA-256 of every file, by path.
    checksums: BTreeMap<String, String>,
    size_bytes: u64,
    /// Paths that were shortened in JSON files and logs.
    pub(super) shortened_paths: usize,
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
        Ok(Self {
            target: target.to_path_buf(),
            staging: staging.to_path_buf(),
            checksums: BTreeMap::new(),
            size_bytes: 0,
            shortened_paths: 0,
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.staging.join(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Copies a file; in JSON files and logs paths are shortened.
    pub(super) fn copy(&mut self, from: &Path, name: &str) -> Result<(), ReportError> {
        if name.ends_with(LOG_ENDING) {
            return self.copy_log(from, name);
        }
        if !name.ends_with(".json") {
            let to = self.make_room_for(name)?;
            let copied = fs::copy(from, &to).and_then(|_| File::open(&to)).and_then(|file| file.sync_all());
            copied.map_err(|error| {
                // Of the two, only the copy needs space.
                let path = if error.kind() == io::ErrorKind::StorageFull { &to } else { from };
                ReportError::from_io("copying a file into a dataset", path, error)
            })?;
            return self.note_written(name);
        }
        let mut value = read_json("reading a file of a run", from, OWN_TEXT_MAX_BYTES)?;
        self.shortened_paths += shorten_paths(&mut value);
        self.write_json(name, &value)
    }

    /// Copies what a program said. Bytes of it that are no text are replaced.
    fn copy_log(&mut self, from: &Path, name: &str) -> Result<(), ReportError> {
        let log = read_own(from, TEXT_MAX_BYTES)
            .map_err(|error| ReportError::from_io("copying a file into a dataset", from, error))?;
        let mut text = String::with_capacity(log.len());
        for line in String::from_utf8_lossy(&log).split_inclusive('\n') {
            let (line, count) = shortened(line);
            self.shortened_paths += count;
            text.push_str(&line);
        }
        self.write(name, text.as_bytes())
    }

    /// Copies a table with the columns that name its run. Returns whether the file is a table: others are not copied.
    pub(super) fn copy_table(
        &mut self,
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

    pub(super) fn write_json<T: Serialize>(&mut self, name: &str, value: &T) -> Result<(), ReportError> {
        write_json_atomically(&self.make_room_for(name)?, value)?;
        self.note_written(name)
    }

    pub(super) fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), ReportError> {
        write_bytes_atomically(&self.make_room_for(name)?, bytes)?;
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
    pub(super) fn note_written(&mut self, name: &str) -> Result<(), ReportError> {
        let (size_bytes, sha256) = hash_file(&self.path(name))?;
        self.size_bytes += size_bytes;
        self.checksums.insert(name.to_owned(), sha256);
        Ok(())
    }

    /// Writes the checksums of all files, in the format of `sha256sum`; gives back how many files there are and their
    /// size.
    pub(super) fn seal(&mut self) -> Result<(usize, u64), ReportError> {
        let text: String = self.checksums.iter().map(|(name, sha256)| format!("{sha256}  {name}\n")).collect();
        self.write("checksums.sha256", text.as_bytes())?;
        Ok((self.checksums.len(), self.size_bytes))
    }

    /// Gives the folder its name.
    pub(super) fn publish(self) -> Result<(), ReportError> {
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
