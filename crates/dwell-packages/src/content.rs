//! Whether a file of the cache is still what was put there. Its content is read only if it may have been touched.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use dwell_files::{read_own, write_json_atomically};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::download::hex;
use crate::{PackageError, PackagedFile};

/// Bytes that are hashed at a time.
const READ_BYTES: usize = 64 << 10;
const MARK_MAX_BYTES: u64 = 64 << 10;

/// When the content of a file was last changed, in nanoseconds since 1970.
pub(crate) fn modified_ns(facts: &Metadata) -> Option<u64> {
    let since = facts.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// SHA-256 of a file's content.
pub(crate) fn sha256_of(path: &Path) -> io::Result<String> {
    let (mut file, mut hasher) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// What a copy was when its content was last compared; lies beside it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    modified_ns: Option<u64>,
    sha256: String,
}

impl Mark {
    fn path(copy: &Path) -> PathBuf {
        let name = copy.file_name().unwrap_or_default().to_string_lossy();
        copy.with_file_name(format!(".{name}.checked.json"))
    }
}

impl PackagedFile<'_> {
    /// Refuses a copy that is not this file any more. One whose size and time of change are those of the last
    /// comparison is not read again.
    pub fn check_copy(&self, copy: &Path) -> Result<(), PackageError> {
        let failed = |error| PackageError::from_io("checking a file of the cache", copy, error);
        let damaged =
            |found| Err(PackageError::DamagedCopy { found, needed: self.sha256.to_owned(), path: copy.to_owned() });
        let facts = copy.metadata().map_err(failed)?;
        if facts.len() != self.size_bytes {
            return damaged(format!("{} bytes instead of {}", facts.len(), self.size_bytes));
        }
        let mark = Mark { modified_ns: modified_ns(&facts), sha256: self.sha256.to_owned() };
        let earlier = read_own(&Mark::path(copy), MARK_MAX_BYTES).ok();
        if earlier.and_then(|bytes| serde_json::from_slice::<Mark>(&bytes).ok()).is_some_and(|earlier| earlier == mark)
        {
            return Ok(());
        }
        let found = sha256_of(copy).map_err(failed)?;
        if found != self.sha256 {
            return damaged(format!("SHA-256 {found}"));
        }
        // In a cache that cannot be written, it is compared every time.
        let _ = write_json_atomically(&Mark::path(copy), &mark);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;

    const MODEL: &[u8] = b"the bytes of a model";

    fn set_modified(path: &Path, time: SystemTime) {
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn a_copy_is_read_again_only_if_it_may_have_been_touched() {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("m.gguf");
        fs::write(&copy, MODEL).unwrap();
        let sha256 = sha256_of(&copy).unwrap();
        let wanted = PackagedFile {
            package: "p",
            version: "1",
            file_name: "m.gguf",
            size_bytes: MODEL.len() as u64,
            sha256: &sha256,
        };
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        set_modified(&copy, written);
        wanted.check_copy(&copy).unwrap();
        fs::write(&copy, b"the bytes of a nodel").unwrap();
        let error = wanted.check_copy(&copy).unwrap_err().to_string();
        assert!(error.contains("found SHA-256") && error.contains(&sha256), "{error}");
        // The time of the comparison stands for the content.
        set_modified(&copy, written);
        wanted.check_copy(&copy).unwrap();
        fs::write(&copy, b"half").unwrap();
        let error = wanted.check_copy(&copy).unwrap_err().to_string();
        assert!(error.contains("found 4 bytes instead of 20"), "{error}");
    }
}
