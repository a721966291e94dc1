//! What Ctrl-C and SIGTERM do to `dwell run` and `dwell capture`.
//!
//! While the worker runs, the first one ends it and what it computed becomes a partial run. A second one, and one at any
//! other time, ends dwell at once; what is in `raw/` can then be finished with `dwell recover`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::messages::{EXIT_NOT_DONE, Failure, print_failure};
use crate::output::say;

/// What is being done, and with which run.
#[derive(Clone, Default)]
enum Stage {
    #[default]
    Preparing,
    Recording(PathBuf),
    Building {
        run: PathBuf,
        was_interrupted: bool,
    },
    /// With the command that goes on with it.
    Experiment(String),
    /// With what to do about the stream.
    Capturing(Vec<String>),
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
        let listen = move || signals.forever().for_each(|_| listener.on_signal());
        thread::Builder::new().name("dwell-signals".to_owned()).spawn(listen).context("starting the signal thread")?;
        Ok(interruption)
    }

    /// Set by the first signal while a run is recorded.
    pub(crate) fn is_requested(&self) -> &AtomicBool {
        &self.is_requested
    }

    /// From now on the first signal ends the worker.
    pub(crate) fn recording_begins(&self, run: &Path) {
        self.enter(Stage::Recording(run.to_owned()));
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

    fn enter(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn on_signal(&self) {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failure = Failure::new("ended by the user");
        let is_first = !self.is_requested.swap(true, Ordering::Relaxed);
        let failure = match stage {
            Stage::Recording(_) | Stage::Capturing(_) if is_first => return,
            Stage::Experiment(_) if is_first => {
                return say(format_args!("\ninterrupted: ending the run that is going on; again to end at once\n"));
            }
            // A terminal signals the worker too, which can have ended before the signal is noticed here.
            Stage::Building { was_interrupted: true, .. } if is_first => return,
            Stage::Recording(run) | Stage::Building { run, .. } => {
                failure.hint(format!("finish the run with `dwell recover '{}'`", run.display()))
            }
            Stage::Capturing(hints) => hints.into_iter().fold(failure, Failure::hint),
            Stage::Experiment(command) => failure.hint(format!("go on with `{command}`")),
            Stage::Preparing => failure,
        };
        print_failure(&failure);
        std::process::exit(EXIT_NOT_DONE.into());
    }
}
