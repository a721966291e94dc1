//! Where the files of the kernel are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The folder that `/proc`, `/sys` and `/etc` are in: `/`, or a tree like it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    path: PathBuf,
}

impl Default for Root {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Root {
    /// A tree that begins at this folder.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// A path in the tree, given without its leading slash.
    pub fn path(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    pub(crate) fn text(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.path(path))
    }

    /// The content of a file without the blanks around it; nothing if it is empty or cannot be read.
    pub(crate) fn word(&self, path: &str) -> Option<String> {
        let text = self.text(path).ok()?;
        Some(text.trim()).filter(|word| !word.is_empty()).map(str::to_owned)
    }

    /// The number that a file holds.
    pub(crate) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.word(path)?.parse().ok()
    }

    /// Names in a folder that are this prefix and a number, by that number.
    pub(crate) fn numbered(&self, folder: &str, prefix: &str) -> Vec<String> {
        let number = |name: &str| name.strip_prefix(prefix)?.parse::<u64>().ok();
        let mut names: Vec<(u64, String)> =
            self.names(folder).into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
        names.sort();
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Names in a folder, sorted; none if it cannot be read.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// Why a file could not be read, with its path.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no {}", path.display()),
        io::ErrorKind::PermissionDenied => format!("{} may not be read by this user", path.display()),
        _ => format!("reading {} failed with {error}", path.display()),
    }
}
