//! Where the files of a run lie: `results/<model_id>/<run_id>/`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dwell_events::schema::Table;
use dwell_files::{FileError, read_own};

use crate::results_tree::is_tree_name;
use crate::run_state::{RunMarker, RunState};

use crate::{StoreError, new_run_id};

/// Directory of what the collectors wrote.
pub(crate) const RAW_DIR: &str = "raw";
/// The marker of how far the run has come, relative to the run.
pub(crate) const STATE_FILE: &str = "raw/STATE";
/// The manifest, relative to the run.
pub(crate) const MANIFEST_FILE: &str = "manifest.json";
/// The metrics, relative to the run.
pub(crate) const METRICS_FILE: &str = "metrics.csv";
pub(crate) const METADATA_FILE: &str = "metadata.json";
/// The picture of the run, relative to the run.
pub(crate) const OVERVIEW_FILE: &str = "overview.json";

/// Longest `metadata.json`: a hundred times the usual. Its values take up to fifty times their size in memory.
const METADATA_MAX_BYTES: u64 = 8 << 20;

const CREATING: &str = "creating a run directory";
/// How often the folder of a model may vanish before its run is in it.
const LONGEST_RACE: u64 = 100;

/// The directory of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
    model_id: String,
    run_id: String,
    /// The outermost folder that was made for it; `None` if all folders around it were there.
    outermost_made: Option<PathBuf>,
}

impl RunDir {
    /// Makes the directory of a new run and marks it as being recorded.
    ///
    /// A directory that exists is refused, so two runs can never share one.
    pub fn create(results_root: &Path, model_id: &str, run_id: &str) -> Result<Self, StoreError> {
        check_names(model_id, run_id)?;
        let model_dir = results_root.join(model_id);
        let path = model_dir.join(run_id);
        let outermost_made = model_dir.ancestors().take_while(|folder| is_absent(folder)).last().map(Path::to_owned);
        make_run_folder(&model_dir, &path)?;
        let run = Self { path, model_id: model_id.to_owned(), run_id: run_id.to_owned(), outermost_made };
        // It is new and empty, and must not be taken for a run.
        run.fill().inspect_err(|_| run.discard())?;
        Ok(run)
    }

    /// The same in a folder that is there already: if it is taken away meanwhile, the run is not made.
    pub fn create_in(folder: &Path, model_id: &str, run_id: &str) -> Result<Self, StoreError> {
        check_names(model_id, run_id)?;
        let path = folder.join(model_id).join(run_id);
        for made in [&folder.join(model_id), &path] {
            fs::create_dir(made).map_err(|error| StoreError::from_io(CREATING, made, error))?;
        }
        let run = Self { path, model_id: model_id.to_owned(), run_id: run_id.to_owned(), outermost_made: None };
        run.fill()?;
        Ok(run)
    }

    /// Removes a run in which there is nothing to keep, the folder of its model if it holds no other run, and the empty
    /// folders around it that were made for it.
    pub fn discard(&self) {
        // What cannot be removed does no harm: it is marked as a run that was not finished.
        let _ = fs::remove_dir_all(&self.path);
        let model_dir = self.path.parent();
        let made = |folder: &&Path| self.outermost_made.as_ref().is_some_and(|outermost| folder.starts_with(outermost));
        let made_around = model_dir.into_iter().flat_map(Path::ancestors).skip(1).take_while(made);
        for folder in model_dir.into_iter().chain(made_around) {
            // Refused if another run is in it.
            let _ = fs::remove_dir(folder);
        }
    }

    fn fill(&self) -> Result<(), StoreError> {
        let raw = self.raw();
        fs::create_dir(&raw).map_err(|error| StoreError::from_io(CREATING, &raw, error))?;
        self.set_state(RunState::Recording)
    }

    /// The same under a fresh run id; an id that is taken is replaced by another.
    pub fn create_fresh(results_root: &Path, model_id: &str) -> Result<Self, StoreError> {
        loop {
            match Self::create(results_root, model_id, &new_run_id()) {
                Err(StoreError::File(FileError::Exists { .. })) => continue,
                outcome => return outcome,
            }
        }
    }

    /// Opens the directory of a run that dwell recorded or that holds tables written elsewhere.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let action = "opening a run";
        let path = fs::canonicalize(path).map_err(|error| StoreError::from_io(action, path, error))?;
        let marker = match RunMarker::read(&path.join(STATE_FILE)) {
            Ok(marker) => Some(marker),
            Err(StoreError::File(FileError::NotFound { .. })) => None,
            // A directory that is a file, for one, is not a run.
            Err(StoreError::File(FileError::Io { .. })) => return Err(StoreError::NotARun { path }),
            Err(error) => return Err(error),
        };
        let from_name =
            Self { model_id: last_name(path.parent()), run_id: last_name(Some(&path)), path, outermost_made: None };
        match marker {
            Some(marker) => Ok(Self { model_id: marker.model_id, run_id: marker.run_id, ..from_name }),
            None if has_any_table(&from_name.path) => Ok(from_name),
            None => Err(StoreError::NotARun { path: from_name.path }),
        }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The model that was run.
    pub fn model_id(&self) -> &str {
        &self.model_id
    }

    /// The run.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// `raw/`.
    pub fn raw(&self) -> PathBuf {
        self.path.join(RAW_DIR)
    }

    /// `raw/<name>.arrows`.
    pub fn raw_stream(&self, name: &str) -> PathBuf {
        self.raw().join(format!("{name}.arrows"))
    }

    /// `<table>.parquet`.
    pub fn table(&self, table: Table) -> PathBuf {
        self.path.join(table.file_name())
    }

    /// `metadata.json`.
    pub fn metadata_json(&self) -> PathBuf {
        self.path.join(METADATA_FILE)
    }

    /// Content of `metadata.json`; `None` if there is no such file.
    pub fn read_metadata_json(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.metadata_json();
        match read_own(&path, METADATA_MAX_BYTES) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::from_io("reading the metadata of a run", &path, error)),
        }
    }

    /// `manifest.json`.
    pub fn manifest_json(&self) -> PathBuf {
        self.path.join(MANIFEST_FILE)
    }

    /// `memory.csv`.
    pub fn memory_csv(&self) -> PathBuf {
        self.path.join("memory.csv")
    }

    /// `overview.json`.
    pub fn overview_json(&self) -> PathBuf {
        self.path.join(OVERVIEW_FILE)
    }

    /// `metrics.csv`.
    pub fn metrics_csv(&self) -> PathBuf {
        self.path.join(METRICS_FILE)
    }

    /// `report.html`.
    pub fn report_html(&self) -> PathBuf {
        self.path.join("report.html")
    }

    /// `figures/`.
    pub fn figures(&self) -> PathBuf {
        self.path.join("figures")
    }

    /// How far the run has come and who said so; `None` for a directory that dwell did not record.
    pub fn marker(&self) -> Result<Option<RunMarker>, StoreError> {
        match RunMarker::read(&self.path.join(STATE_FILE)) {
            Ok(marker) => Ok(Some(marker)),
            Err(StoreError::File(FileError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says how far the run has come. The final states are set after the manifest is written.
    pub fn set_state(&self, state: RunState) -> Result<(), StoreError> {
        RunMarker::now(state, &self.model_id, &self.run_id).write(&self.path.join(STATE_FILE))
    }
}

/// Whether a directory looks like that of a run: recorded by dwell, or with metadata or a table of any origin.
pub(crate) fn is_run(dir: &Path) -> bool {
    dir.join(STATE_FILE).is_file() || has_any_table(dir)
}

fn has_any_table(dir: &Path) -> bool {
    dir.join(METADATA_FILE).is_file() || Table::ALL.iter().any(|table| dir.join(table.file_name()).is_file())
}

/// Whether there is nothing of this name, not even where the current folder is meant.
fn is_absent(folder: &Path) -> bool {
    !folder.as_os_str().is_empty() && !folder.exists()
}

fn check_names(model_id: &str, run_id: &str) -> Result<(), StoreError> {
    check_name("model id", model_id)?;
    check_name("run id", run_id)?;
    match is_tree_name(model_id) {
        true => Err(StoreError::UnusableName { what: "model id", name: model_id.to_owned() }),
        false => Ok(()),
    }
}

/// Another process that discards the only run of the model may take the model's folder away in between.
fn make_run_folder(model_dir: &Path, path: &Path) -> Result<(), StoreError> {
    let make = || {
        fs::create_dir_all(model_dir)
            .map_err(|error| ("creating the results directory", model_dir, error))
            .and_then(|()| fs::create_dir(path).map_err(|error| (CREATING, path, error)))
    };
    let mut made = make();
    for attempt in 0..LONGEST_RACE {
        match &made {
            Err((.., error)) if has_vanished(error, model_dir) => {
                // A little later each time, so that the two do not go on in step.
                std::thread::sleep(Duration::from_micros(10 * attempt));
                made = make();
            }
            _ => break,
        }
    }
    made.map_err(|(action, path, error)| StoreError::from_io(action, path, error))
}

/// Whether a folder was there and is no more: in it nothing is found, or it exists for one call and not for the next.
fn has_vanished(error: &std::io::Error, dir: &Path) -> bool {
    match error.kind() {
        ErrorKind::NotFound => true,
        ErrorKind::AlreadyExists => !dir.exists(),
        _ => false,
    }
}

/// Refuses a name of a model or run, `what` it is, that cannot be a directory: it must not climb or nest, and must not
/// be taken for an option or hidden.
pub fn check_name(what: &'static str, name: &str) -> Result<(), StoreError> {
    let is_plain = !name.is_empty()
        && name.len() <= 200
        && !name.starts_with(['.', '-', '=', '+', '@'])
        && name.chars().all(|c| !c.is_control() && !"/\\:*?\"<>|".contains(c));
    if is_plain { Ok(()) } else { Err(StoreError::UnusableName { what, name: name.to_owned() }) }
}

fn last_name(path: Option<&Path>) -> String {
    path.and_then(Path::file_name).map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
