//! The worker as a child process.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;

use dwell_capture::CaptureJob;
use dwell_events::engine::{JOB_FILE_VARIABLE, Job};
use dwell_ring::{OBSERVER_PID_VARIABLE, RING_DIR_VARIABLE};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::RecordError;

/// What the worker of a run writes to standard error goes here, in `raw/`.
const WORKER_LOG_NAME: &str = "worker.log";
/// Set to anything but 0 or nothing, makes the runtime talk; then its words go to the terminal instead.
const RUNTIME_LOG_VARIABLE: &str = "DWELL_LLAMA_LOG";
/// Lines of the log that an error message shows.
const LOG_LINES_SHOWN: usize = 5;

/// How to start the worker: a program and the arguments that make it one.
///
/// The binary itself is the worker, with a hidden command; tests may put something else in its place, such as the same
/// binary under an instruction-level tracer.
fn worker_command(hidden_command: &str) -> Result<Command, RecordError> {
    let program = std::env::current_exe().map_err(|source| RecordError::Spawn { source })?;
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
    command.arg(hidden_command);
    Ok(command)
}

/// A running worker; it does not outlive this value.
pub(crate) struct WorkerProcess {
    child: Child,
    /// What it writes to standard error, unless that goes to the terminal.
    log: Option<File>,
    status: Option<ExitStatus>,
    /// Why it had to be ended, if it had.
    ended_because: Option<String>,
    /// The job, and where the worker waits for it; none once it has it.
    job: Option<(Vec<u8>, PipeWriter)>,
    /// The end of a pipe that the worker opens by way of this process, where it does not read the job from its standard input.
    _job_file: Option<PipeReader>,
}

impl WorkerProcess {
    /// Starts the worker of a run. It waits for its job, which [`WorkerProcess::give_job`] gives it: what is to watch it from its
    /// first page on is attached before.
    pub(crate) fn start(job: &Job, environment: &[(&str, String)], raw_dir: &Path) -> Result<Self, RecordError> {
        let mut command = worker_command("worker")?;
        // Absolute, because programs into which the recorder is loaded may work in another folder.
        let ring_dir = std::path::absolute(raw_dir).map_err(|source| RecordError::Spawn { source })?;
        command.env(RING_DIR_VARIABLE, ring_dir).stdout(Stdio::null());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        if !job.engine.profile().takes_prompts {
            return Self::spawn_with_terminal(command, job);
        }
        let log_path = raw_dir.join(WORKER_LOG_NAME);
        let make_log = || File::options().read(true).write(true).create(true).truncate(true).open(log_path);
        Self::spawn(command, job, make_log)
    }

    /// Starts the worker of a capture and gives it its job; it reports on its standard output.
    pub(crate) fn start_capture(job: &CaptureJob) -> Result<(Self, ChildStdout), RecordError> {
        let mut command = worker_command("capture-worker")?;
        command.stdout(Stdio::piped());
        let mut worker = Self::spawn(command, job, tempfile::tempfile)?;
        worker.give_job();
        let no_pipe = || RecordError::Spawn { source: io::Error::other("it has no standard output") };
        let stdout = worker.child.stdout.take().ok_or_else(no_pipe)?;
        Ok((worker, stdout))
    }

    fn spawn(
        mut command: Command,
        job: &impl Serialize,
        make_log: impl FnOnce() -> io::Result<File>,
    ) -> Result<Self, RecordError> {
        let spawn_error = |source| RecordError::Spawn { source };
        let log = if is_log_shown() { None } else { Some(make_log().map_err(spawn_error)?) };
        let (job_of, job_to) = io::pipe().map_err(spawn_error)?;
        let stderr = log.as_ref().map_or(Ok(Stdio::inherit()), |log| log.try_clone().map(Stdio::from));
        command
            .env(OBSERVER_PID_VARIABLE, std::process::id().to_string())
            .stdin(job_of)
            .stderr(stderr.map_err(spawn_error)?);
        let child = command.spawn().map_err(spawn_error)?;
        let job = Some((job_text(job), job_to));
        Ok(Self { child, log, status: None, ended_because: None, job, _job_file: None })
    }

    /// Starts a worker whose standard input, output and error are those of the command that it runs.
    ///
    /// The job comes through a pipe, which the worker opens by way of this process: command lines may hold keys, and are not to be
    /// found on the disk.
    fn spawn_with_terminal(mut command: Command, job: &Job) -> Result<Self, RecordError> {
        let spawn_error = |source| RecordError::Spawn { source };
        let (job_of, job_to) = io::pipe().map_err(spawn_error)?;
        let own_pid = std::process::id();
        command
            .env(OBSERVER_PID_VARIABLE, own_pid.to_string())
            .env(JOB_FILE_VARIABLE, format!("/proc/{own_pid}/fd/{}", job_of.as_raw_fd()))
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit());
        let child = command.spawn().map_err(spawn_error)?;
        let job = Some((job_text(job), job_to));
        Ok(Self { child, log: None, status: None, ended_because: None, job, _job_file: Some(job_of) })
    }

    /// Gives the worker its job, on a thread of its own: a worker that does not read a long one must not hold up the observer.
    pub(crate) fn give_job(&mut self) {
        if let Some((text, mut pipe)) = self.job.take() {
            // A worker that died already is found by its exit status.
            thread::spawn(move || pipe.write_all(&text));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) {
        if !self.has_ended() {
            self.status = self.child.wait().ok();
        }
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
            self.wait();
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
        let mut bytes = Vec::new();
        if let Some(mut log) = self.log.as_ref() {
            // What cannot be read is not there to be shown.
            let _ = log.rewind().and_then(|()| log.read_to_end(&mut bytes));
        }
        let log = String::from_utf8_lossy(&bytes);
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

/// Whether what the worker says goes to the terminal.
fn is_log_shown() -> bool {
    std::env::var_os(RUNTIME_LOG_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

fn job_text(job: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(job).expect("a job has no maps with keys other than text")
}

fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(String::new, |name| format!(" ({name})"))
}
