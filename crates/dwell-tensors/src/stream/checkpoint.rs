//! What a stream can be gone on from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dwell_files::{read_text_at_most, write_json_atomically};
use serde::{Deserialize, Serialize};

use super::error::StreamError;
use crate::TensorsError;

/// Version of the file.
const CHECKPOINT_VERSION: u32 = 1;
/// A checkpoint is far smaller.
const MAX_BYTES: u64 = 1 << 20;

/// The state of a stream at one moment, durable in its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    version: u32,
    /// Name of the stream's file.
    pub(super) stream: String,
    /// Everything before this byte is durable.
    pub(super) stream_bytes: u64,
    /// The number that the next tensor gets.
    pub(super) packets: u64,
    pub(super) tokens: u64,
    pub(super) next_step: u64,
    /// The codec, as text.
    pub(super) codec: String,
    /// Checksum of the message that begins the stream; it holds the caller's metadata and when the stream was begun.
    pub(super) schema_crc32c: u32,
}

impl Checkpoint {
    pub(super) fn new(
        stream: &Path,
        stream_bytes: u64,
        (packets, tokens, next_step): (u64, u64, u64),
        codec: String,
        schema_crc32c: u32,
    ) -> Self {
        let stream = file_name(stream);
        Self { version: CHECKPOINT_VERSION, stream, stream_bytes, packets, tokens, next_step, codec, schema_crc32c }
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), TensorsError> {
        Ok(write_json_atomically(path, self)?)
    }

    /// `None` if there is none.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, TensorsError> {
        let unfit = |reason: String| StreamError::UnfitCheckpoint { reason, checkpoint: path.to_path_buf() };
        let text = match read_text_at_most(path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(TensorsError::from_io("reading a checkpoint", path, error)),
        };
        let checkpoint: Self = serde_json::from_str(&text).map_err(|error| unfit(error.to_string()))?;
        if checkpoint.version != CHECKPOINT_VERSION {
            let found = checkpoint.version;
            return Err(unfit(format!("version {found}, and {CHECKPOINT_VERSION} is needed")).into());
        }
        Ok(Some(checkpoint))
    }
}

/// Where the checkpoint of a stream is by default.
pub(crate) fn default_path(stream: &Path) -> PathBuf {
    let mut name = stream.as_os_str().to_owned();
    name.push(".ckpt.json");
    PathBuf::from(name)
}

/// Removes the checkpoint of a stream that has its end, if it is where it is by default.
pub(crate) fn remove_default(stream: &Path) -> Result<(), TensorsError> {
    remove_if_there(&default_path(stream))
}

/// Removes a file that may be there.
pub(super) fn remove_if_there(path: &Path) -> Result<(), TensorsError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(TensorsError::from_io("removing a file of an earlier capture", path, error))
        }
        _ => Ok(()),
    }
}

/// What tells one stream from another: a checksum of the message that begins it, without the checksum at its end, with
/// which all would come to the same.
pub(super) fn identity(schema: &[u8]) -> u32 {
    crc32c::crc32c(&schema[..schema.len().saturating_sub(size_of::<u32>())])
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
