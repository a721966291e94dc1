//! A capture from start to finish: the worker writes the stream, this process follows it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::ChildStdout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use dwell_capture::{CaptureCounts, CaptureEvent, CaptureJob, CaptureOutput, Group, ListedTensor};
use dwell_events::Phase;
use dwell_events::engine::{EngineEvent, StopReason, WorkTotals};
use dwell_metadata::Generation;
use dwell_tensors::{TensorFile, earlier_path, put_back_earlier};

use crate::RecordError;
use crate::error::hints_after_signal;
use crate::patience::Patience;
use crate::worker_process::WorkerProcess;

/// How often an interruption is looked for while the worker says nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What a capture tells while it goes on.
pub trait CaptureListener {
    /// The worker told something.
    fn event(&mut self, event: &CaptureEvent);
    /// The user interrupted; the worker was asked to end.
    fn interrupted(&mut self) {}
}

/// What a capture came to.
#[derive(Clone, Debug, Default)]
pub struct CaptureReport {
    /// What there is to capture, if that was the question.
    pub graph: Vec<ListedTensor>,
    /// What was captured, with the groups, in the order of the graph.
    pub tensors: Vec<(String, Option<Group>)>,
    /// What was asked for and cannot be stored.
    pub unstorable: Vec<String>,
    /// Whether of a prompt some have the last position alone.
    pub has_last_position_only: bool,
    /// Tensors that the stream had before.
    pub resumed_packets: u64,
    /// The stream's last counts.
    pub counts: CaptureCounts,
    /// From the stream's opening to its last byte.
    pub duration_ns: u64,
    /// Whether the stream has its index; else it can be gone on with.
    pub is_finished: bool,
    /// Whether the user interrupted before all was done.
    pub is_interrupted: bool,
    /// Tokens and speed.
    pub generation: Option<Generation>,
    /// Whether a stream was opened.
    has_stream: bool,
    /// Whether a stream was closed.
    has_ended: bool,
    /// Message and hints of a failure.
    failure: Option<(String, Vec<String>)>,
}

/// Does a capture in a worker and returns when the worker has ended.
///
/// `interrupted` is set by the caller's signal handler; the worker then ends after the token that it computes, and the
/// stream holds what there is.
pub fn capture(
    job: &CaptureJob,
    interrupted: &AtomicBool,
    listener: &mut dyn CaptureListener,
) -> Result<CaptureReport, RecordError> {
    let (mut worker, stdout) = WorkerProcess::start_capture(job)?;
    let events = read_events(stdout)?;
    let mut report = CaptureReport::default();
    let mut patience = Patience::new();
    let (mut has_begun, mut is_closing) = (false, false);
    loop {
        match events.recv_timeout(POLL_INTERVAL) {
            Ok(event) => {
                has_begun = true;
                is_closing |= is_teardown(&event);
                listener.event(&event);
                report.note(event);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        // What waits in memory may take long to be written; that is not to be cut off.
        if !is_closing && patience.look(&mut worker, has_begun, interrupted.load(Ordering::Relaxed)) {
            listener.interrupted();
        }
    }
    worker.wait();
    report.judge(job, &worker, interrupted.load(Ordering::Relaxed))
}

/// Reads what the worker tells on a thread of its own, until it ends.
fn read_events(stdout: ChildStdout) -> Result<Receiver<CaptureEvent>, RecordError> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // The last line of a worker that died may be cut off.
            let Ok(event) = serde_json::from_str(&line) else { continue };
            if sender.send(event).is_err() {
                break;
            }
        }
    };
    thread::Builder::new()
        .name("dwell-capture".to_owned())
        .spawn(read)
        .map_err(|source| RecordError::Spawn { source })?;
    Ok(receiver)
}

fn is_teardown(event: &CaptureEvent) -> bool {
    matches!(event, CaptureEvent::Engine { event: EngineEvent::PhaseBegins { phase: Phase::Teardown } })
}

impl CaptureReport {
    fn note(&mut self, event: CaptureEvent) {
        match event {
            CaptureEvent::Graph { tensors } => self.graph = tensors,
            CaptureEvent::Begun { tensors, unstorable, has_last_position_only, resumed_packets, .. } => {
                self.has_stream = true;
                (self.tensors, self.unstorable) = (tensors, unstorable);
                (self.has_last_position_only, self.resumed_packets) = (has_last_position_only, resumed_packets);
            }
            CaptureEvent::Progress { counts } => self.counts = counts,
            CaptureEvent::Ended { counts, duration_ns, is_finished } => {
                self.has_ended = true;
                (self.counts, self.duration_ns, self.is_finished) = (counts, duration_ns, is_finished);
            }
            CaptureEvent::Engine { event } => self.note_engine(event),
        }
    }

    fn note_engine(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::Stopped { reason: StopReason::Interrupted, .. } => self.is_interrupted = true,
            EngineEvent::Finished { prompt_tokens, cached_tokens, prompt_ns, generated_tokens, decode_ns } => {
                let totals = WorkTotals { prompt_tokens, cached_tokens, prompt_ns, generated_tokens, decode_ns };
                // The first token comes from the prompt.
                self.generation = Some(Generation::of(totals, generated_tokens.saturating_sub(1)));
            }
            // The first failure is the cause of the others.
            EngineEvent::Failed { message, hints } if self.failure.is_none() => self.failure = Some((message, hints)),
            _ => {}
        }
    }

    fn judge(mut self, job: &CaptureJob, worker: &WorkerProcess, was_interrupted: bool) -> Result<Self, RecordError> {
        match (self.failure.take(), worker.failure(), &job.output) {
            (None, None, _) if self.has_ended || !self.graph.is_empty() => Ok(self),
            (Some((message, hints)), _, Some(output)) if self.has_stream && is_removed_empty(output) => {
                let (path, hints) = (output.path.clone(), without_recovery(hints));
                Err(match self.has_ended {
                    // The stream was closed in order: the engine failed before it had computed anything.
                    true => RecordError::Engine { message, hints },
                    false => RecordError::NothingCaptured { reason: message, path, hints },
                })
            }
            (failure, how, Some(output)) if self.has_stream => {
                let how = || how.map(|how| (how + &worker.last_words(), hints_after_signal(worker.fatal_signal())));
                let ended = || ("the worker ended without closing the stream".to_owned(), Vec::new());
                let (reason, hints) = failure.or_else(how).unwrap_or_else(ended);
                let mut hints = without_recovery(hints);
                if !self.is_finished {
                    let path = output.path.display();
                    hints.push(format!("end the stream where it is with `dwell tensors recover '{path}'`"));
                }
                hints.extend(hint_on_earlier(&output.path));
                Err(RecordError::CaptureStopped { reason, kept: kept(&output.path), path: output.path.clone(), hints })
            }
            (Some((message, hints)), _, _) => Err(RecordError::Engine { message, hints }),
            (None, _, _) if was_interrupted || self.is_interrupted || worker.was_interrupted() => {
                Err(RecordError::Interrupted)
            }
            (None, how, _) => Err(RecordError::WorkerDied {
                how: how.unwrap_or_else(|| "the worker ended".to_owned()),
                signal: worker.fatal_signal(),
                last_words: worker.last_words(),
            }),
        }
    }
}

/// Where the stream is that this capture was to replace.
fn hint_on_earlier(path: &Path) -> Option<String> {
    let earlier = earlier_path(path);
    earlier.exists().then(|| format!("the earlier stream was not replaced: it is kept as '{}'", earlier.display()))
}

/// Removes a new stream in which there is nothing, so that the next attempt finds none in its way, and gives one that
/// it was to replace its name back.
fn is_removed_empty(output: &CaptureOutput) -> bool {
    let is_empty = |file: TensorFile| file.packets().is_empty() && file.tokens().is_empty();
    let is_new = !output.is_resumed && output.checkpoint_every.is_none();
    is_new && TensorFile::open(&output.path).is_ok_and(is_empty) && fs::remove_file(&output.path).is_ok() && {
        // If it cannot be, it is still there under the other name.
        let _ = put_back_earlier(&output.path);
        true
    }
}

/// What the worker says about recovery was said while the stream was open: only here is it known what became of it.
fn without_recovery(hints: Vec<String>) -> Vec<String> {
    hints.into_iter().filter(|hint| !hint.contains("dwell tensors recover")).collect()
}

/// What a stream that was cut off holds, in words.
fn kept(path: &Path) -> String {
    match TensorFile::open(path) {
        Ok(file) => format!("{} tensors and {} tokens are safe", file.packets().len(), file.tokens().len()),
        Err(_) => "nothing was flushed yet".to_owned(),
    }
}
