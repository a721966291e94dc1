use std::path::Path;

use crate::StoreError;

/// Bytes that this user may still write to the file system that holds `dir`.
pub fn available_bytes(dir: &Path) -> Result<u64, StoreError> {
    let stat = rustix::fs::statvfs(dir)
        .map_err(|errno| StoreError::from_io("asking for free disk space", dir, errno.into()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Fails if the file system that holds `dir` has less room than this.
pub fn ensure_space(dir: &Path, needed_bytes: u64) -> Result<(), StoreError> {
    let available_bytes = available_bytes(dir)?;
    if available_bytes < needed_bytes {
        return Err(StoreError::NotEnoughSpace { available_bytes, needed_bytes, path: dir.to_path_buf() });
    }
    Ok(())
}
