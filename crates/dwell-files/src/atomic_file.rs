//! Files that appear whole or not at all.
//!
//! The content goes to `<name>.partial` beside the target, is synced, and takes the target's name by rename. A
//! reader sees the old file or the new one; a crash leaves a `.partial` file that nobody reads.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::FileError;

/// What the names of unfinished files end with.
pub const PARTIAL_SUFFIX: &str = ".partial";

/// A file being written. Dropped without [`AtomicFile::commit`], it leaves no trace.
pub struct AtomicFile {
    target: PathBuf,
    partial: PathBuf,
    /// `None` once committed.
    writer: Option<BufWriter<File>>,
}

impl AtomicFile {
    /// Begins a file that will replace the file of this name.
    pub fn create(target: &Path) -> Result<Self, FileError> {
        check_replaceable("creating a file", target)?;
        let partial = partial_path(target);
        let file = File::create(&partial).map_err(|error| FileError::from_io("creating a file", &partial, error))?;
        Ok(Self { target: target.to_path_buf(), partial, writer: Some(BufWriter::new(file)) })
    }

    /// Makes the content durable and gives it its name.
    pub fn commit(mut self) -> Result<(), FileError> {
        if let Some(writer) = self.writer.take() {
            let synced = writer.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
            if let Err(error) = synced {
                // The name is not taken; the leftovers are of no use to anyone.
                let _ = fs::remove_file(&self.partial);
                return Err(FileError::from_io("writing a file", &self.target, error));
            }
            rename_durably(&self.partial, &self.target)?;
        }
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().map_or(Ok(0), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Writes a whole file.
pub fn write_bytes_atomically(target: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut file = AtomicFile::create(target)?;
    file.write_all(bytes).map_err(|error| FileError::from_io("writing a file", target, error))?;
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

/// Where the content of `target` is gathered.
pub fn partial_path(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(PARTIAL_SUFFIX);
    PathBuf::from(name)
}

/// Renames, and makes the new name survive a power failure too.
pub fn rename_durably(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).map_err(|error| FileError::from_io("giving a finished file its name", to, error))?;
    sync_directory_of(to)
}

/// A name is durable only once its directory is synced.
pub fn sync_directory_of(path: &Path) -> Result<(), FileError> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)
        .and_then(|handle| handle.sync_all())
        .map_err(|error| FileError::from_io("syncing a directory", directory, error))
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
