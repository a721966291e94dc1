//! Run by run through the plan.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use dwell_config::{PlannedRun, RunKind};
use dwell_events::Hint;
use dwell_run::{
    RunError, RunListener, RunRequest, UntracedRun, build_run, discard_run, ensure_unattended, failed_row, record_run,
    recover_run,
};
use dwell_store::{ResultsManifest, RunDir};
use serde::Serialize;

use crate::aggregate::write_summary;
use crate::found_run::{FoundRun, speed_of};
use crate::requests::Requests;
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
    /// It was finished by an earlier execution.
    AlreadyFinished,
    /// All is there.
    Complete {
        /// Its class of validity.
        validity: &'static str,
    },
    /// Something that should have been recorded is missing.
    Partial,
    /// It left nothing.
    Failed {
        /// What was being done, found, needed.
        message: String,
        /// What to do about it.
        hints: Vec<String>,
    },
}

/// What an experiment tells while it goes on, beside what each run tells.
pub trait ExperimentListener: RunListener {
    /// It begins, or goes on, with this much time to be spent.
    fn experiment_begins(&mut self, id: &str, estimate: &Estimate);
    /// A run begins.
    fn run_begins(&mut self, place: RunPlace<'_>);
    /// A run ended.
    fn run_ends(&mut self, place: RunPlace<'_>, end: &RunEnd);
}

/// A run that left nothing.
#[derive(Clone, Debug, Serialize)]
pub struct FailedRun {
    /// The model.
    pub model_id: String,
    /// The run.
    pub run_id: String,
    /// Why.
    pub message: String,
}

/// What became of an experiment.
#[derive(Clone, Debug, Default, Serialize)]
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
    /// Runs of this execution from which something is missing.
    pub partial: usize,
    /// Runs that left nothing.
    pub failed: Vec<FailedRun>,
    /// Whether the user interrupted it.
    pub is_interrupted: bool,
    /// What the aggregates leave out, in words.
    pub exclusions: String,
}

impl ExperimentSummary {
    /// Whether every run of the plan was done and is whole.
    pub fn is_whole(&self) -> bool {
        self.finished == self.planned && self.partial == 0
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
            let Some(end) = self.one(run, listener)? else { break };
            self.count(model_id, run, &end);
            listener.run_ends(place, &end);
        }
        self.summary.is_interrupted = self.is_interrupted();
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn run_id(&self, run: &PlannedRun) -> String {
        format!("{}_{}", self.dir.id(), run.name())
    }

    fn count(&mut self, model_id: &str, run: &PlannedRun, end: &RunEnd) {
        let run_id = self.run_id(run);
        let summary = &mut self.summary;
        summary.finished += usize::from(!matches!(end, RunEnd::Failed { .. }));
        match end {
            RunEnd::AlreadyFinished => summary.already_finished += 1,
            RunEnd::Partial => summary.partial += 1,
            RunEnd::Complete { .. } => {}
            RunEnd::Failed { message, .. } => {
                summary.failed.push(FailedRun { model_id: model_id.to_owned(), run_id, message: message.clone() });
            }
        }
    }

    /// Does one run. None if the user interrupted it.
    fn one(
        &mut self,
        run: &PlannedRun,
        listener: &mut dyn ExperimentListener,
    ) -> Result<Option<RunEnd>, ExperimentError> {
        let (run_id, model_id) = (self.run_id(run), self.setup.models[run.model_index].id.clone());
        let path = self.setup.results.join(&model_id).join(&run_id);
        let end = match FoundRun::at(&path) {
            FoundRun::Finished => Ok(Some(RunEnd::AlreadyFinished)),
            FoundRun::Recorded => recover_run(&path, &|options| options, listener).map(|built| Some(end_of(&built))),
            found => {
                if found == FoundRun::Torn {
                    self.set_aside(&path, &run_id)?;
                }
                self.attempt(run, &model_id, &run_id, listener)
            }
        };
        let end = match end {
            Ok(end) => end,
            Err(error) if error.is_full_disk() => return Err(self.full_disk(run_id, error)),
            Err(error) => Some(RunEnd::Failed { message: error.to_string(), hints: error.hints() }),
        };
        self.remember_speed(run, &path, &run_id, end.as_ref())?;
        Ok(end)
    }

    fn full_disk(&self, run_id: String, source: RunError) -> ExperimentError {
        let (finished, planned) = (self.summary.finished, self.summary.planned);
        ExperimentError::DiskFull { run_id, finished, planned, source: Box::new(source) }
    }

    fn set_aside(&self, path: &Path, run_id: &str) -> Result<(), ExperimentError> {
        if let Ok(run) = RunDir::open(path) {
            let in_the_way = |error| ExperimentError::InTheWay { run_id: run_id.to_owned(), source: Box::new(error) };
            ensure_unattended(&run).map_err(in_the_way)?;
        }
        Ok(self.dir.set_aside(path, run_id)?)
    }

    /// Records and builds a run that is not there.
    fn attempt(
        &self,
        run: &PlannedRun,
        model_id: &str,
        run_id: &str,
        listener: &mut dyn ExperimentListener,
    ) -> Result<Option<RunEnd>, RunError> {
        let compared_with = self
            .untraced
            .as_ref()
            .filter(|(untraced, _)| (untraced.model_index, untraced.combination) == (run.model_index, run.combination));
        let request = self.requests.request(run, compared_with.map(|(_, untraced)| untraced.clone()));
        let dir = RunDir::create(&self.setup.results, model_id, run_id)?;
        let recorded = record_run(&dir, &request, self.interrupted, listener);
        let facts = match recorded {
            Ok(facts) => facts,
            Err(RunError::Interrupted) => {
                discard_run(&dir);
                return Ok(None);
            }
            Err(error) => return self.failed(&dir, &request, error),
        };
        if facts.is_interrupted {
            // It did not come to its end: the next execution does it anew.
            self.dir.set_aside(dir.path(), run_id)?;
            return Ok(None);
        }
        let built = build_run(&dir, &|options| options, listener);
        built.map(|built| Some(end_of(&built))).or_else(|error| self.failed(&dir, &request, error))
    }

    /// Records a failure. Of a run that computed something, the folder is kept, out of the way.
    fn failed(&self, dir: &RunDir, request: &RunRequest, error: RunError) -> Result<Option<RunEnd>, RunError> {
        if !error.leaves_a_run() {
            discard_run(dir);
        }
        if error.is_full_disk() {
            return Err(error);
        }
        if error.leaves_a_run() {
            self.dir.set_aside(dir.path(), dir.run_id())?;
        }
        let row = failed_row(dir.run_id(), request, error.to_string());
        ResultsManifest::open(&self.setup.results).record(&row)?;
        Ok(Some(RunEnd::Failed { message: error.to_string(), hints: error.hints() }))
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
        if is_there && matches!(run.kind, RunKind::Untraced(_)) {
            self.untraced = Some((*run, speed_of(path, run_id)?));
        }
        Ok(())
    }

    /// Aggregates what is there, and says that the experiment is finished if it is.
    fn conclude(mut self) -> Result<ExperimentSummary, ExperimentError> {
        if self.summary.is_interrupted {
            return Ok(self.summary);
        }
        self.summary.exclusions = write_summary(self.setup, self.dir)?;
        if self.summary.finished == self.summary.planned {
            self.dir.set_finished(&self.summary)?;
        }
        Ok(self.summary)
    }
}

fn end_of(built: &dwell_run::BuiltRun) -> RunEnd {
    if built.is_partial { RunEnd::Partial } else { RunEnd::Complete { validity: built.summary.validity.class.name() } }
}
