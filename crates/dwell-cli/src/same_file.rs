//! Two names of one file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether both names lead to the same file, over links too. A file that is not there is no other.
pub(crate) fn is_same_file(first: &Path, second: &Path) -> bool {
    let identity = |path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    identity(first).is_some_and(|first| identity(second) == Some(first))
}
