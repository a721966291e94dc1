use std::io;
use std::path::{Path, PathBuf};

use dwell_events::Hint;
use dwell_files::FileError;
use parquet::errors::ParquetError;

use crate::is_tree_name;
use crate::results_tree::holds_runs;

/// Why something could not be stored or read back.
///
/// `action` is what was being done, in words that begin the message: "writing a raw batch".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file could not be written or read, whatever it holds.
    #[error(transparent)]
    File(#[from] FileError),

    /// A raw stream ends inside its header: its writer was stopped before the first flush.
    #[error("opening a raw stream found {found_bytes} bytes, and its header needs more: {path:?}")]
    TruncatedHeader {
        /// Size of the file.
        found_bytes: u64,
        /// The stream.
        path: PathBuf,
    },

    /// A raw stream does not begin with a schema that can be read.
    #[error("opening a raw stream found a damaged header ({reason}), and an Arrow schema was needed: {path:?}")]
    DamagedHeader {
        /// What is wrong with it.
        reason: String,
        /// The stream.
        path: PathBuf,
    },

    /// One batch of a raw stream cannot be decoded; the batches after it can still be read.
    #[error("reading batch {batch_index} of a raw stream at byte {offset_bytes} found damage ({reason}): {path:?}")]
    DamagedBatch {
        /// Number of the batch, from 0.
        batch_index: u64,
        /// Where its message begins.
        offset_bytes: u64,
        /// What is wrong with it.
        reason: String,
        /// The stream.
        path: PathBuf,
    },

    /// A batch does not fit the stream or table it was given to.
    #[error("{action} found a batch that does not fit ({reason}): {path:?}")]
    UnfitBatch {
        /// What was being done.
        action: &'static str,
        /// How it differs.
        reason: String,
        /// Stream or table.
        path: PathBuf,
    },

    /// The file is not Parquet, is cut short, or is damaged.
    #[error("{action} found no whole Parquet file ({reason}): {path:?}")]
    NotParquet {
        /// What was being done.
        action: &'static str,
        /// What is wrong with it.
        reason: String,
        /// The file.
        path: PathBuf,
    },

    /// The file was written in a version that this one does not read.
    #[error("a file has version {found}, and {supported} is needed: {path:?}")]
    OtherMajorVersion {
        /// Version in the file.
        found: String,
        /// Version that this program writes; any version with the same major part can be read.
        supported: &'static str,
        /// The table, or the manifest.
        path: PathBuf,
    },

    /// The table lacks a column that was asked for.
    #[error("opening a table found no column {column}, and it was asked for: {path:?}")]
    MissingColumn {
        /// Name of the column.
        column: String,
        /// The table.
        path: PathBuf,
    },

    /// A finished run lacks tables that it had, so its figures would silently be others.
    #[error("reading a finished run found that files of its manifest.json are missing ({}): {run:?}", files.join(", "))]
    MissingTables {
        /// What is missing, relative to the run.
        files: Vec<String>,
        /// The run.
        run: PathBuf,
    },

    /// The directory is not that of a run.
    #[error("opening a run: no run here: {path:?}")]
    NotARun {
        /// The directory.
        path: PathBuf,
    },

    /// `manifest.csv` has columns that are not ours, so it is not changed.
    #[error("opening a results manifest found {found}, and columns of dwell or mrm-trace were needed: {path:?}")]
    OtherResultsManifest {
        /// What its first line holds, in words.
        found: String,
        /// The file.
        path: PathBuf,
    },

    /// A row of `manifest.csv` cannot be read.
    #[error("reading line {line} of a results manifest found a row that does not fit ({reason}): {path:?}")]
    UnfitManifestRow {
        /// Line on which the row begins, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
        /// The file.
        path: PathBuf,
    },

    /// A name cannot be the name of a directory.
    #[error("naming a run directory found the {what} {name:?}, and one plain file name was needed")]
    UnusableName {
        /// Which name: `model id`, `run id`.
        what: &'static str,
        /// The name.
        name: String,
    },
}

impl StoreError {
    /// Whether a full disk is the cause: nothing else can be written there until there is room.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Self::File(error) if error.is_full_disk())
    }

    /// The variant that fits what the operating system said.
    pub fn from_io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File(FileError::from_io(action, path, source))
    }

    /// The system's error behind a Parquet error if there is one, otherwise damage.
    pub(crate) fn from_parquet(action: &'static str, path: &Path, error: ParquetError) -> Self {
        match error {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(source) => Self::from_io(action, path, *source),
                Err(cause) => Self::NotParquet { action, reason: cause.to_string(), path: path.to_path_buf() },
            },
            error => Self::NotParquet { action, reason: error.to_string(), path: path.to_path_buf() },
        }
    }
}

impl Hint for StoreError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::File(error) => error.hints(),
            Self::DamagedBatch { path, .. } => vec![format!(
                "run `dwell recover '{}'` to build the tables from what can be read",
                run_of_raw(path).display()
            )],
            Self::OtherMajorVersion { found, supported, .. } => {
                vec![format!(
                    "use a version of dwell that supports schema {}; this one supports {}.x",
                    major(found),
                    major(supported)
                )]
            }
            Self::MissingTables { run, .. } => {
                vec![format!("see all that is wrong with it with `dwell verify '{}'`", run.display())]
            }
            Self::NotARun { path } if path.is_dir() && holds_runs(path).unwrap_or(false) => {
                vec![format!("list the runs: dwell ls '{}'", path.display())]
            }
            Self::NotARun { .. } => {
                vec![
                    "name a run, or a folder of runs: `dwell run` makes them in `results` unless -o says otherwise"
                        .to_owned(),
                ]
            }
            Self::OtherResultsManifest { path, .. } => {
                vec![format!("if it is not needed there, `mv '{0}' '{0}.other'`; a new one is begun", path.display())]
            }
            Self::UnfitManifestRow { line, path, .. } => {
                vec![format!("look at the line with `sed -n {line}p '{}'` and mend or delete it", path.display())]
            }
            Self::UnusableName { name, .. } => vec![format!("use `{}`", plain_name(name))],
            _ => Vec::new(),
        }
    }
}

/// `2.1` → `2`: versions with the same major part read each other's files.
fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or(version)
}

/// `<run>/raw/<name>.arrows` → `<run>`.
fn run_of_raw(path: &Path) -> &Path {
    path.ancestors().nth(2).unwrap_or(path)
}

fn plain_name(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    match plain.trim_start_matches(['.', '-']) {
        "" => "unnamed".to_owned(),
        rest if is_tree_name(rest) => format!("{rest}_model"),
        rest => rest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;

    #[test]
    fn what_is_no_run_is_answered_with_what_fits_it() {
        let hints = |path: &Path| StoreError::NotARun { path: path.to_owned() }.hints();
        let place = tempfile::tempdir().unwrap();
        let elsewhere = "name a run, or a folder of runs: `dwell run` makes them in `results` unless -o says otherwise";
        // A list without a run would help nobody.
        assert_eq!(hints(place.path()), [elsewhere]);
        assert_eq!(hints(Path::new("/etc/passwd")), [elsewhere]);
        std::fs::create_dir_all(place.path().join("model/run/raw")).unwrap();
        std::fs::write(place.path().join("model/run/raw/STATE"), "{}").unwrap();
        assert_eq!(hints(place.path()), [format!("list the runs: dwell ls '{}'", place.path().display())]);
    }

    #[test]
    fn another_major_version_is_answered_with_both_versions() {
        let found = "2.1".to_owned();
        let error = StoreError::OtherMajorVersion { found, supported: "1.3", path: PathBuf::from("trace.parquet") };
        assert_eq!(error.hints(), ["use a version of dwell that supports schema 2; this one supports 1.x"]);
    }

    #[test]
    fn an_unusable_name_is_answered_with_one_that_is_usable() {
        let error = StoreError::UnusableName { what: "model id", name: "org/model:7b".to_owned() };
        assert_eq!(error.hints(), ["use `org_model_7b`"]);
        assert_eq!(plain_name(".."), "unnamed");
        assert_eq!(plain_name("-x"), "x");
    }
}
