//! The worker as a child process.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use dwell_events::engine::Job;
use dwell_ggml::{OBSERVER_PID_VARIABLE, RING_DIR_VARIABLE, UNTRACED_VARIABLE, ring};
use rustix::process::{Pid, Signal, kill_process};

use crate::RunError;

/// What the worker writes to standard error goes here, in `raw/`.
const WORKER_LOG_NAME: &str = "worker.log";
/// Set to anything but 0 or nothing, makes the runtime talk; then its words go to the terminal instead.
const RUNTIME_LOG_VARIABLE: &str = "DWELL_LLAMA_LOG";
/// Lines of the log that an error message shows.
const LOG_LINES_SHOWN: usize = 5;

/// How to start the worker: a program and the arguments that make it one.
///
/// The binary itself is the worker, with a hidden command; tests may put something else in its place, such as the same
/// binary under an instruction-level tracer.
pub(crate) fn worker_command() -> Result<Command, RunError> {
    let program = std::env::current_exe().map_err(|source| RunError::Spawn { source })?;
    let wrapper = std::env::var("DWELL_WORKER_WRAPPER").unwrap_or_default();
    let mut words = wrapper.split_whitespace();
    let mut command = match words.next() {
        Some(first) => {
            let mut command = Command::new(first);
            command.args(words).arg(&program);
            command
        }
        None => Command::new(&program),
    };
    command.arg("worker");
    Ok(command)
}

/// A running worker; it does not outlive this value.
pub(crate) struct WorkerProcess {
    child: Child,
    raw_dir: PathBuf,
    status: Option<ExitStatus>,
    /// Why it had to be ended, if it had.
    ended_because: Option<String>,
}

impl WorkerProcess {
    /// Starts the worker and gives it its job.
    pub(crate) fn start(job: &Job, is_traced: bool, raw_dir: &Path) -> Result<Self, RunError> {
        let spawn_error = |source| RunError::Spawn { source };
        let log = worker_log(raw_dir).map_err(spawn_error)?;
        let mut command = worker_command()?;
        command
            .env(RING_DIR_VARIABLE, raw_dir)
            .env(OBSERVER_PID_VARIABLE, std::process::id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log);
        if !is_traced {
            command.env(UNTRACED_VARIABLE, "1");
        }
        let mut child = command.spawn().map_err(spawn_error)?;
        give_job(&mut child, job);
        Ok(Self { child, raw_dir: raw_dir.to_owned(), status: None, ended_because: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The ring that the worker makes.
    pub(crate) fn ring_path(&self) -> PathBuf {
        self.raw_dir.join(ring::file_name(self.pid()))
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Asks it to end after what it is computing.
    pub(crate) fn interrupt(&mut self) {
        if !self.has_ended() {
            // It may end between the question and the signal; its process id is ours until it is waited for.
            let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        }
    }

    /// Ends it at once, if it has not ended by itself.
    pub(crate) fn kill(&mut self) {
        if !self.has_ended() {
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }

    /// Ends it at once for a reason, which completes the sentence "the worker was ended because …".
    pub(crate) fn kill_because(&mut self, reason: String) {
        if !self.has_ended() {
            self.kill();
            self.ended_because = Some(reason);
        }
    }

    /// How it ended, as a sentence; `None` if it ended well.
    pub(crate) fn failure(&self) -> Option<String> {
        if let Some(reason) = &self.ended_because {
            return Some(format!("the worker was ended because {reason}"));
        }
        let status = self.status.filter(|status| !status.success())?;
        Some(match (status.code(), self.fatal_signal()) {
            (Some(code), _) => format!("the worker ended with exit code {code}"),
            (_, Some(signal)) => format!("the worker ended by signal {signal}{}", signal_name(signal)),
            _ => "the worker ended for an unknown reason".to_owned(),
        })
    }

    /// The signal that ended it, unless it was ended from here.
    pub(crate) fn fatal_signal(&self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        self.status.filter(|_| self.ended_because.is_none())?.signal()
    }

    /// Whether an interruption ended it before it could take notice of one.
    pub(crate) fn was_interrupted(&self) -> bool {
        let signals = [Signal::INT, Signal::TERM].map(Signal::as_raw);
        self.fatal_signal().is_some_and(|signal| signals.contains(&signal))
    }

    /// The end of its log, as the tail of a sentence.
    pub(crate) fn last_words(&self) -> String {
        let log = std::fs::read(self.raw_dir.join(WORKER_LOG_NAME)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        match &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..] {
            [] => String::new(),
            tail => format!("; it said: {}", tail.join(" / ")),
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn worker_log(raw_dir: &Path) -> std::io::Result<Stdio> {
    let is_wanted = std::env::var_os(RUNTIME_LOG_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
    if is_wanted { Ok(Stdio::inherit()) } else { Ok(File::create(raw_dir.join(WORKER_LOG_NAME))?.into()) }
}

/// Writes the job on a thread of its own: a worker that does not read a long one must not hold up the observer.
fn give_job(child: &mut Child, job: &Job) {
    let text = serde_json::to_vec(job).expect("a job has no maps with keys other than text");
    if let Some(mut stdin) = child.stdin.take() {
        // A worker that died already is found by its exit status.
        thread::spawn(move || stdin.write_all(&text));
    }
}

fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(String::new, |name| format!(" ({name})"))
}
