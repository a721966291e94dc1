use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::root::unreadable;

/// A file of the kernel kept open: reading it again costs a fifth of opening it.
pub struct KeptFile {
    file: File,
    path: PathBuf,
}

impl KeptFile {
    /// Opens a file; why it cannot be is a sentence with its path.
    pub fn open(path: PathBuf) -> Result<Self, String> {
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The content now.
    pub fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> Result<&'a str, String> {
        let text = self.read_bytes(buffer).map_err(|error| unreadable(&self.path, &error))?;
        std::str::from_utf8(text).map_err(|error| format!("{} is no text: {error}", self.path.display()))
    }

    /// The number that the file holds now.
    pub(crate) fn number(&self) -> Result<i64, String> {
        // Room for any number; a file that holds one gives it in one piece.
        let mut bytes = [0; 32];
        let count = self.file.read_at(&mut bytes, 0).map_err(|error| unreadable(&self.path, &error))?;
        let text = String::from_utf8_lossy(&bytes[..count]);
        text.trim().parse().map_err(|_| format!("{} holds no number: {:?}", self.path.display(), text.trim()))
    }

    fn read_bytes<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        let mut filled = 0;
        loop {
            if filled == buffer.len() {
                buffer.resize((buffer.len() * 2).max(4096), 0);
            }
            // A file of /proc may hand out less than it has, so only nothing is the end.
            match self.file.read_at(&mut buffer[filled..], filled as u64)? {
                0 => return Ok(&buffer[..filled]),
                count => filled += count,
            }
        }
    }
}
