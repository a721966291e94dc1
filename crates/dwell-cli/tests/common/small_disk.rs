//! A disk that is soon full.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of a chosen size; unmounted when dropped.
pub struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` where mounting is not permitted.
    pub fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        let output = command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(dir.path()).output();
        output.is_ok_and(|output| output.status.success()).then_some(Self { dir })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Mounts it again with another option: `size=1m`, `ro`.
    pub fn remount(&self, option: &str) {
        let mut command = Command::new("mount");
        assert!(command.args(["-o", &format!("remount,{option}")]).arg(self.path()).status().unwrap().success());
    }

    /// Fills it up to so many bytes; returns the file that does.
    pub fn fill_but(&self, free_bytes: u64) -> PathBuf {
        let ballast = self.path().join("ballast");
        let available = dwell_files::available_bytes(self.path()).unwrap();
        let mut file = File::create(&ballast).unwrap();
        file.write_all(&vec![7; (available - free_bytes) as usize]).unwrap();
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.dir.path()).status();
    }
}
