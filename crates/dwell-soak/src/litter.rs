//! Files that nobody needs any more.

use std::fs;
use std::path::{Path, PathBuf};

/// Endings of files that are not finished.
const UNFINISHED: [&str; 2] = [".partial", ".ring"];
/// How names of folders for trials begin.
const TRIAL_FOLDERS: &str = ".dwell-probe-";
/// Where experiments set aside what was interrupted, as it was, to be recovered by whoever wants it.
const SET_ASIDE: &str = "/interrupted/";

/// What is left below a folder that should have been renamed or removed, and everything in the folder for temporary files.
pub(crate) fn found(place: &Path, temporary: &Path) -> Vec<PathBuf> {
    let mut left: Vec<PathBuf> = files_below(temporary);
    left.extend(files_below(place).into_iter().filter(|path| is_unfinished(path)));
    left
}

fn is_unfinished(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let is_set_aside = text.contains(SET_ASIDE);
    !is_set_aside && UNFINISHED.iter().any(|ending| text.ends_with(ending)) || text.contains(TRIAL_FOLDERS)
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_and_temporary_ones_are_litter_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let temporary = dir.path().join("tmp");
        for folder in ["tmp", "results/m/r/raw"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for name in
            ["tmp/a", "results/m/r/trace.parquet.partial", "results/m/r/trace.parquet", "results/m/r/raw/9.ring"]
        {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let mut left: Vec<_> = found(dir.path(), &temporary);
        left.sort();
        left.dedup();
        let expected = ["results/m/r/raw/9.ring", "results/m/r/trace.parquet.partial", "tmp/a"];
        assert_eq!(left, expected.map(|name| dir.path().join(name)));
    }
}
