//! The files of a folder, listed once: what is not in the list is not served.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use crate::WebError;

/// Files that a folder may have.
const MOST_FILES: usize = 20_000;
/// How deep its folders may go.
const DEEPEST: usize = 16;

/// A file in a folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListedFile {
    /// Below the folder, with `/` between its parts.
    pub(crate) name: String,
    /// Where it really is.
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// Every ordinary file below a folder, by name. Hidden ones are left out; a link must not leave the folder.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<ListedFile>, WebError> {
    let folder = folder.canonicalize().map_err(|source| WebError::Folder { path: folder.to_owned(), source })?;
    let mut listing = Listing { root: allowed_root(&folder).to_owned(), files: Vec::new() };
    listing.add(&folder, "", DEEPEST)?;
    listing.files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(listing.files)
}

/// Where links may lead to. In the cache of Hugging Face, a model's folder `snapshots/REVISION` has links to `blobs` beside it.
fn allowed_root(folder: &Path) -> &Path {
    let snapshots = folder.parent().filter(|parent| parent.ends_with("snapshots"));
    let repository = snapshots.and_then(Path::parent).filter(|repository| repository.join("blobs").is_dir());
    repository.unwrap_or(folder)
}

struct Listing {
    root: PathBuf,
    files: Vec<ListedFile>,
}

impl Listing {
    fn add(&mut self, folder: &Path, name: &str, depth: usize) -> Result<(), WebError> {
        let failed = |source| WebError::Folder { path: folder.to_owned(), source };
        for entry in fs::read_dir(folder).map_err(failed)? {
            self.add_entry(&entry.map_err(failed)?, name, depth)?;
        }
        Ok(())
    }

    fn add_entry(&mut self, entry: &DirEntry, folder_name: &str, depth: usize) -> Result<(), WebError> {
        let path = entry.path();
        let file_name = entry.file_name();
        // What has no name in UTF-8 has no address that a page would ask for.
        let Some(file_name) = file_name.to_str().filter(|name| !name.starts_with('.')) else { return Ok(()) };
        let name = if folder_name.is_empty() { file_name.to_owned() } else { format!("{folder_name}/{file_name}") };
        let unfit = |found| WebError::UnfitFolder { found, path: path.clone() };
        // A link that leads nowhere is as good as none.
        let Ok(real) = path.canonicalize() else { return Ok(()) };
        if !real.starts_with(&self.root) {
            return Err(unfit("a link to a place outside of the folder"));
        }
        let facts = fs::metadata(&real).map_err(|source| WebError::Folder { path: path.clone(), source })?;
        match () {
            () if facts.is_dir() && depth == 0 => Err(unfit("folders that are nested too deep")),
            () if facts.is_dir() => self.add(&real, &name, depth - 1),
            () if !facts.is_file() => Ok(()),
            () if self.files.len() == MOST_FILES => Err(unfit("more files than a model has")),
            () => {
                self.files.push(ListedFile { name, path: real, bytes: facts.len() });
                Ok(())
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        files_below(folder).unwrap().into_iter().map(|file| file.name).collect()
    }

    #[test]
    fn ordinary_files_are_listed_and_hidden_ones_are_not() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("onnx")).unwrap();
        fs::create_dir_all(place.path().join(".git")).unwrap();
        for name in ["config.json", "onnx/model.onnx", ".env", ".git/config"] {
            fs::write(place.path().join(name), name).unwrap();
        }
        symlink("config.json", place.path().join("same.json")).unwrap();
        symlink("nowhere", place.path().join("broken")).unwrap();
        assert_eq!(names(place.path()), ["config.json", "onnx/model.onnx", "same.json"]);
    }

    #[test]
    fn a_link_out_of_the_folder_is_refused_and_one_that_turns_in_a_circle_too() {
        let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("secret"), "secret").unwrap();
        for target in [elsewhere.path().join("secret"), elsewhere.path().to_owned(), "..".into(), ".".into()] {
            let link = place.path().join("link");
            symlink(&target, &link).unwrap();
            assert!(matches!(files_below(place.path()), Err(WebError::UnfitFolder { .. })), "{target:?}");
            fs::remove_file(link).unwrap();
        }
    }

    #[test]
    fn a_snapshot_in_the_cache_of_hugging_face_has_the_files_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let snapshot = place.path().join("models--a--b/snapshots/0123");
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir_all(place.path().join("models--a--b/blobs")).unwrap();
        fs::write(place.path().join("models--a--b/blobs/abc"), "{}").unwrap();
        symlink("../../blobs/abc", snapshot.join("config.json")).unwrap();
        assert_eq!(names(&snapshot), ["config.json"]);
    }
}
