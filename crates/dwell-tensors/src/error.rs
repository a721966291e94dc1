use std::io;
use std::path::{Path, PathBuf};

use dwell_events::Hint;
use dwell_files::FileError;

use crate::StreamError;

/// Why a tensor could not be stored or read back.
///
/// `action` is what was being done, in words that begin the message: "writing a batch".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorsError {
    /// The operating system refused.
    #[error(transparent)]
    File(#[from] FileError),

    /// The stream cannot be written or gone on with.
    #[error(transparent)]
    Stream(#[from] StreamError),

    /// The file is something else, or its first message cannot be read.
    #[error("opening a tensor stream found {reason}: {path:?}")]
    NotAStream {
        /// What was found instead of a schema.
        reason: String,
        /// The file.
        path: PathBuf,
    },

    /// The file was written by another generation of dwell.
    #[error("opening a tensor stream found container version {found}, and {supported} is needed: {path:?}")]
    OtherVersion {
        /// Version in the file.
        found: String,
        /// Version that is read here.
        supported: &'static str,
        /// The file.
        path: PathBuf,
    },

    /// The elements of one packet are not what was written.
    #[error("reading packet {packet} ({name:?}) of a tensor stream found damage ({reason}): {path:?}")]
    DamagedPacket {
        /// Number of the packet.
        packet: u64,
        /// Name of its tensor.
        name: String,
        /// What is wrong with it.
        reason: String,
        /// The file.
        path: PathBuf,
    },

    /// The stream ends before this packet.
    #[error("reading a tensor stream found {entries} tensors, and number {index} was asked for: {path:?}")]
    NoSuchEntry {
        /// Place that was asked for, from 0.
        index: usize,
        /// Tensors in the file.
        entries: usize,
        /// The file.
        path: PathBuf,
    },

    /// A tensor cannot be what its description says.
    #[error("handing over tensor {name:?} found {reason}")]
    UnfitTensor {
        /// Name of the tensor.
        name: String,
        /// What was found, and what was needed.
        reason: String,
    },

    /// A packet file (`!HI`, name, data) cannot be read.
    #[error("reading packet {packet} at byte {offset_bytes} of a packet file found {reason}: {path:?}")]
    UnfitPacketFile {
        /// Number of the packet, from 0.
        packet: u64,
        /// Where it begins.
        offset_bytes: u64,
        /// What was found.
        reason: String,
        /// The file.
        path: PathBuf,
    },

    /// The file with the shapes of a packet file cannot be read.
    #[error("reading the shapes of a packet file found {reason}: {path:?}")]
    UnfitSidecar {
        /// What was found.
        reason: String,
        /// The file.
        path: PathBuf,
    },

    /// A tensor does not fit into the format that it was to be converted to.
    #[error("converting tensor {name:?} of packet {packet} found {reason}")]
    Unconvertible {
        /// Name of the tensor.
        name: String,
        /// Number of the packet.
        packet: u64,
        /// What does not fit.
        reason: String,
    },
}

impl TensorsError {
    /// The variant that fits what the operating system said.
    pub fn from_io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File(FileError::from_io(action, path, source))
    }
}

impl Hint for TensorsError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::File(FileError::NoSpace { path, action }) => {
                let see = format!("free space: df -h '{}'", folder_of(path).display());
                // A conversion deletes what it could not finish, and a file of its name is the one before it; a capture leaves it.
                let is_left = *action == STREAM_WRITING && path.is_file();
                let end = format!(
                    "what was flushed is whole: end the stream with `dwell tensors recover '{}'`",
                    path.display()
                );
                [see].into_iter().chain(is_left.then_some(end)).collect()
            }
            Self::File(FileError::NotFound { path, .. }) if path.starts_with("~") => {
                vec!["only a shell expands ~; write the full path".to_owned()]
            }
            Self::File(FileError::NotFound { action, path }) if is_writing(action) && !folder_of(path).exists() => {
                vec![format!("create the folder: mkdir -p '{}'", folder_of(path).display())]
            }
            Self::File(error) => error.hints(),
            Self::Stream(error) => error.hints(),
            Self::OtherVersion { found, .. } => {
                vec![format!("use a version of dwell that reads container version {found}")]
            }
            Self::DamagedPacket { path, .. } => {
                vec![format!("list everything that is damaged with `dwell tensors verify '{}'`", path.display())]
            }
            Self::UnfitPacketFile { .. } => vec![
                "packet files do not say how they are compressed: try `--packet-codec none`, `lz4` or `zstd`"
                    .to_owned(),
            ],
            _ => Vec::new(),
        }
    }
}

/// Whether an action makes the file that it names, so that a missing folder is all it lacks.
/// What a failed write of a stream that grows under its own name is called in messages.
pub(crate) const STREAM_WRITING: &str = "writing a tensor stream";

fn is_writing(action: &str) -> bool {
    action.starts_with("creating") || action.contains("writing")
}

/// The folder that a file lies in; a folder itself, which is where a spill file without a name lies.
fn folder_of(path: &Path) -> &Path {
    if path.is_dir() {
        return path;
    }
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stream_that_was_cut_off_is_ended_by_recovery() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let hints = |action| TensorsError::from_io(action, file.path(), full()).hints().join(" ");
        assert!(hints(STREAM_WRITING).contains("dwell tensors recover"));
        assert!(!hints("writing a safetensors file").contains("recover"), "it is the one before");
    }
}
