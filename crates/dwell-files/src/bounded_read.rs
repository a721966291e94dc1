//! Reading a whole file that may come from anywhere: one without end, or of many gigabytes, must not fill the memory.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::FileError;

/// Longest file that people write: experiments, prompts, rules.
pub const WRITTEN_BY_HAND_MAX_BYTES: u64 = 64 << 20;

/// Longest text that is read as a whole: metadata, figures, lists of runs.
pub const TEXT_MAX_BYTES: u64 = 1 << 30;

/// The content of a file of at most so many bytes.
pub fn read_at_most(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let read_bytes = File::open(path)?.take(limit_bytes.saturating_add(1)).read_to_end(&mut content)?;
    if read_bytes as u64 > limit_bytes {
        let message = format!("it is longer than {limit_bytes} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}

/// The same of a file of UTF-8 text.
pub fn read_text_at_most(path: &Path, limit_bytes: u64) -> io::Result<String> {
    String::from_utf8(read_at_most(path, limit_bytes)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// The value that a JSON file of at most [`TEXT_MAX_BYTES`] holds. `action` begins the message of an error.
pub fn read_json<T: DeserializeOwned>(action: &'static str, path: &Path) -> Result<T, FileError> {
    let bytes = read_at_most(path, TEXT_MAX_BYTES).map_err(|error| FileError::from_io(action, path, error))?;
    serde_json::from_slice(&bytes).map_err(|error| FileError::UnfitJson {
        action,
        reason: error.to_string(),
        path: path.to_path_buf(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_the_limit_and_one_without_end_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_text_at_most(&path, 4).unwrap(), "four");
        assert_eq!(read_at_most(&path, 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_at_most(Path::new("/dev/zero"), 1000).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_json_file_that_does_not_fit_is_told_from_one_that_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        assert!(matches!(read_json::<Vec<u8>>("reading", &path), Err(FileError::NotFound { .. })));
        std::fs::write(&path, "[1, 2]").unwrap();
        assert_eq!(read_json::<Vec<u8>>("reading", &path).unwrap(), [1, 2]);
        assert!(matches!(read_json::<String>("reading", &path), Err(FileError::UnfitJson { .. })));
    }
}
