//! Reading a whole file that may come from anywhere: one without end, or of many gigabytes, must not fill the memory.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use serde::de::DeserializeOwned;

use crate::FileError;

/// Longest file that people write: experiments, prompts, rules.
pub const WRITTEN_BY_HAND_MAX_BYTES: u64 = 64 << 20;

/// Longest text that is read as a whole: metadata, figures, lists of runs.
pub const TEXT_MAX_BYTES: u64 = 1 << 30;

/// Longest text of dwell's own that grows with what the user gave: prompts, plans, lists of runs. Files that are small by
/// design have a smaller limit of their own, because JSON and CSV take many times their size in memory.
pub const OWN_TEXT_MAX_BYTES: u64 = 64 << 20;

/// The largest file that is read for its symbols. The largest libraries of GPU runtimes have about 2 GiB, nearly all of
/// it code of GPUs; functions of larger ones are not named.
const MAX_OBJECT_BYTES: u64 = 2 << 30;

/// The bytes of a program or library, if it is here and can be read.
pub fn object_bytes(path: &str) -> Option<Vec<u8>> {
    let path = Path::new(path);
    let is_readable = path.metadata().is_ok_and(|file| file.is_file() && file.len() <= MAX_OBJECT_BYTES);
    is_readable.then(|| std::fs::read(path).ok()).flatten()
}

/// The content of a file of at most so many bytes.
pub fn read_at_most(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    read_from(open_with_end(path)?, limit_bytes)
}

fn read_from(file: File, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let read_bytes = file.take(limit_bytes.saturating_add(1)).read_to_end(&mut content)?;
    if read_bytes as u64 > limit_bytes {
        let message = format!("it is longer than {limit_bytes} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}

/// Opens a file that a user named: an ordinary one, or a pipe, as a shell makes of `<(command)`. A device is refused, because it
/// may have no end. A pipe is not waited for: nobody may ever write to it, and it is then empty.
pub fn open_with_end(path: &Path) -> io::Result<File> {
    let file = open_without_waiting(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() {
        // From here on a read waits for what somebody who is there writes.
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    } else if !kind.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "this is no ordinary file"));
    }
    Ok(file)
}

fn open_without_waiting(path: &Path) -> io::Result<File> {
    // Without this flag, opening a pipe waits.
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// Opens a file that belongs to a run. Only an ordinary file is opened: a pipe would wait for somebody who writes, and a
/// device has no end.
pub fn open_ordinary(path: &Path) -> io::Result<File> {
    let file = open_without_waiting(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "this is no ordinary file")),
    }
}

/// The content of an ordinary file that dwell wrote and that is at most so long.
pub fn read_own(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    read_from(open_ordinary(path)?, limit_bytes)
}

/// The same of UTF-8 text.
pub fn read_own_text(path: &Path, limit_bytes: u64) -> io::Result<String> {
    as_text(read_own(path, limit_bytes)?)
}

/// The content of a file of UTF-8 text of at most so many bytes.
pub fn read_text_at_most(path: &Path, limit_bytes: u64) -> io::Result<String> {
    as_text(read_at_most(path, limit_bytes)?)
}

fn as_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// The value that a JSON file of ours holds, which is at most so long. `action` begins the message of an error.
pub fn read_json<T: DeserializeOwned>(action: &'static str, path: &Path, limit_bytes: u64) -> Result<T, FileError> {
    let bytes = read_own(path, limit_bytes).map_err(|error| FileError::from_io(action, path, error))?;
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
        assert_eq!(read_at_most(Path::new("/dev/zero"), 1000).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_pipe_is_read_while_somebody_writes_and_is_empty_if_nobody_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = made_pipe(dir.path());
        assert_eq!(read_at_most(&path, 9).unwrap(), b"");
        // Both ends at once, as a shell has them for `<(command)`.
        let mut writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        std::io::Write::write_all(&mut writer, b"text").unwrap();
        let reader = open_with_end(&path).unwrap();
        drop(writer);
        assert_eq!(read_from(reader, 9).unwrap(), b"text");
    }

    fn made_pipe(dir: &Path) -> std::path::PathBuf {
        let path = dir.join("metadata.json");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        path
    }

    #[test]
    fn a_pipe_in_place_of_a_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = made_pipe(dir.path());
        assert_eq!(read_own(&path, 9).unwrap_err().kind(), ErrorKind::InvalidInput);
        let refused = read_json::<u32>("reading", &path, 9).unwrap_err().to_string();
        assert!(refused.contains("no ordinary file"), "{refused}");
        assert_eq!(open_ordinary(dir.path()).unwrap_err().kind(), ErrorKind::InvalidInput, "a folder is none either");
    }

    #[test]
    fn a_json_file_that_does_not_fit_is_told_from_one_that_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        assert!(matches!(read_json::<Vec<u8>>("reading", &path, 9), Err(FileError::NotFound { .. })));
        std::fs::write(&path, "[1, 2]").unwrap();
        assert_eq!(read_json::<Vec<u8>>("reading", &path, 9).unwrap(), [1, 2]);
        assert!(matches!(read_json::<String>("reading", &path, 9), Err(FileError::UnfitJson { .. })));
        let refused = read_json::<Vec<u8>>("reading", &path, 5).unwrap_err().to_string();
        assert!(refused.contains("longer than 5 bytes"), "{refused}");
    }
}
