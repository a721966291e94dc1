//! What Ctrl-C and SIGTERM do to `dwell run`, `dwell trace` and `dwell capture`, and to commands that write for long.
//!
//! While the worker runs, the first one ends it and what it computed becomes a partial run. A second one, and one at any
//! other time, ends dwell at once; what is in `raw/` can then be finished with `dwell recover`.
//!
//! A command that writes a file or folder under another name until it is whole takes that away and ends. So does an import with
//! its run, unless the run is being sealed: that takes a moment and is waited for.
//!
//! A traced command is the user's: the first signal is for the command, which may end by it or not, and dwell waits.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use dwell_metadata::RunRecord;
use dwell_process::process_tree;
use dwell_store::RunDir;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::messages::{EXIT_NOT_DONE, Failure, print_failure};
use crate::output::say;

/// How often the removal of an unfinished folder is tried.
const REMOVAL_ATTEMPTS: u32 = 10;

/// What is being done, and with which run.
#[derive(Clone, Default)]
enum Stage {
    #[default]
    Preparing,
    Recording(RunDir),
    Tracing {
        run: RunDir,
        command: Traced,
    },
    Building {
        run: PathBuf,
        was_interrupted: bool,
    },
    /// With the command that goes on with it.
    Experiment(String),
    /// With what to do about the stream.
    Capturing(Vec<String>),
    /// With the file or folder that is not whole yet.
    Writing(PathBuf),
    Importing(RunDir),
}

/// A traced command, and the first signal, which is for it.
#[derive(Clone, Copy, Default)]
struct Traced {
    /// Its process, while it runs.
    pid: Option<u32>,
    /// The signal, as long as there is no process to give it to.
    waiting: Option<i32>,
    /// Whether the first signal has come.
    is_signalled: bool,
}

/// Listens for signals from its making on.
#[derive(Clone, Default)]
pub(crate) struct Interruption {
    is_requested: Arc<AtomicBool>,
    stage: Arc<Mutex<Stage>>,
}

impl Interruption {
    /// Takes over SIGINT and SIGTERM.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let interruption = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("setting the signal handler")?;
        let listener = interruption.clone();
        let listen = move || signals.forever().for_each(|signal| listener.on_signal(signal));
        thread::Builder::new().name("dwell-signals".to_owned()).spawn(listen).context("starting the signal thread")?;
        Ok(interruption)
    }

    /// Set by the first signal while a run is recorded.
    pub(crate) fn is_requested(&self) -> &AtomicBool {
        &self.is_requested
    }

    /// Makes the directory of a run. From then on the first signal ends the worker.
    pub(crate) fn recording_begins<E>(&self, make: impl FnOnce() -> Result<RunDir, E>) -> Result<RunDir, E> {
        self.run_begins(make, Stage::Recording)
    }

    /// The same; while a command runs, the first signal is for the command.
    pub(crate) fn tracing_begins<E>(&self, make: impl FnOnce() -> Result<RunDir, E>) -> Result<RunDir, E> {
        self.run_begins(make, |run| Stage::Tracing { run, command: Traced::default() })
    }

    /// The same for a run that is imported: any signal takes the run away.
    pub(crate) fn importing_begins<E>(&self, make: impl FnOnce() -> Result<RunDir, E>) -> Result<RunDir, E> {
        self.run_begins(make, Stage::Importing)
    }

    /// A signal finds no directory, or one that it knows of and can take away.
    fn run_begins<E>(
        &self,
        make: impl FnOnce() -> Result<RunDir, E>,
        stage_of: impl FnOnce(RunDir) -> Stage,
    ) -> Result<RunDir, E> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let run = make()?;
        *stage = stage_of(run.clone());
        Ok(run)
    }

    /// The traced command runs in this process.
    pub(crate) fn command_runs(&self, pid: u32) {
        self.with_command(|command| {
            command.pid = Some(pid);
            command.waiting.take().into_iter().for_each(|signal| pass_on(signal, pid));
        });
    }

    /// The traced command has ended; its process id may belong to another process soon.
    pub(crate) fn command_ended(&self) {
        self.with_command(|command| command.pid = None);
    }

    /// Changes what is known of the traced command, if there is one.
    fn with_command(&self, change: impl FnOnce(&mut Traced)) {
        if let Stage::Tracing { command, .. } = &mut *self.stage.lock().unwrap_or_else(PoisonError::into_inner) {
            change(command);
        }
    }

    /// Leaves a signal to the traced command, if there is one and it is the first.
    fn is_for_the_command(&self, signal: i32) -> bool {
        let mut is_first = false;
        self.with_command(|command| {
            is_first = !std::mem::replace(&mut command.is_signalled, true);
            match command.pid.filter(|_| is_first) {
                Some(pid) if !has_reached_the_group(signal) => pass_on(signal, pid),
                // It may have begun without dwell having heard of it.
                None if !has_reached_the_group(signal) => command.waiting = Some(signal),
                _ => {}
            }
        });
        is_first
    }

    /// From now on any signal ends dwell, but for the one that ended the recording.
    pub(crate) fn building_begins(&self, run: &Path, was_interrupted: bool) {
        self.enter(Stage::Building { run: run.to_owned(), was_interrupted });
    }

    /// From now on the first signal ends the run that is going on, and the experiment after it.
    pub(crate) fn experiment_begins(&self, resume_command: &str) {
        self.enter(Stage::Experiment(resume_command.to_owned()));
    }

    /// From now on the first signal ends the worker of a capture after its token.
    pub(crate) fn capture_begins(&self, hints: Vec<String>) {
        self.enter(Stage::Capturing(hints));
    }

    /// From now on any signal removes what is not whole, and ends dwell.
    pub(crate) fn writing_begins(&self, unfinished: PathBuf) {
        self.enter(Stage::Writing(unfinished));
    }

    fn enter(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn on_signal(&self, signal: i32) {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failure = Failure::new("ended by the user");
        if self.is_for_the_command(signal) {
            return;
        }
        let is_first = !self.is_requested.swap(true, Ordering::Relaxed);
        let failure = match stage {
            Stage::Recording(_) | Stage::Capturing(_) if is_first => return,
            Stage::Experiment(_) if is_first => {
                return say(format_args!(
                    "\ninterrupted: stopping the current run; press Ctrl-C again to exit at once\n"
                ));
            }
            // A terminal signals the worker too, which can have ended before the signal is noticed here.
            Stage::Building { was_interrupted: true, .. } if is_first => return,
            Stage::Recording(run) | Stage::Tracing { run, .. } if !has_begun(&run) => {
                run.discard();
                Failure::new("ended by the user before anything was recorded; there is no run")
            }
            Stage::Recording(run) | Stage::Tracing { run, .. } => failure.hint(recovery(run.path())),
            Stage::Building { run, .. } => failure.hint(recovery(&run)),
            Stage::Capturing(hints) => hints.into_iter().fold(failure, Failure::hint),
            Stage::Experiment(command) => failure.hint(format!("resume: {command}")),
            Stage::Writing(unfinished) => end_without(&unfinished, &failure),
            // Its row is in the list of runs, or will be.
            Stage::Importing(run) if run.manifest_json().exists() => return,
            Stage::Importing(run) => end_without_run(&run),
            Stage::Preparing => failure,
        };
        print_failure(&failure);
        std::process::exit(EXIT_NOT_DONE.into());
    }
}

/// Ends dwell, and leaves nothing of what was being written.
fn end_without(unfinished: &Path, failure: &Failure) -> ! {
    end_removing(unfinished, failure, || {
        let _ = fs::remove_file(unfinished).or_else(|_| fs::remove_dir_all(unfinished));
    })
}

/// Ends dwell, and leaves nothing of a run that was being imported.
fn end_without_run(run: &RunDir) -> ! {
    let failure = Failure::new("ended by the user; the import left nothing")
        .hint("the same command imports the recording from its beginning");
    end_removing(run.path(), &failure, || run.discard())
}

fn end_removing(unfinished: &Path, failure: &Failure, remove: impl Fn()) -> ! {
    // Kept to the end: the thread that writes must not complain about what is taken away from it.
    let _silence = std::io::stderr().lock();
    print_failure(failure);
    // That thread may put another file into a folder that is being emptied.
    for _ in 0..REMOVAL_ATTEMPTS {
        remove();
        if unfinished.symlink_metadata().is_err() {
            break;
        }
    }
    std::process::exit(EXIT_NOT_DONE.into());
}

/// Whether a run holds what a recording begins with, without which it cannot be finished.
fn has_begun(run: &RunDir) -> bool {
    run.raw().join(RunRecord::FILE_NAME).is_file()
}

fn recovery(run: &Path) -> String {
    format!("finish the run with `dwell recover '{}'`", run.display())
}

/// Gives a signal to a command.
fn pass_on(signal: i32, pid: u32) {
    let target = Pid::from_raw(pid.cast_signed()).zip(Signal::from_named_raw(signal));
    if let Some((pid, signal)) = target {
        // It may have ended just now.
        let _ = kill_process(pid, signal);
    }
}

/// Whether a signal went to the whole process group, and so to the command already: a second one may mean something else
/// to it. The worker, which is in the group too, holds back what it gets. The kernel signals the youngest process of a
/// group first, so the worker has the signal before dwell.
fn has_reached_the_group(signal: i32) -> bool {
    let own = std::process::id();
    let tree = process_tree(own);
    let is_worker = |pid: u32| tree.iter().any(|line| line.pid == pid && line.parent == own);
    // A worker without a child has not started the command yet.
    tree.iter().any(|command| is_worker(command.parent) && is_pending(signal, command.parent))
}

/// Whether a signal waits in a process.
fn is_pending(signal: i32, pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    pending.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
