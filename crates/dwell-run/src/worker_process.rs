//! The worker as a child process.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use dwell_events::engine::Job;
use dwell_ggml::{OBSERVER_PID_VARIABLE, RING_DIR_VARIABLE, ring};

use crate::RunError;

/// What the worker writes to standard error goes here, in `raw/`.
const LOG_NAME: &str = "worker.log";
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

/// A running worker.
pub(crate) struct WorkerProcess {
    child: Child,
    raw_dir: PathBuf,
    status: Option<ExitStatus>,
}

impl WorkerProcess {
    /// Starts the worker and gives it its job.
    pub(crate) fn start(job: &Job, is_traced: bool, raw_dir: &Path) -> Result<Self, RunError> {
        let spawn_error = |source| RunError::Spawn { source };
        let log = File::create(raw_dir.join(LOG_NAME)).map_err(spawn_error)?;
        let mut command = worker_command()?;
        command
            .env(RING_DIR_VARIABLE, raw_dir)
            .env(OBSERVER_PID_VARIABLE, std::process::id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log);
        if !is_traced {
            command.env("DWELL_UNTRACED", "1");
        }
        let mut child = command.spawn().map_err(spawn_error)?;
        let text = serde_json::to_vec(job).expect("a job has no maps with keys other than text");
        if let Some(mut stdin) = child.stdin.take() {
            // A worker that died already is found by its exit status.
            let _ = stdin.write_all(&text);
        }
        Ok(Self { child, raw_dir: raw_dir.to_owned(), status: None })
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

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        self.status = self.child.wait().ok();
    }

    /// `None` if it ended well; otherwise how it ended.
    pub(crate) fn failure(&self) -> Option<String> {
        use std::os::unix::process::ExitStatusExt;
        let status = self.status?;
        if status.success() {
            return None;
        }
        Some(match (status.code(), status.signal()) {
            (Some(code), _) => format!("with exit code {code}"),
            (_, Some(signal)) => format!("by signal {signal}"),
            _ => "for an unknown reason".to_owned(),
        })
    }

    /// The end of its log, as the tail of a sentence.
    pub(crate) fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.raw_dir.join(LOG_NAME)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        match &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..] {
            [] => String::new(),
            tail => format!("; it said: {}", tail.join(" / ")),
        }
    }
}
