//! The one rule about outputs that exist already: no file is replaced unless `--force` says so, and no folder ever is.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use dwell_files::write_bytes_atomically;
use dwell_report::DrawnFigure;
use serde::Serialize;

use crate::messages::{Failure, hinted};

/// Folder of figures in an output folder.
const FIGURES_DIR: &str = "figures";

/// Refuses to replace a file, unless it may be.
pub(crate) fn check_file(path: &Path, force: bool) -> Result<(), Failure> {
    // A link that leads nowhere is there too.
    match !force && path.symlink_metadata().is_ok() {
        true => Err(existing_file(path)),
        false => Ok(()),
    }
}

/// Refuses to write into a folder that a command is to make. `--force` cannot change it: a folder may hold anything.
pub(crate) fn check_folder(path: &Path) -> Result<(), Failure> {
    match path.symlink_metadata().is_ok() {
        true => Err(refused(path).hint("choose another name with -o; folders are never replaced")),
        false => Ok(()),
    }
}

/// What is said of a file that exists and may not be replaced.
pub(crate) fn existing_file(path: &Path) -> Failure {
    refused(path).hint("replace it with --force, or choose another name")
}

fn refused(path: &Path) -> Failure {
    Failure::new(format!("writing the output found that it exists already: {path:?}"))
}

/// Files that are written to one folder, all of them or none.
pub(crate) struct OutputFolder {
    folder: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl OutputFolder {
    /// Nothing yet, for a folder that need not exist.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), files: Vec::new() }
    }

    /// Adds a file by its name in the folder.
    pub(crate) fn add(&mut self, name: impl AsRef<Path>, content: impl Into<Vec<u8>>) {
        self.files.push((self.folder.join(name), content.into()));
    }

    /// Adds a value as indented JSON.
    pub(crate) fn add_json(&mut self, name: &str, value: &impl Serialize) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(value).context("writing JSON")?;
        self.add(name, format!("{text}\n"));
        Ok(())
    }

    /// Adds figures with their numbers, in a folder of their own.
    pub(crate) fn add_figures(&mut self, figures: &[DrawnFigure]) {
        for figure in figures {
            let file = Path::new(FIGURES_DIR).join(figure.name());
            self.add(file.with_extension("svg"), figure.svg());
            self.add(file.with_extension("csv"), figure.csv());
        }
    }

    /// All files, in the order in which they were added.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// How many files there are.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Writes all files, or none if one exists and may not be replaced.
    pub(crate) fn write(&self, force: bool) -> anyhow::Result<()> {
        self.files.iter().try_for_each(|(path, _)| check_file(path, force))?;
        for (path, content) in &self.files {
            let folder = path.parent().unwrap_or(&self.folder);
            fs::create_dir_all(folder)
                .map_err(|error| Failure::new(format!("creating the output folder failed with {error}: {folder:?}")))?;
            write_bytes_atomically(path, content).map_err(hinted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn what_exists_is_replaced_by_force_alone_and_a_folder_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let (file, link) = (place.path().join("a.csv"), place.path().join("link"));
        assert!(check_file(&file, false).is_ok());
        fs::write(&file, "mine").unwrap();
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for path in [&file, &link] {
            let failure = check_file(path, false).unwrap_err();
            assert_eq!(failure.to_string(), format!("writing the output found that it exists already: {path:?}"));
            assert_eq!(failure.hints(), ["replace it with --force, or choose another name"]);
            assert!(check_file(path, true).is_ok());
        }
        assert!(check_folder(place.path()).is_err());
        assert!(check_folder(&place.path().join("new")).is_ok());
    }

    #[test]
    fn of_several_files_none_is_written_if_one_exists() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("b"), "mine").unwrap();
        let mut files = OutputFolder::new(place.path());
        files.add("a", "new");
        files.add("b", "new");
        assert!(files.write(false).is_err());
        assert!(!place.path().join("a").exists());
        files.write(true).unwrap();
        let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
        assert_eq!((read("a"), read("b"), files.len()), ("new".to_owned(), "new".to_owned(), 2));
    }
}
