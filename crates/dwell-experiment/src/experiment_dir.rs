//! One execution of an experiment on disk: `results/experiments/<id>/`.
//!
//! It holds what was asked for and who runs it. What is done is not written here: the run directories say that.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use dwell_config::PlannedRun;
use dwell_files::{OWN_TEXT_MAX_BYTES, read_json, write_bytes_atomically, write_json_atomically};
use dwell_store::{EXPERIMENTS_DIR, StoreError, new_run_id};
use serde::{Deserialize, Serialize};

use crate::found_run::FoundRun;
use crate::{ExperimentError, ExperimentSummary, Setup};

pub(crate) const RECORD_FILE: &str = "experiment.json";
const CONFIG_FILE: &str = "experiment.yaml";
pub(crate) const FINISHED_FILE: &str = "finished.json";
pub(crate) const LOCK_FILE: &str = ".lock";
const INTERRUPTED_DIR: &str = "interrupted";

const OPENING: &str = "opening an experiment";

/// What `experiment.json` holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    id: String,
    name: String,
    digest: String,
    planned_runs: usize,
    command_line: Vec<String>,
    experiment: dwell_config::Experiment,
}

/// The folder of one execution of an experiment. While it is open, no other process runs the same one.
#[derive(Debug)]
pub struct ExperimentDir {
    path: PathBuf,
    id: String,
    /// Released when it is dropped, also by the death of the process.
    _lock: File,
}

/// What there is to resume.
#[derive(Debug)]
pub enum Resumable {
    /// An execution that has not come to its end.
    Unfinished(ExperimentDir),
    /// The last execution is finished.
    Finished {
        /// What became of it.
        summary: Box<ExperimentSummary>,
    },
    /// The experiment was never begun here.
    Nothing,
}

impl ExperimentDir {
    /// Begins a new execution.
    pub fn create(setup: &Setup, command_line: &[String]) -> Result<Self, ExperimentError> {
        let root = setup.results.join(EXPERIMENTS_DIR);
        let creating = "creating the folder of an experiment";
        fs::create_dir_all(&root).map_err(|error| StoreError::from_io(creating, &root, error))?;
        let (path, id) = loop {
            let id = new_run_id();
            let path = root.join(&id);
            match fs::create_dir(&path) {
                Ok(()) => break (path, id),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(StoreError::from_io(creating, &path, error).into()),
            }
        };
        let dir = Self { _lock: lock(&path)?, path, id };
        dir.fill(setup, command_line).inspect_err(|_| {
            let _ = fs::remove_dir_all(&dir.path);
        })?;
        Ok(dir)
    }

    fn fill(&self, setup: &Setup, command_line: &[String]) -> Result<(), StoreError> {
        write_bytes_atomically(&self.path.join(CONFIG_FILE), setup.config_text.as_bytes())?;
        let record = Record {
            id: self.id.clone(),
            name: setup.experiment.experiment.name.clone(),
            digest: setup.digest(),
            planned_runs: setup.plan.runs.len(),
            command_line: command_line.to_vec(),
            experiment: setup.experiment.clone(),
        };
        // Last: a folder without it is not an experiment.
        Ok(write_json_atomically(&self.path.join(RECORD_FILE), &record)?)
    }

    /// The last execution of the same experiment that there is to go on with.
    pub fn find(setup: &Setup) -> Result<Resumable, ExperimentError> {
        let digest = setup.digest();
        let name = &setup.experiment.experiment.name;
        let earlier = earlier_executions(&setup.results)?;
        let found = earlier.iter().rev().find_map(|(path, record)| match record {
            Ok(record) if record.name == *name => Some(Ok((path, record))),
            Err(reason) if is_begun_from(path, setup) => {
                Some(Err(ExperimentError::UnreadableRecord { reason: reason.clone(), dir: path.clone() }))
            }
            _ => None,
        });
        let Some((path, record)) = found.transpose()? else { return Ok(Resumable::Nothing) };
        let is_finished = path.join(FINISHED_FILE).is_file();
        if record.digest != digest {
            // One that is finished does not stand in the way of a changed one.
            let changed =
                ExperimentError::Changed { name: name.clone(), dir: path.clone(), config: setup.config.clone() };
            return if is_finished { Ok(Resumable::Nothing) } else { Err(changed) };
        }
        let dir = || Ok(Self { _lock: lock(path)?, path: path.clone(), id: record.id.clone() });
        if !is_finished {
            return dir().map(Resumable::Unfinished);
        }
        if is_every_run_there(setup, &record.id) {
            return Ok(Resumable::Finished { summary: Box::new(finished_summary(path)?) });
        }
        let dir = dir()?;
        // It says that all runs are done, which is not so any more.
        let finished = path.join(FINISHED_FILE);
        fs::remove_file(&finished).map_err(|error| StoreError::from_io(OPENING, &finished, error))?;
        Ok(Resumable::Unfinished(dir))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Identifies the execution; its runs' names begin with it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Name of a run of this execution.
    pub(crate) fn run_id(&self, run: &PlannedRun) -> String {
        run_id_of(&self.id, run)
    }

    /// Says that all runs are done.
    pub(crate) fn set_finished(&self, summary: &impl Serialize) -> Result<(), StoreError> {
        Ok(write_json_atomically(&self.path.join(FINISHED_FILE), summary)?)
    }

    /// Moves an attempt at a run that did not come to its end out of the way; it can still be looked at.
    pub(crate) fn set_aside(&self, run: &Path, run_id: &str) -> Result<(), StoreError> {
        let folder = self.path.join(INTERRUPTED_DIR);
        let moving = "setting aside an interrupted run";
        fs::create_dir_all(&folder).map_err(|error| StoreError::from_io(moving, &folder, error))?;
        let free = (1..).map(|attempt| folder.join(format!("{run_id}-{attempt}"))).find(|path| !path.exists());
        let target = free.unwrap_or_else(|| folder.join(new_run_id()));
        fs::rename(run, &target).map_err(|error| StoreError::from_io(moving, run, error))
    }
}

fn run_id_of(experiment_id: &str, run: &PlannedRun) -> String {
    format!("{experiment_id}_{}", run.name())
}

/// Whether a run belongs to an execution, by its name.
pub(crate) fn is_run_of(experiment_id: &str, run_id: &str) -> bool {
    run_id.strip_prefix(experiment_id).is_some_and(|rest| rest.starts_with('_'))
}

/// Whether no run of a finished execution was deleted or cut since.
fn is_every_run_there(setup: &Setup, experiment_id: &str) -> bool {
    let is_there = |run: &PlannedRun| {
        let path = setup.run_path(run, &run_id_of(experiment_id, run));
        matches!(FoundRun::at(&path), FoundRun::Finished { .. })
    };
    setup.plan.runs.iter().all(is_there)
}

/// Whether an execution whose record cannot be read may be one of this experiment: another one does not stand in its way.
fn is_begun_from(dir: &Path, setup: &Setup) -> bool {
    fs::read(dir.join(CONFIG_FILE)).map_or(true, |text| text == setup.config_text.as_bytes())
}

/// What became of an execution that is finished. Its results may have been moved since.
fn finished_summary(dir: &Path) -> Result<ExperimentSummary, StoreError> {
    let summary: ExperimentSummary = read_json(OPENING, &dir.join(FINISHED_FILE), OWN_TEXT_MAX_BYTES)?;
    Ok(ExperimentSummary { dir: dir.to_owned(), ..summary })
}

fn lock(dir: &Path) -> Result<File, ExperimentError> {
    let path = dir.join(LOCK_FILE);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(|error| StoreError::from_io(OPENING, &path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ExperimentError::BeingRun { dir: dir.to_owned() }),
        Err(TryLockError::Error(error)) => Err(StoreError::from_io(OPENING, &path, error).into()),
    }
}

/// The folder of an execution, and its record or why that cannot be read.
type EarlierExecution = (PathBuf, Result<Record, String>);

/// Every execution that was begun in these results, oldest first. Folders without a record were never begun.
fn earlier_executions(results: &Path) -> Result<Vec<EarlierExecution>, StoreError> {
    let root = results.join(EXPERIMENTS_DIR);
    let entries = match fs::read_dir(&root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::from_io(OPENING, &root, error)),
    };
    let record_in = |path: PathBuf| {
        let record = path.join(RECORD_FILE);
        let read = || read_json(OPENING, &record, OWN_TEXT_MAX_BYTES).map_err(|error| error.to_string());
        record.is_file().then(|| (path, read()))
    };
    let mut found: Vec<_> = entries.flatten().filter_map(|entry| record_in(entry.path())).collect();
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}
