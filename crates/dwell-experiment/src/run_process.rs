//! Each run of an experiment is observed by a process of its own.
//!
//! So every run is watched by an observer that has done nothing before, as with `dwell run`, and is measured with the
//! memory that observing takes and no more. The process is this binary with a hidden command: it reads a [`RunTask`] and
//! writes a [`TaskEnd`].

use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dwell_analysis::validity::ValidityClass;
use dwell_build::{BuildError, BuildSetup, build_run};
use dwell_events::Hint;
use dwell_metadata::RunRequest;
use dwell_record::RecordError;
use dwell_report::RUN_FIGURE_VIEWS;
use dwell_store::{RunDir, StoreError};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGINT, SIGTERM};

/// The hidden command.
const COMMAND: &str = "planned-run";
/// How often is looked whether the process has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// One run to be done.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunTask {
    /// Where results go.
    pub results: PathBuf,
    /// Name of the run.
    pub run_id: String,
    /// What to run and how to watch it.
    pub request: RunRequest,
    /// The process that waits for the run; the run does not outlive it.
    pub parent_pid: u32,
}

/// What became of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEnd {
    /// It has its tables.
    Built {
        /// Whether something that should have been recorded is missing.
        is_partial: bool,
        /// Whether it was disturbed.
        validity: ValidityClass,
    },
    /// The user interrupted it; what was recorded is of no use.
    Interrupted,
    /// It could not be made.
    Failed(FailedTask),
}

/// Why a run could not be made.
#[derive(Debug, Serialize, Deserialize)]
pub struct FailedTask {
    /// What was being done, found, needed.
    pub message: String,
    /// What to do about it.
    pub hints: Vec<String>,
    /// Whether no other run can succeed either.
    pub is_full_disk: bool,
}

/// Why a run could not be recorded and built.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// Its directory could not be made.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Its tables could not be made.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Hint for TaskError {
    fn hints(&self) -> Vec<String> {
        match self {
            TaskError::Store(error) => error.hints(),
            TaskError::Record(error) => error.hints(),
            TaskError::Build(error) => error.hints(),
        }
    }
}

impl FailedTask {
    fn of(error: &TaskError) -> Self {
        let is_full_disk = match error {
            TaskError::Store(error) => error.is_full_disk(),
            TaskError::Record(error) => error.is_full_disk(),
            TaskError::Build(error) => error.is_full_disk(),
        };
        Self { message: error.to_string(), hints: error.hints(), is_full_disk }
    }
}

impl RunTask {
    /// Does the run in a process of its own. Setting `interrupted` ends it.
    pub(crate) fn run_apart(&self, interrupted: &AtomicBool) -> io::Result<TaskEnd> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A signal from the terminal is passed on from here, once.
            .process_group(0)
            .spawn()?;
        let stdout = child.stdout.take();
        let (sent, status, text) = thread::scope(|scope| {
            // Beside the waiting: a process whose answer does not fit into the pipe would never end.
            let answer = scope.spawn(|| stdout.map_or(Ok(String::new()), io::read_to_string));
            let sent = self.send(&mut child);
            let status = wait(&mut child, interrupted)?;
            let text = answer.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            Ok::<_, io::Error>((sent, status, text))
        })?;
        Ok(serde_json::from_str(&text).unwrap_or_else(|_| match interrupted.load(Ordering::Relaxed) {
            // The signal came before the process was ready for it.
            true => TaskEnd::Interrupted,
            // A process that died before it had read everything is told by its end.
            false => TaskEnd::Failed(died(status, sent.err())),
        }))
    }

    fn send(&self, child: &mut Child) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(&text))
    }

    /// Does the run in this process, which was started for it.
    pub fn run_here(&self) -> TaskEnd {
        match self.record_and_build() {
            Ok(end) => end,
            Err(TaskError::Record(RecordError::Interrupted)) => TaskEnd::Interrupted,
            Err(error) => TaskEnd::Failed(FailedTask::of(&error)),
        }
    }

    fn record_and_build(&self) -> Result<TaskEnd, TaskError> {
        let interrupted = die_with_the_parent(self.parent_pid).map_err(|source| RecordError::Spawn { source })?;
        let run = RunDir::create(&self.results, &self.request.model_id, &self.run_id)?;
        let facts = dwell_record::record_run(&run, &self.request, &interrupted, &mut dwell_record::NoListener)
            .inspect_err(|error| {
                if !error.leaves_a_run() {
                    run.discard();
                }
            })?;
        if facts.is_interrupted {
            return Ok(TaskEnd::Interrupted);
        }
        // Half of a run is no repetition: it is tried again by resuming.
        if let Some(message) = facts.worker_failure {
            return Ok(TaskEnd::Failed(FailedTask { message, hints: Vec::new(), is_full_disk: false }));
        }
        let built = build_run(&run, &BuildSetup::drawing(&RUN_FIGURE_VIEWS), &mut dwell_build::NoListener)?;
        Ok(TaskEnd::Built { is_partial: built.is_partial, validity: built.metadata.validity_class() })
    }
}

/// Sees to it that this process ends with its parent. Returns the flag that an interruption sets.
fn die_with_the_parent(parent_pid: u32) -> io::Result<Arc<AtomicBool>> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the kernel was asked.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get().unsigned_abs() != parent_pid) {
        return Err(io::Error::other("the process that asked for the run has ended"));
    }
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(flag)
}

fn wait(child: &mut Child, interrupted: &AtomicBool) -> io::Result<ExitStatus> {
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupted.load(Ordering::Relaxed) && !is_told {
            // It may end between the question and the signal; its process id is ours until it is waited for.
            let _ = kill_process(Pid::from_child(child), Signal::INT);
            is_told = true;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn died(status: ExitStatus, unsent: Option<io::Error>) -> FailedTask {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("ended by signal {signal}"),
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => "ended".to_owned(),
    };
    let unsent = unsent.map_or_else(String::new, |error| format!(" ({error})"));
    FailedTask { message: format!("the observer of the run {how}{unsent}"), hints: Vec::new(), is_full_disk: false }
}
