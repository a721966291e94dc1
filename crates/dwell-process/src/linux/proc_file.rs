use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file of procfs or of a control group, kept open. Reading it again from its start gives the present state, for a
/// fifth of the cost of opening it; and it never speaks of another process that was given the same id.
pub(crate) struct ProcFile {
    file: File,
}

impl From<OwnedFd> for ProcFile {
    fn from(file: OwnedFd) -> Self {
        Self { file: File::from(file) }
    }
}

impl ProcFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)? })
    }

    /// The content now, in a buffer that grows as needed.
    pub(crate) fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        loop {
            let count = self.file.read_at(buffer, 0)?;
            if count < buffer.len() {
                return Ok(&buffer[..count]);
            }
            // The group list of `status` alone can be longer than a page.
            buffer.resize((buffer.len() * 2).max(4096), 0);
        }
    }
}
