//! What an earlier capture left under the name of a new one. It is put aside, and removed once the new one is finished:
//! until then nobody knows whether the disk has room for it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::checkpoint::remove_if_there;
use super::tokens_file::tokens_path;
use crate::{TensorFile, TensorsError};

/// What the names of files that were put aside end with.
const EARLIER_SUFFIX: &str = ".earlier";

/// Puts the files of an earlier capture aside, and says whether they were. Of two, the finished one is kept; of two finished
/// ones, the later.
pub(super) fn is_put_aside(stream: &Path, checkpoint: &Path) -> Result<bool, TensorsError> {
    let is_finished = TensorFile::open(stream).is_ok_and(|file| file.is_finished());
    if !is_finished && earlier_path(stream).exists() {
        return Ok(false);
    }
    files_of(stream, checkpoint).iter().try_for_each(|file| moved(file, &suffixed(file)))?;
    Ok(true)
}

/// Removes what was put aside.
pub(super) fn remove(stream: &Path, checkpoint: &Path) -> Result<(), TensorsError> {
    files_of(stream, checkpoint).iter().try_for_each(|file| remove_if_there(&suffixed(file)))
}

/// Gives what was put aside its names back, for a capture that came to nothing.
pub fn put_back_earlier(stream: &Path) -> Result<(), TensorsError> {
    put_back(stream, &super::checkpoint::default_path(stream))
}

/// Removes a stream that could not be begun, so that the next attempt finds none in its way, and puts back what it was to
/// replace.
pub(super) fn undo(stream: &Path, checkpoint: &Path) {
    // If it cannot be, the earlier one is still there under its other name.
    let _ = remove_if_there(&real_path(stream)).and_then(|()| put_back(stream, checkpoint));
}

fn put_back(stream: &Path, checkpoint: &Path) -> Result<(), TensorsError> {
    files_of(stream, checkpoint).iter().try_for_each(|file| moved(&suffixed(file), file))
}

/// Where an earlier stream of this name is while it is put aside.
pub fn earlier_path(stream: &Path) -> PathBuf {
    suffixed(&real_path(stream))
}

fn files_of(stream: &Path, checkpoint: &Path) -> [PathBuf; 3] {
    [real_path(stream), tokens_path(stream), checkpoint.to_path_buf()]
}

/// Behind a link, the file itself is what is put aside; the link stays.
fn real_path(stream: &Path) -> PathBuf {
    fs::canonicalize(stream).unwrap_or_else(|_| stream.to_path_buf())
}

fn suffixed(path: &Path) -> PathBuf {
    [path.as_os_str(), OsStr::new(EARLIER_SUFFIX)].into_iter().collect::<std::ffi::OsString>().into()
}

fn moved(from: &Path, to: &Path) -> Result<(), TensorsError> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(TensorsError::from_io("putting an earlier capture aside", from, error))
        }
        _ => Ok(()),
    }
}
