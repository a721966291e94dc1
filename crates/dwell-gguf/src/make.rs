//! Writing a made model to a file, whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use dwell_events::Hint;
use thiserror::Error;

use crate::MakePlan;

const BUFFER_BYTES: usize = 1 << 20;

/// What happens to a file that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// It stays, and nothing is made.
    Refuse,
    /// It is replaced once the new one is complete.
    Allow,
}

/// A model that was not written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MakeError {
    /// The file is already there.
    #[error("making the model: the file exists: {path:?}")]
    Exists {
        /// The file.
        path: PathBuf,
    },

    /// Something else has the name: a device, a pipe, a folder.
    #[error("making the model: this is no ordinary file: {path:?}")]
    NotAFile {
        /// What is there.
        path: PathBuf,
    },

    /// The file could not be created.
    #[error("making the model: creating the file failed: {path:?}")]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },

    /// The disk or the quota is full.
    #[error("making the model: no space left after {written_bytes} bytes, needed {needed_bytes}: {path:?}")]
    OutOfSpace {
        /// Bytes given to the file before the space was gone.
        written_bytes: u64,
        /// Bytes of the whole file.
        needed_bytes: u64,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },

    /// The file could not be written.
    #[error("making the model: writing failed after {written_bytes} of {needed_bytes} bytes: {path:?}")]
    Write {
        /// Bytes given to the file before.
        written_bytes: u64,
        /// Bytes of the whole file.
        needed_bytes: u64,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },

    /// The finished file could not get its name.
    #[error("making the model: renaming the finished file failed: {path:?}")]
    Rename {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Hint for MakeError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            MakeError::Exists { .. } => "choose another path, or overwrite it with --force",
            MakeError::NotAFile { .. } => "choose another path",
            MakeError::Create { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "create the directory first"
            }
            MakeError::OutOfSpace { .. } => "free space or quota there, choose another disk, or make a smaller model",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

/// Write the model to this path.
///
/// It grows under the same name with `.partial` after it and is renamed when complete; if anything fails, nothing
/// is left behind. `on_progress` gets the bytes written so far, often.
pub fn make(
    plan: &MakePlan,
    path: &Path,
    overwrite: Overwrite,
    on_progress: &mut dyn FnMut(u64),
) -> Result<(), MakeError> {
    let partial = partial_path(path);
    make_in(plan, path, overwrite, on_progress, || File::create(&partial).map(|file| (file, partial.clone())))
}

/// The same in a folder of the user's, where it grows as `staging`: a file of that name is refused.
pub fn make_staged(
    plan: &MakePlan,
    path: &Path,
    staging: &Path,
    overwrite: Overwrite,
    on_progress: &mut dyn FnMut(u64),
) -> Result<(), MakeError> {
    let create = || OpenOptions::new().write(true).create_new(true).open(staging);
    make_in(plan, path, overwrite, on_progress, || create().map(|file| (file, staging.to_owned())))
}

fn make_in(
    plan: &MakePlan,
    path: &Path,
    overwrite: Overwrite,
    on_progress: &mut dyn FnMut(u64),
    create: impl FnOnce() -> io::Result<(File, PathBuf)>,
) -> Result<(), MakeError> {
    check_target(path, overwrite)?;
    let (file, unfinished) = create().map_err(|source| MakeError::Create { path: path.to_owned(), source })?;
    let partial = Partial { file, path: unfinished, renamed: false };
    let mut written_bytes = 0;
    let mut count = |bytes| {
        written_bytes = bytes;
        on_progress(bytes);
    };
    let result = plan
        .write(BufWriter::with_capacity(BUFFER_BYTES, &partial.file), &mut count)
        .and_then(|()| partial.file.sync_all());
    result.map_err(|source| write_error(plan, path, written_bytes, source))?;
    // Another process may have put a file there in the meantime.
    check_target(path, overwrite)?;
    partial.rename_to(path)
}

/// Renaming would take the place of a device or a pipe for everyone.
fn check_target(path: &Path, overwrite: Overwrite) -> Result<(), MakeError> {
    if overwrite == Overwrite::Refuse && path.symlink_metadata().is_ok() {
        return Err(MakeError::Exists { path: path.to_owned() });
    }
    match path.metadata() {
        Ok(found) if !found.is_file() => Err(MakeError::NotAFile { path: path.to_owned() }),
        _ => Ok(()),
    }
}

fn write_error(plan: &MakePlan, path: &Path, written_bytes: u64, source: io::Error) -> MakeError {
    let (needed_bytes, path) = (plan.file_bytes(), path.to_owned());
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            MakeError::OutOfSpace { written_bytes, needed_bytes, path, source }
        }
        _ => MakeError::Write { written_bytes, needed_bytes, path, source },
    }
}

fn partial_path(target: &Path) -> PathBuf {
    let mut name: OsString = target.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// A file that is removed unless it is renamed.
struct Partial {
    file: File,
    path: PathBuf,
    renamed: bool,
}

impl Partial {
    fn rename_to(mut self, target: &Path) -> Result<(), MakeError> {
        fs::rename(&self.path, target).map_err(|source| MakeError::Rename { path: target.to_owned(), source })?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.renamed {
            // Nothing more can be done about a file that cannot be removed; the error that led here is reported.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MakeSpec;

    fn plan() -> MakePlan {
        MakePlan::new(MakeSpec::default()).unwrap()
    }

    fn names_in(directory: &Path) -> Vec<OsString> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn the_finished_file_is_alone_and_as_long_as_planned() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("small.gguf");
        let mut progress = Vec::new();
        make(&plan(), &path, Overwrite::Refuse, &mut |bytes| progress.push(bytes)).unwrap();
        assert_eq!(names_in(directory.path()), ["small.gguf"]);
        assert_eq!(fs::metadata(&path).unwrap().len(), plan().file_bytes());
        assert!(progress.is_sorted());
        assert_eq!(progress.last(), Some(&plan().file_bytes()));
    }

    #[test]
    fn a_file_that_exists_is_kept_unless_overwriting_is_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("small.gguf");
        fs::write(&path, "mine").unwrap();
        let error = make(&plan(), &path, Overwrite::Refuse, &mut |_| ()).unwrap_err();
        assert!(matches!(error, MakeError::Exists { .. }), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        make(&plan(), &path, Overwrite::Allow, &mut |_| ()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), plan().file_bytes());
    }

    #[test]
    fn a_file_that_only_looks_like_an_unfinished_one_stays() {
        let directory = tempfile::tempdir().unwrap();
        let [path, own, staging] =
            ["small.gguf", "small.gguf.partial", "small.gguf.1.partial"].map(|name| directory.path().join(name));
        fs::write(&own, "mine").unwrap();
        make_staged(&plan(), &path, &staging, Overwrite::Refuse, &mut |_| ()).unwrap();
        assert_eq!((fs::read(&own).unwrap(), staging.exists()), (b"mine".to_vec(), false));
        assert!(make_staged(&plan(), &path, &own, Overwrite::Allow, &mut |_| ()).is_err());
        assert_eq!(fs::read(&own).unwrap(), b"mine");
    }

    #[test]
    fn a_directory_that_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing").join("small.gguf");
        let error = make(&plan(), &path, Overwrite::Refuse, &mut |_| ()).unwrap_err();
        assert!(error.to_string().ends_with("missing/small.gguf\""), "{error}");
        assert_eq!(error.hints(), ["create the directory first"]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_reported_and_nothing_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("small.gguf");
        std::os::unix::fs::symlink("/dev/full", directory.path().join("small.gguf.partial")).unwrap();
        let error = make(&plan(), &path, Overwrite::Refuse, &mut |_| ()).unwrap_err();
        let MakeError::OutOfSpace { needed_bytes, .. } = &error else { panic!("{error}") };
        assert_eq!(*needed_bytes, plan().file_bytes());
        assert_eq!(names_in(directory.path()), [] as [OsString; 0]);
    }
}
