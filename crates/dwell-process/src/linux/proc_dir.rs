use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, Mode, OFlags, open, openat};

use super::proc_file::ProcFile;

/// The directory of one process in procfs, kept open. Whatever is opened through it belongs to that process: after its
/// end there is nothing to be found, even if another process was given the same id.
pub(crate) struct ProcDir {
    dir: OwnedFd,
}

impl ProcDir {
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { dir: open(format!("/proc/{pid}"), flags, Mode::empty())? })
    }

    pub(crate) fn file(&self, name: &str) -> io::Result<ProcFile> {
        let file = openat(&self.dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(ProcFile::from(file))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        openat(&self.dir, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).is_ok()
    }

    /// Ids of the threads that there are now.
    pub(crate) fn threads(&self) -> io::Result<Vec<u32>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let tasks = openat(&self.dir, "task", flags, Mode::empty())?;
        let mut tids = Vec::new();
        for entry in Dir::new(tasks)? {
            tids.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
        }
        Ok(tids)
    }
}
