//! The one rule about outputs that exist already: no file is replaced unless `--force` says so, and no folder ever is.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use dwell_files::{AtomicFile, FileError};
use dwell_report::DrawnFigure;
use serde::Serialize;

use crate::messages::{Failure, hinted};
use crate::shell::shell_word;

/// Folder of figures in an output folder.
const FIGURES_DIR: &str = "figures";
/// Names of the files that dwell wrote there. The folder may hold files of others too, which are never removed.
const FIGURES_LIST: &str = ".written_by_dwell";

/// Refuses to replace a file, unless it may be.
pub(crate) fn check_file(path: &Path, force: bool) -> Result<(), Failure> {
    // A link that leads nowhere is there too.
    match !force && path.symlink_metadata().is_ok() {
        true => Err(existing_file(path)),
        false => Ok(()),
    }
}

/// The same for a file in a folder that no command makes.
pub(crate) fn check_file_in_folder(path: &Path, force: bool) -> Result<(), Failure> {
    check_parent(path)?;
    check_file(path, force)
}

/// Refuses a file whose folder is not there: a mistyped path is likelier than the wish for a new folder.
pub(crate) fn check_parent(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => Err(Failure::new(format!("writing the output: there is no such folder: {folder:?}"))
            .hint(format!("mkdir -p {}", shell_word(&folder.display().to_string())))),
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
    /// Names of the figures among them; none for a command that draws none.
    figures: Option<BTreeSet<String>>,
}

impl OutputFolder {
    /// Nothing yet, for a folder that need not exist.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), files: Vec::new(), figures: None }
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

    /// Adds figures with their numbers, all that there are to be, in a folder of their own.
    pub(crate) fn add_figures(&mut self, figures: &[DrawnFigure]) {
        let files = |figure: &DrawnFigure| {
            let name = |ending| Path::new(figure.name()).with_extension(ending);
            [(name("svg"), figure.svg()), (name("csv"), figure.csv())]
        };
        self.add_figure_files(figures.iter().flat_map(files));
    }

    fn add_figure_files(&mut self, files: impl IntoIterator<Item = (PathBuf, String)>) {
        let mut names = BTreeSet::new();
        for (name, content) in files {
            self.add(Path::new(FIGURES_DIR).join(&name), content);
            names.insert(name.display().to_string());
        }
        self.figures = Some(names);
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
        // A full disk is noticed before the first file is replaced: old and new ones would not fit each other.
        let files = self.files.iter().map(|(path, content)| self.gathered(path, content));
        let mut files = files.collect::<anyhow::Result<Vec<AtomicFile>>>()?;
        let folder = self.folder.join(FIGURES_DIR);
        if let Some(figures) = self.figures.as_ref().filter(|_| folder.is_dir()) {
            let names: String = figures.iter().map(|name| format!("{name}\n")).collect();
            files.push(self.gathered(&folder.join(FIGURES_LIST), names.as_bytes())?);
            remove_other_figures(&folder, figures);
        }
        files.into_iter().try_for_each(AtomicFile::commit).map_err(hinted)
    }

    /// A file with its content on the disk, which does not have its name yet.
    fn gathered(&self, path: &Path, content: &[u8]) -> anyhow::Result<AtomicFile> {
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("creating the output folder failed with {error}: {folder:?}")))?;
        let mut file = AtomicFile::create(path).map_err(hinted)?;
        let written = file.write_all(content).map_err(|error| FileError::from_io("writing a file", path, error));
        written.and_then(|()| file.sync()).map_err(hinted)?;
        Ok(file)
    }
}

/// Removes figures of an earlier output that this one does not have.
fn remove_other_figures(folder: &Path, figures: &BTreeSet<String>) {
    let earlier = fs::read_to_string(folder.join(FIGURES_LIST)).unwrap_or_default();
    // A list may come from anywhere: it names files of this folder, or nothing.
    let is_in_folder = |name: &&str| !name.contains('/') && *name != "..";
    for name in earlier.lines().filter(is_in_folder).filter(|name| !figures.contains(*name)) {
        // One that is gone already is as it should be.
        let _ = fs::remove_file(folder.join(name));
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
        assert!(check_file_in_folder(&place.path().join("new.html"), false).is_ok());
        let failure = check_file_in_folder(&place.path().join("missing/new.html"), false).unwrap_err();
        let folder = place.path().join("missing");
        assert_eq!(failure.to_string(), format!("writing the output: there is no such folder: {folder:?}"));
        assert_eq!(failure.hints(), [format!("mkdir -p {}", folder.display())]);
    }

    #[test]
    fn figures_that_an_earlier_output_had_and_this_one_has_not_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let write = |names: &[&str]| {
            let mut files = OutputFolder::new(place.path());
            files.add_figure_files(names.iter().map(|name| (PathBuf::from(name), "<svg/>".to_owned())));
            files.write(true).unwrap();
        };
        write(&["a.svg", "b.svg"]);
        fs::write(place.path().join("figures/mine.svg"), "mine").unwrap();
        write(&["b.svg"]);
        let is_there = |name: &str| place.path().join("figures").join(name).exists();
        assert_eq!(["a.svg", "b.svg", "mine.svg"].map(is_there), [false, true, true]);
        write(&[]);
        assert_eq!(["b.svg", "mine.svg"].map(is_there), [false, true]);
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
