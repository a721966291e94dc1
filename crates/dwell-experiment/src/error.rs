use std::path::PathBuf;

use dwell_build::BuildError;
use dwell_events::Hint;
use dwell_files::FileError;
use dwell_metadata::MetadataError;
use dwell_store::StoreError;

/// Why an experiment could not be begun, or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// Something could not be stored or read.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// The metadata of a run cannot be used.
    #[error(transparent)]
    Metadata(#[from] MetadataError),

    /// Another process runs this experiment.
    #[error("this experiment is being run by another process: {dir:?}")]
    BeingRun {
        /// The experiment.
        dir: PathBuf,
    },

    /// What is to be resumed is not what the experiment file says now.
    #[error("resuming {name:?} found that its file, prompts, rules or models have changed since it began: {dir:?}")]
    Changed {
        /// Name of the experiment.
        name: String,
        /// The experiment.
        dir: PathBuf,
        /// The experiment file.
        config: PathBuf,
    },

    /// The record of an earlier execution cannot be read, so it is not known what there is to go on with.
    #[error("resuming found the record of an experiment that cannot be read ({reason}): {dir:?}")]
    UnreadableRecord {
        /// What is wrong with it.
        reason: String,
        /// The experiment.
        dir: PathBuf,
    },

    /// The disk is full; no other run can succeed.
    #[error("the experiment stopped at run {run_id:?}, {finished} of {planned} are finished: {reason}")]
    DiskFull {
        /// The run that did not succeed.
        run_id: String,
        /// Runs that are finished.
        finished: usize,
        /// Runs of the plan.
        planned: usize,
        /// What was being written.
        reason: String,
        /// What to do about it.
        hints: Vec<String>,
    },

    /// The process of a run could not be started or waited for.
    #[error("starting the observer of a run failed with {source}")]
    NoProcess {
        /// What the system said.
        source: std::io::Error,
    },

    /// An attempt at a run that did not come to its end stands in the way of the next.
    #[error("run {run_id:?} cannot be begun anew: {source}")]
    InTheWay {
        /// The run.
        run_id: String,
        /// Why it cannot be moved.
        source: Box<BuildError>,
    },

    /// The aggregates could not be made; the runs are whole.
    #[error("all runs are done, but making the summary failed: {reason}")]
    Summary {
        /// Why.
        reason: String,
        /// Where the runs are.
        results: PathBuf,
        /// The experiment.
        dir: PathBuf,
        /// Its id.
        id: String,
    },
}

impl From<FileError> for ExperimentError {
    fn from(error: FileError) -> Self {
        Self::Store(error.into())
    }
}

impl Hint for ExperimentError {
    fn hints(&self) -> Vec<String> {
        match self {
            ExperimentError::Store(error) => error.hints(),
            ExperimentError::Metadata(error) => error.hints(),
            ExperimentError::BeingRun { .. } => vec!["wait for it to end".to_owned()],
            ExperimentError::Changed { dir, config, .. } => vec![
                format!("to resume, restore the file: cp '{}/experiment.yaml' '{}'", dir.display(), config.display()),
                "or omit --resume to start again".to_owned(),
            ],
            ExperimentError::UnreadableRecord { dir, .. } => vec![
                format!("to resume, restore '{}' from a copy", dir.join("experiment.json").display()),
                "or omit --resume to start again".to_owned(),
            ],
            // The others speak of recovering one run; resuming does that too.
            ExperimentError::DiskFull { hints, .. } => hints.iter().take(1).cloned().collect(),
            ExperimentError::InTheWay { source, .. } => source.hints(),
            ExperimentError::NoProcess { .. } => Vec::new(),
            ExperimentError::Summary { results, dir, id, .. } => vec![format!(
                "make it again: dwell analyse '{}' --experiment {id} --output '{}'",
                results.display(),
                dir.display()
            )],
        }
    }
}
