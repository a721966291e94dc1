//! Files that appear whole or not at all.
//!
//! The content goes to a new file, is synced, and takes the target's name. A reader sees the
//! old file or the new one. Where a [staged file](StagedFile) has no name, a crash leaves nothing else; elsewhere, a
//! `.partial` file that nobody reads.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{FileError, StagedFile};

/// What the names of unfinished files end with.
pub const PARTIAL_SUFFIX: &str = ".partial";

/// Bytes that a staging name takes over from the target's name, so that it fits where the target's fits.
const STAGED_NAME_BYTES: usize = 200;

const CREATING: &str = "creating a file";
const WRITING: &str = "writing a file";
const NAMING: &str = "giving a finished file its name";

/// A file being written. Dropped without [`AtomicFile::commit`], it leaves no trace.
pub struct AtomicFile {
    target: PathBuf,
    staged: StagedFile,
    writer: BufWriter<File>,
}

impl AtomicFile {
    /// Begins a file that will replace the file of this name.
    pub fn create(target: &Path) -> Result<Self, FileError> {
        Self::begin(target, || StagedFile::create(target))
    }

    /// The same with its content in a file of a [known name](staging_path), for a caller that removes it after a signal.
    pub fn create_staged(target: &Path, staging: PathBuf) -> Result<Self, FileError> {
        Self::begin(target, || StagedFile::create_named(target, staging))
    }

    fn begin(target: &Path, create: impl FnOnce() -> io::Result<StagedFile>) -> Result<Self, FileError> {
        check_replaceable(CREATING, target)?;
        let begun = create().and_then(|staged| Ok((BufWriter::new(staged.file().try_clone()?), staged)));
        let (writer, staged) = begun.map_err(|error| FileError::from_io(CREATING, target, error))?;
        Ok(Self { target: target.to_path_buf(), staged, writer })
    }

    /// Makes the content durable without its name: what can fail for lack of space has then succeeded.
    pub fn sync(&mut self) -> Result<(), FileError> {
        let synced = self.writer.flush().and_then(|()| self.writer.get_ref().sync_all());
        synced.map_err(|error| FileError::from_io(WRITING, &self.target, error))
    }

    /// Makes the content durable and gives it its name.
    pub fn commit(mut self) -> Result<(), FileError> {
        self.sync()?;
        let Self { target, staged, writer } = self;
        drop(writer.into_parts());
        publish_durably(staged, &target)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Gives a whole file its name, and makes that survive a power failure too.
pub fn publish_durably(staged: StagedFile, target: &Path) -> Result<(), FileError> {
    staged.publish().map_err(|error| FileError::from_io(NAMING, target, error))?;
    sync_directory_of(target)
}

/// A new name beside `target`, under which its content is gathered: `report.html.4f1d….partial`. A file that the user
/// called `report.html.partial` is not in the way.
pub fn staging_path(target: &Path) -> PathBuf {
    sibling(target, PARTIAL_SUFFIX)
}

/// A new name beside `path` that ends like this.
pub fn sibling(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let mut name = OsString::from_vec(name[..name.len().min(STAGED_NAME_BYTES)].to_vec());
    // Every `RandomState` has other keys.
    name.push(format!(".{:016x}{ending}", RandomState::new().build_hasher().finish()));
    path.with_file_name(name)
}

/// Creates a file that is not there yet. A link of this name is not followed.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Writes a whole file.
pub fn write_bytes_atomically(target: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut file = AtomicFile::create(target)?;
    file.write_all(bytes).map_err(|error| FileError::from_io(WRITING, target, error))?;
    file.commit()
}

/// Writes a value as indented JSON with a final newline.
pub fn write_json_atomically<T: Serialize>(target: &Path, value: &T) -> Result<(), FileError> {
    write_json_text(target, serde_json::to_vec_pretty(value))
}

/// Writes a value as JSON on one line: for programs, where indenting long lists would multiply the size.
pub fn write_json_line_atomically<T: Serialize>(target: &Path, value: &T) -> Result<(), FileError> {
    write_json_text(target, serde_json::to_vec(value))
}

fn write_json_text(target: &Path, text: serde_json::Result<Vec<u8>>) -> Result<(), FileError> {
    let mut text = text.map_err(|error| FileError::UnfitJson {
        action: "writing a JSON file",
        reason: error.to_string(),
        path: target.to_path_buf(),
    })?;
    text.push(b'\n');
    write_bytes_atomically(target, &text)
}

/// Refuses a name that a device, a pipe or a directory has.
///
/// Renaming would take the place of a device for everyone, and opening a pipe may wait forever.
pub fn check_replaceable(action: &'static str, target: &Path) -> Result<(), FileError> {
    match fs::metadata(target) {
        Ok(found) if !found.is_file() => Err(FileError::NotAFile { action, path: target.to_path_buf() }),
        _ => Ok(()),
    }
}

/// Where the content of `target` is gathered if the folder is dwell's own, such as that of a run: after a kill, the next
/// attempt finds what is left and takes its place.
pub fn partial_path(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(PARTIAL_SUFFIX);
    PathBuf::from(name)
}

/// Renames, and makes the new name survive a power failure too.
pub fn rename_durably(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).map_err(|error| FileError::from_io(NAMING, to, error))?;
    sync_directory_of(to)
}

/// A name is durable only once its directory is synced.
pub fn sync_directory_of(path: &Path) -> Result<(), FileError> {
    let directory = folder_of(path);
    File::open(directory)
        .and_then(|handle| handle.sync_all())
        .map_err(|error| FileError::from_io("syncing a directory", directory, error))
}

/// Makes everything durable that was written to the file system of a folder: with many files, far less waiting than for
/// each.
pub fn sync_file_system(folder: &Path) -> Result<(), FileError> {
    File::open(folder)
        .and_then(|handle| Ok(rustix::fs::syncfs(handle)?))
        .map_err(|error| FileError::from_io("syncing a file system", folder, error))
}

/// The folder that a file lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_given_up_leaves_the_old_content_and_no_partial_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metadata.json");
        write_bytes_atomically(&path, b"old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_only_looks_like_an_unfinished_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (path, own) = (dir.path().join("report.html"), dir.path().join("report.html.partial"));
        fs::write(&own, "mine").unwrap();
        write_bytes_atomically(&path, b"new").unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&own).unwrap()), (b"new".to_vec(), b"mine".to_vec()));
        let staging = staging_path(&path);
        std::os::unix::fs::symlink(&own, &staging).unwrap();
        assert!(matches!(AtomicFile::create_staged(&path, staging), Err(FileError::Exists { .. })));
        assert_eq!(fs::read(&own).unwrap(), b"mine", "the link was not followed");
    }

    #[test]
    fn a_name_of_the_greatest_length_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n".repeat(255));
        write_bytes_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn only_files_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [dir.path(), &socket] {
            let error = write_bytes_atomically(path, b"new").unwrap_err();
            assert!(matches!(error, FileError::NotAFile { .. }), "{error}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn json_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write_json_atomically(&path, &[1, 2]).unwrap();
        write_json_atomically(&path, &[3]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[\n  3\n]\n");
    }
}
