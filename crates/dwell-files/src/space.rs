use std::path::Path;

use crate::FileError;

/// Bytes that this user may still write to the file system that holds `dir`.
pub fn available_bytes(dir: &Path) -> Result<u64, FileError> {
    let stat = rustix::fs::statvfs(dir)
        .map_err(|errno| FileError::from_io("asking for free disk space", dir, errno.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Fails if the file system that holds `dir` has less room than this.
pub fn ensure_space(dir: &Path, needed_bytes: u64) -> Result<(), FileError> {
    let available_bytes = available_bytes(dir)?;
    if available_bytes < needed_bytes {
        return Err(FileError::NotEnoughSpace { available_bytes, needed_bytes, path: dir.to_path_buf() });
    }
    Ok(())
}
