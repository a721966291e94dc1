//! Content that is gathered without a name, or under one that nobody can foresee, until it is whole.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};

use crate::atomic_file::{create_new, folder_of, staging_path};

/// Where the kernel shows the files that a process has open.
const OPEN_FILES: &str = "/proc/self/fd";
/// As `open` creates files: the umask decides.
const MODE: Mode = Mode::from_raw_mode(0o666);

/// A file that will replace the one of its target's name, or take that name.
///
/// Where the file system can, it has no name until then, so that a kill at any moment leaves nothing behind. Elsewhere it lies
/// beside the target under a new name. No link is followed in either case. Dropped, it is gone.
pub struct StagedFile {
    file: File,
    target: PathBuf,
    /// Its own name, if it has one.
    name: Option<PathBuf>,
}

impl StagedFile {
    /// Begins a file.
    pub fn create(target: &Path) -> io::Result<Self> {
        if let Some(file) = nameless(folder_of(target)) {
            return Ok(Self { file, target: target.to_owned(), name: None });
        }
        Self::create_named(target, staging_path(target))
    }

    /// Begins a file under a name of the caller's choice, which is not taken.
    pub fn create_named(target: &Path, name: PathBuf) -> io::Result<Self> {
        Ok(Self { file: create_new(&name)?, target: target.to_owned(), name: Some(name) })
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it the name of its target. Whether it is durable is the caller's business.
    pub fn publish(mut self) -> io::Result<()> {
        if self.name.is_none() {
            match self.link_to(&self.target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => return linked,
            }
            // What is replaced is replaced by renaming, which takes a name.
            let name = staging_path(&self.target);
            self.link_to(&name)?;
            self.name = Some(name);
        }
        if let Some(name) = &self.name {
            fs::rename(name, &self.target)?;
        }
        self.name = None;
        Ok(())
    }

    fn link_to(&self, name: &Path) -> io::Result<()> {
        let open = format!("{OPEN_FILES}/{}", self.file.as_raw_fd());
        Ok(linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::remove_file(name);
        }
    }
}

/// A file without a name in this folder. `None` if it cannot be had, or could not be given a name later.
fn nameless(folder: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(CWD, folder, flags, MODE).ok()?;
    Path::new(OPEN_FILES).is_dir().then(|| file.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_is_seen_of_a_file_until_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for text in ["first", "second"] {
            let before = names(dir.path());
            let staged = StagedFile::create(&path).unwrap();
            staged.file().write_all(text.as_bytes()).unwrap();
            assert_eq!(names(dir.path()), before, "a kill here leaves nothing");
            staged.publish().unwrap();
            assert_eq!(
                (names(dir.path()), fs::read_to_string(&path).unwrap()),
                (vec!["a".to_owned()], text.to_owned())
            );
        }
    }

    #[test]
    fn a_named_one_is_removed_if_it_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("a.partial");
        drop(StagedFile::create_named(&dir.path().join("a"), name.clone()).unwrap());
        assert_eq!(names(dir.path()), [""; 0]);
        StagedFile::create_named(&dir.path().join("a"), name).unwrap().publish().unwrap();
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, link) = (dir.path().join("victim"), dir.path().join("link"));
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, &link).unwrap();
        StagedFile::create(&link).unwrap().publish().unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }
}
