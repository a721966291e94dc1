use std::io;
use std::path::{Path, PathBuf};

use dwell_events::Hint;

/// Why a file could not be written or read.
///
/// `action` is what was being done, in words that begin the message: "writing a raw batch".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The disk or the quota is full. What was written before is still whole.
    #[error("{action} found no space left on the device: {path:?}")]
    NoSpace {
        /// What was being done.
        action: &'static str,
        /// File that could not grow.
        path: PathBuf,
    },

    /// The disk has less room than the run is expected to need.
    #[error("the disk has {available_bytes} bytes free, and the run needs {needed_bytes}: {path:?}")]
    NotEnoughSpace {
        /// Bytes that the user may still write.
        available_bytes: u64,
        /// Bytes asked for.
        needed_bytes: u64,
        /// Directory that was to be written to.
        path: PathBuf,
    },

    /// The file system refused access.
    #[error("{action} was not permitted: {path:?}")]
    PermissionDenied {
        /// What was being done.
        action: &'static str,
        /// File or directory.
        path: PathBuf,
    },

    /// Something is there already and is not overwritten.
    #[error("{action} found that it exists already: {path:?}")]
    Exists {
        /// What was being done.
        action: &'static str,
        /// File or directory.
        path: PathBuf,
    },

    /// The file or directory is not there.
    #[error("{action} found no such file or directory: {path:?}")]
    NotFound {
        /// What was being done.
        action: &'static str,
        /// File or directory.
        path: PathBuf,
    },

    /// A device, a pipe or a directory has the name; it is neither written nor replaced.
    #[error("{action} found no regular file, and one is needed: {path:?}")]
    NotAFile {
        /// What was being done.
        action: &'static str,
        /// What has the name.
        path: PathBuf,
    },

    /// Any other failure of the operating system.
    #[error("{action} failed with {source}: {path:?}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: io::Error,
        /// File or directory.
        path: PathBuf,
    },

    /// A JSON file does not hold what it should.
    #[error("{action} found JSON that does not fit ({reason}): {path:?}")]
    UnfitJson {
        /// What was being done.
        action: &'static str,
        /// What is wrong with it.
        reason: String,
        /// The file.
        path: PathBuf,
    },
}

impl FileError {
    /// The variant that fits what the operating system said.
    pub fn from_io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { action, path },
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { action, path },
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => Self::Exists { action, path },
            io::ErrorKind::NotFound => Self::NotFound { action, path },
            _ => Self::Io { action, source, path },
        }
    }

    /// Whether a full disk is the cause: nothing else can be written there until there is room.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::NoSpace { .. } | Self::NotEnoughSpace { .. })
    }

    /// Whether the same may succeed later: not damage, but something that the machine lacked.
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::Exists { .. } | Self::NotAFile { .. } | Self::UnfitJson { .. })
    }
}

impl Hint for FileError {
    fn hints(&self) -> Vec<String> {
        match self {
            // What can be done with a half-written file is for its owner to say: many are deleted.
            Self::NoSpace { path, .. } | Self::NotEnoughSpace { path, .. } => {
                vec![format!("free space: df -h '{}'", parent(path).display())]
            }
            Self::PermissionDenied { path, .. } => {
                vec![format!("check the permissions: ls -ld '{}'", parent(path).display())]
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
                vec![
                    "see how large a file may be with `ulimit -f`, and allow more with `ulimit -f unlimited`"
                        .to_owned(),
                ]
            }
            Self::Exists { path, .. } => vec![format!("it exists: ls -ld '{}'", path.display())],
            Self::NotFound { path, .. } => vec![format!("check the path: ls -l '{}'", parent(path).display())],
            _ => Vec::new(),
        }
    }
}

/// The folder that a file lies in, by a name that a shell takes: a plain file name lies in `.`.
fn parent(path: &Path) -> &Path {
    let folder = path.parent().unwrap_or(path);
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_with_the_quoted_path() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = FileError::from_io("writing a raw batch", Path::new("/r/raw/records.arrows"), full);
        assert_eq!(
            error.to_string(),
            r#"writing a raw batch found no space left on the device: "/r/raw/records.arrows""#
        );
        assert!(error.hints()[0].contains("df -h '/r/raw'"));
    }

    #[test]
    fn the_folder_of_a_plain_file_name_is_the_present_one() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = FileError::from_io("creating a file", Path::new("samples.csv"), denied);
        assert_eq!(error.hints(), ["check the permissions: ls -ld '.'"]);
    }

    #[test]
    fn a_full_disk_promises_no_file_that_may_be_deleted() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let hints = FileError::from_io("writing a file", Path::new("out.safetensors"), full).hints();
        assert_eq!(hints, ["free space: df -h '.'"]);
    }

    #[test]
    fn a_missing_file_is_answered_with_the_listing_of_its_folder() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let hints = FileError::from_io("opening a run", Path::new("/nope/run"), missing).hints();
        assert_eq!(hints, ["check the path: ls -l '/nope'"]);
    }
}
