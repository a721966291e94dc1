//! Reading a whole file that may come from anywhere: one without end, or of many gigabytes, must not fill the memory.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

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
}
