//! How long the worker is waited for.

use std::time::{Duration, Instant};

use crate::worker_process::WorkerProcess;

/// How long a worker may take to make its ring; under an instruction-level tracer it is slow.
const LONGEST_START: Duration = Duration::from_secs(240);
/// How long an interrupted worker may go on with what it is computing. What it computed before is in the ring, so
/// ending it costs one unfinished step.
const LONGEST_STOP: Duration = Duration::from_secs(10);

/// Passes an interruption on to the worker, and ends a worker that does not begin or does not stop.
pub(crate) struct Patience {
    started_at: Instant,
    interrupted_at: Option<Instant>,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { started_at: Instant::now(), interrupted_at: None }
    }

    /// To be called now and then while the worker runs; says whether an interruption was passed on just now.
    pub(crate) fn look(&mut self, worker: &mut WorkerProcess, has_begun: bool, is_interrupted: bool) -> bool {
        let is_news = is_interrupted && self.interrupted_at.is_none();
        if is_news {
            self.interrupted_at = Some(Instant::now());
            // A terminal signals both processes, other senders only this one; a second signal does the worker no harm.
            worker.interrupt();
        }
        if self.interrupted_at.is_some_and(|at| at.elapsed() >= LONGEST_STOP) {
            worker.kill_because(format!("it had not stopped {} s after the interruption", LONGEST_STOP.as_secs()));
        } else if !has_begun && self.started_at.elapsed() >= LONGEST_START {
            worker.kill_because(format!("it had not begun after {} s", LONGEST_START.as_secs()));
        }
        is_news
    }
}
