//! Run by run through the plan.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use dwell_analysis::validity::ValidityClass;
use dwell_build::{BuildSetup, NoListener, ensure_unattended, failed_row, recover_run};
use dwell_config::{PlannedKind, PlannedRun};
use dwell_events::Hint;
use dwell_report::{Exclusion, RUN_FIGURE_VIEWS, exclusion_of, exclusions_text};

use dwell_metadata::UntracedRun;
use dwell_store::{ResultsManifest, RunDir};
use serde::{Deserialize, Serialize};

use crate::aggregate::{read_run, write_summary};
use crate::found_run::{FoundRun, speed_of};
use crate::requests::Requests;
use crate::run_process::{RunTask, TaskEnd};
use crate::{ChosenCollectors, Estimate, ExperimentDir, ExperimentError, Setup};

/// Where a run stands in the experiment.
#[derive(Clone, Copy, Debug)]
pub struct RunPlace<'a> {
    /// From 0.
    pub index: usize,
    /// Runs of the plan.
    pub planned: usize,
    /// The model.
    pub model_id: &'a str,
    /// Combination and kind.
    pub run: &'a PlannedRun,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub enum RunEnd {
    /// It was finished before.
    AlreadyFinished {
        /// Whether something that should have been recorded is missing.
        is_partial: bool,
    },
    /// All is there.
    Complete {
        /// Its class of validity.
        validity: ValidityClass,
    },
    /// Something that should have been recorded is missing.
    Partial,
    /// It left nothing that counts.
    Failed {
        /// What was being done, found, needed.
        message: String,
        /// What to do about it.
        hints: Vec<String>,
    },
}

/// What an experiment tells while it goes on.
pub trait ExperimentListener {
    /// It begins, or goes on, with this much time to be spent.
    fn experiment_begins(&mut self, id: &str, estimate: &Estimate);
    /// A run begins.
    fn run_begins(&mut self, place: RunPlace<'_>);
    /// A run ended.
    fn run_ends(&mut self, place: RunPlace<'_>, end: &RunEnd);
    /// A repetition ended that does not count, now or in an earlier execution. Told after its end.
    fn run_is_excluded(&mut self, place: RunPlace<'_>, exclusion: &Exclusion);
}

/// A run that left nothing that counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FailedRun {
    /// The model.
    pub model_id: String,
    /// The run.
    pub run_id: String,
    /// Why.
    pub message: String,
}

/// What became of an experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ExperimentSummary {
    /// Identifies the execution.
    pub id: String,
    /// Name of the experiment.
    pub name: String,
    /// Its folder.
    pub dir: PathBuf,
    /// Runs of the plan.
    pub planned: usize,
    /// Runs that have their tables, those of earlier executions included.
    pub finished: usize,
    /// Runs that were finished before.
    pub already_finished: usize,
    /// Finished runs from which something is missing.
    pub partial: usize,
    /// Runs that left nothing that counts.
    pub failed: Vec<FailedRun>,
    /// Whether the user interrupted it.
    pub is_interrupted: bool,
    /// What the aggregates leave out, in words.
    pub exclusions: String,
    /// Runs that the aggregates are of. None if nothing was aggregated, or an earlier version of dwell did it.
    #[serde(default)]
    pub counting: Option<usize>,
    /// Names of the reasons for which repetitions do not count, with the number of runs.
    #[serde(default)]
    pub excluded: BTreeMap<String, usize>,
}

impl ExperimentSummary {
    /// Whether every run of the plan was done and is whole.
    pub fn is_whole(&self) -> bool {
        self.finished == self.planned && self.partial == 0
    }

    /// Whether runs were finished and every one of them is left out of the aggregates.
    pub fn is_without_counting_runs(&self) -> bool {
        self.finished > 0 && self.counting == Some(0)
    }
}

/// Does every run of the plan that is not finished yet.
///
/// A run that fails is recorded, and the others go on. A full disk ends the experiment. `interrupted` ends it after the
/// run that is cut off by it, which counts as not done.
pub fn execute(
    setup: &Setup,
    dir: &ExperimentDir,
    collectors: &ChosenCollectors,
    command_line: &[String],
    interrupted: &AtomicBool,
    listener: &mut dyn ExperimentListener,
) -> Result<ExperimentSummary, ExperimentError> {
    let requests = Requests { setup, collectors, experiment_id: dir.id(), command_line };
    let summary = ExperimentSummary {
        id: dir.id().to_owned(),
        name: setup.experiment.experiment.name.clone(),
        dir: dir.path().to_owned(),
        planned: setup.plan.runs.len(),
        ..ExperimentSummary::default()
    };
    listener.experiment_begins(dir.id(), &Estimate::of(setup));
    let mut execution = Execution { setup, dir, requests, interrupted, untraced: None, summary };
    execution.all(listener)?;
    execution.conclude()
}

struct Execution<'a> {
    setup: &'a Setup,
    dir: &'a ExperimentDir,
    requests: Requests<'a>,
    interrupted: &'a AtomicBool,
    /// The unrecorded run of the combination that is being done.
    untraced: Option<(PlannedRun, UntracedRun)>,
    summary: ExperimentSummary,
}

impl Execution<'_> {
    fn all(&mut self, listener: &mut dyn ExperimentListener) -> Result<(), ExperimentError> {
        let planned = self.setup.plan.runs.len();
        for (index, run) in self.setup.plan.runs.iter().enumerate() {
            if self.is_interrupted() {
                break;
            }
            let model_id = &self.setup.models[run.model_index].id;
            let place = RunPlace { index, planned, model_id, run };
            listener.run_begins(place);
            let Some(end) = self.one(run)? else {
                // Also if only the observer or the worker was told.
                self.summary.is_interrupted = true;
                break;
            };
            self.count(model_id, run, &end);
            listener.run_ends(place, &end);
            if let Some(exclusion) = self.exclusion(run, &end) {
                *self.summary.excluded.entry(exclusion.reason.name().to_owned()).or_default() += 1;
                listener.run_is_excluded(place, &exclusion);
            }
        }
        self.summary.is_interrupted |= self.is_interrupted();
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn count(&mut self, model_id: &str, run: &PlannedRun, end: &RunEnd) {
        let run_id = self.dir.run_id(run);
        let summary = &mut self.summary;
        summary.finished += usize::from(!matches!(end, RunEnd::Failed { .. }));
        match end {
            RunEnd::AlreadyFinished { is_partial } => {
                summary.already_finished += 1;
                summary.partial += usize::from(*is_partial);
            }
            RunEnd::Partial => summary.partial += 1,
            RunEnd::Complete { .. } => {}
            RunEnd::Failed { message, .. } => {
                summary.failed.push(FailedRun { model_id: model_id.to_owned(), run_id, message: message.clone() });
            }
        }
    }

    /// Why a repetition that has its tables does not count. Warm-ups and unrecorded runs never do. A run that cannot be read
    /// is an error of the summary.
    fn exclusion(&self, run: &PlannedRun, end: &RunEnd) -> Option<Exclusion> {
        if matches!(end, RunEnd::Failed { .. }) || !matches!(run.kind, PlannedKind::Repetition(_)) {
            return None;
        }
        let path = self.setup.run_path(run, &self.dir.run_id(run));
        exclusion_of(&read_run(&path).ok()?, &[])
    }

    /// Does one run. None if the user interrupted it.
    fn one(&mut self, run: &PlannedRun) -> Result<Option<RunEnd>, ExperimentError> {
        let run_id = self.dir.run_id(run);
        let path = self.setup.run_path(run, &run_id);
        let end = match FoundRun::at(&path) {
            FoundRun::Finished { is_partial } => Some(RunEnd::AlreadyFinished { is_partial }),
            FoundRun::Recorded => Some(self.finish(&path, &run_id)?),
            found => {
                if found == FoundRun::Torn {
                    self.set_aside(&path, &run_id)?;
                }
                self.attempt(run, &path, &run_id)?
            }
        };
        self.remember_speed(run, &path, &run_id, end.as_ref())?;
        Ok(end)
    }

    /// Makes the tables of a run that was recorded to its end.
    fn finish(&self, path: &Path, run_id: &str) -> Result<RunEnd, ExperimentError> {
        match recover_run(path, &BuildSetup::drawing(&RUN_FIGURE_VIEWS), &mut NoListener) {
            Ok(built) => Ok(end_of(built.is_partial, built.metadata.validity_class())),
            Err(error) if error.is_full_disk() => Err(self.full_disk(run_id, error.to_string(), error.hints())),
            Err(error) => Ok(RunEnd::Failed { message: error.to_string(), hints: error.hints() }),
        }
    }

    fn full_disk(&self, run_id: &str, reason: String, hints: Vec<String>) -> ExperimentError {
        let (finished, planned) = (self.summary.finished, self.summary.planned);
        ExperimentError::DiskFull { run_id: run_id.to_owned(), finished, planned, reason, hints }
    }

    /// Moves what is left of an attempt out of the way.
    fn set_aside(&self, path: &Path, run_id: &str) -> Result<(), ExperimentError> {
        if let Ok(run) = RunDir::open(path) {
            let in_the_way = |error| ExperimentError::InTheWay { run_id: run_id.to_owned(), source: Box::new(error) };
            ensure_unattended(&run).map_err(in_the_way)?;
        }
        Ok(self.dir.set_aside(path, run_id)?)
    }

    /// Records and builds a run that is not there. None if the user interrupted it: the next execution does it anew.
    fn attempt(&self, run: &PlannedRun, path: &Path, run_id: &str) -> Result<Option<RunEnd>, ExperimentError> {
        let task = self.task(run, run_id);
        let end = task.run_apart(self.interrupted).map_err(|source| ExperimentError::NoProcess { source })?;
        match end {
            TaskEnd::Built { is_partial, validity } => return Ok(Some(end_of(is_partial, validity))),
            TaskEnd::Failed(failed) if failed.is_full_disk => {
                return Err(self.full_disk(run_id, failed.message, failed.hints));
            }
            TaskEnd::Interrupted | TaskEnd::Failed(_) if path.exists() => self.set_aside(path, run_id)?,
            TaskEnd::Interrupted | TaskEnd::Failed(_) => {}
        }
        let TaskEnd::Failed(failed) = end else { return Ok(None) };
        let row = failed_row(run_id, &task.request, failed.message.clone());
        ResultsManifest::open(&self.setup.results).record(&row)?;
        Ok(Some(RunEnd::Failed { message: failed.message, hints: failed.hints }))
    }

    fn task(&self, run: &PlannedRun, run_id: &str) -> RunTask {
        let of_combination = |other: &&(PlannedRun, UntracedRun)| {
            (other.0.model_index, other.0.combination) == (run.model_index, run.combination)
        };
        let untraced = self.untraced.as_ref().filter(of_combination).map(|(_, untraced)| untraced.clone());
        RunTask {
            results: self.setup.results.clone(),
            run_id: run_id.to_owned(),
            request: self.requests.request(run, untraced),
            parent_pid: std::process::id(),
        }
    }

    /// The recorded runs of a combination are compared with its unrecorded one.
    fn remember_speed(
        &mut self,
        run: &PlannedRun,
        path: &Path,
        run_id: &str,
        end: Option<&RunEnd>,
    ) -> Result<(), ExperimentError> {
        let is_there = end.is_some_and(|end| !matches!(end, RunEnd::Failed { .. }));
        if is_there && matches!(run.kind, PlannedKind::Untraced(_)) {
            self.untraced = Some((*run, speed_of(path, run_id)?));
        }
        Ok(())
    }

    /// Aggregates what is there, and says that the experiment is finished if it is.
    fn conclude(mut self) -> Result<ExperimentSummary, ExperimentError> {
        if self.summary.is_interrupted {
            return Ok(self.summary);
        }
        let aggregate = write_summary(self.setup, self.dir)?;
        self.summary.exclusions = exclusions_text(&aggregate.excluded);
        self.summary.counting = Some(aggregate.runs);
        if self.summary.finished == self.summary.planned {
            self.dir.set_finished(&self.summary)?;
        }
        Ok(self.summary)
    }
}

fn end_of(is_partial: bool, validity: ValidityClass) -> RunEnd {
    if is_partial { RunEnd::Partial } else { RunEnd::Complete { validity } }
}
