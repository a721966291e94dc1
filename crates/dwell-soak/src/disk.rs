//! A disk of a chosen size.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system in memory; unmounted when dropped.
pub(crate) struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts one on an empty folder. `None` where mounting is not permitted.
    pub(crate) fn mount(path: &Path, bytes: u64) -> Option<Self> {
        let size = format!("size={bytes}");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success()).then(|| Self { path: path.to_owned() })
    }

    /// Gives it another size.
    pub(crate) fn resize(&self, bytes: u64) {
        let _ = Command::new("mount").args(["-o", &format!("remount,size={bytes}")]).arg(&self.path).status();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).stderr(Stdio::null()).status();
    }
}
